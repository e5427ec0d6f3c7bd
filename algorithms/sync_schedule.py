"""How the sync time changes from round to round and from group to group: the ``schedule`` table.

S is ``algorithm.sync_time_s``; rounds count from 1, groups in the order of the topology's gateways.
``ramp`` is Fig. 13 of Ali and Arafa, *Delay Sensitive Hierarchical Federated Learning With
Stochastic Local Updates*, IEEE TCCN 2025; ``per-group`` and ``adaptive`` are ours, for the question
that its Remark 7 leaves open.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.section import LONGEST_S, Section


class ConstantSchedule(Section):
    """S in every round, for every group."""

    kind: Literal["constant"] = "constant"

    def sync_time_s(self, base_s: float, number: int, group: int) -> float:
        return base_s


class RampSchedule(Section):
    """From a short time, longer by a step each round, until it is S."""

    kind: Literal["ramp"] = "ramp"
    from_s: float = Field(1.0, ge=0, le=LONGEST_S)
    """In the first round."""
    step_s: float = Field(1.0, gt=0, le=LONGEST_S)
    """So much longer in each round."""

    def sync_time_s(self, base_s: float, number: int, group: int) -> float:
        return min(base_s, self.from_s + self.step_s * (number - 1))  # Fig. 13


class PerGroupSchedule(Section):
    """S times a factor of the group's own."""

    kind: Literal["per-group"] = "per-group"
    factors: tuple[Annotated[float, Field(ge=0, le=1e6)], ...] = Field(min_length=1)
    """One for each gateway, in the topology's order."""

    def sync_time_s(self, base_s: float, number: int, group: int) -> float:
        return base_s * self.factors[group]


class AdaptiveSchedule(Section):
    """S at first; then longer while groups agree, shorter when they do not.

    Groups that move the same way need not meet often. ``agreement`` is 1 if all of them moved
    alike, 0 if at right angles, less if against each other.
    """

    kind: Literal["adaptive"] = "adaptive"
    agreement: float = Field(0.5, ge=-1, le=1)
    """From this agreement on, the next round is longer."""
    factor: float = Field(1.2, gt=1)
    """By which the next round is longer or shorter."""
    least_s: float = Field(0.0, ge=0, le=LONGEST_S)
    """The sync time is never shorter."""
    most_s: float = Field(LONGEST_S, gt=0, le=LONGEST_S)
    """Nor longer."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.least_s > self.most_s:
            raise ValueError(f"least_s = {self.least_s:g} is above most_s = {self.most_s:g}")
        return self

    def sync_time_s(self, base_s: float, number: int, group: int) -> float:
        return base_s

    def next_s(self, base_s: float, agreement: float) -> float:
        longer = agreement >= self.agreement
        time_s = base_s * self.factor if longer else base_s / self.factor
        return min(max(time_s, self.least_s), self.most_s)


SyncSchedule = Annotated[
    ConstantSchedule | RampSchedule | PerGroupSchedule | AdaptiveSchedule,
    Field(discriminator="kind"),
]
