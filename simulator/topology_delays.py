"""What a global round of each of the four topologies takes on a scenario's network, and sends.

Each is played for some rounds without learning, on the network itself, whichever it is: so it is in
the numbers that a star's transfers share channels and wait for the slowest, and that a ring's
follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from algorithms.star_ring_bounds import FOUR, Tier
from algorithms.star_ring_hfl import StarRingSection
from simulator.errors import UserError
from simulator.kernel import Simulation
from simulator.rehearsal import Silent, rehearse
from simulator.scenario import Scenario
from simulator.units import Time, to_seconds


class Cost(NamedTuple):
    """Of a global round, in the mean."""

    seconds: float
    nbytes: float
    participants: float = 1.0
    """Devices that have a part in a group's round."""


def section_of(scenario: Scenario) -> StarRingSection:
    section = scenario.algorithm
    if not isinstance(section, StarRingSection):
        raise UserError(
            f"algorithm.name = {section.name!r} has no topology to advise on; use 'star-ring-hfl'"
        )
    return section


def shaped(scenario: Scenario, top: Tier, lower: Tier) -> Scenario:
    return scenario.model_copy(update={"algorithm": section_of(scenario).shaped(top, lower)})


def measure_rounds(scenario: Scenario, base: Path, rounds: int) -> dict[tuple[Tier, Tier], Cost]:
    return {pair: _measure(shaped(scenario, *pair), base, rounds) for pair in FOUR}


def _measure(scenario: Scenario, base: Path, rounds: int) -> Cost:
    """The first round, in which devices are met for the first time, does not count."""
    watch = _Watch(rounds + 1)
    if rehearse(scenario, base, watch) != "enough":
        section = section_of(scenario)
        raise UserError(
            f"rounds of {section.top}-{section.lower} cannot be measured: somebody waits for ever "
            "for a device or a transfer that is lost; set algorithm.device_timeout_s or "
            "gateway_timeout_s, and cloud_timeout_s"
        )
    (began, before), (ended, after) = watch.seen[1], watch.seen[-1]
    cost = Cost(
        to_seconds(ended - began) / rounds, (after - before) / rounds,
        float(np.mean(watch.participants)) if watch.participants else 0.0,
    )  # fmt: skip
    if not cost.participants:
        raise _in_vain(section_of(scenario))
    return cost


def _in_vain(section: StarRingSection) -> UserError:
    """Rounds that nobody has a part in are short, and say nothing about topologies."""
    key = section.deadline_key
    timeout_s = getattr(section, key)
    why = (
        "everything is lost; use a network that loses less"
        if timeout_s is None
        else f"algorithm.{key} = {timeout_s:g} is too short for them, or all is lost; "
        "give a longer one"
    )
    return UserError(
        f"in rounds of {section.top}-{section.lower} no device's model reaches its gateway: {why}"
    )


@dataclass
class _Watch(Silent):
    last: int
    """Stops the run when this round is over."""
    sim: Simulation | None = None
    seen: list[tuple[Time, int]] = field(default_factory=list)
    """By round: when it ended, and how much had been sent."""
    participants: list[int] = field(default_factory=list)
    """Of groups' rounds after the first global one."""

    def row(self, time: Time, row: dict[str, Any]) -> None:
        assert self.sim is not None
        if row["tier"] == "gateway" and len(self.seen) > 1:
            self.participants.append(row["participants"])
        if row["tier"] != "cloud":
            return
        self.seen.append((time, sum(self.sim.progress.bytes_by_kind.values())))
        if row["epoch"] == self.last:
            self.sim.stop("enough")
