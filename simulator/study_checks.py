"""Published findings as checks: of which variant something is more than of others, and by how much.

    [[checks]]
    claim = "some local iterations beat none"
    more = "S = 5"
    than = ["S = 0"]

A measure is a variant's name, or a table: ``{variant = "S = 5", of = "best", until_s = 750}``.
Means over seeds decide; how many seeds agree is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from simulator.results import Results
from simulator.section import Section

if TYPE_CHECKING:
    import pandas as pd


class Measure(Section):
    """One number of a variant's runs."""

    variant: str
    """Its name; of those that the study tunes, without the tuned key."""
    of: Literal["final", "best", "rounds", "swing"] = "final"
    """Last or best score, cloud rounds, or the mean change from one score to the next."""
    node: str | None = None
    """A gateway whose own model is meant; unset: the global model."""
    from_s: float = Field(0.0, ge=0)
    """What came before this time does not count."""
    until_s: float | None = Field(None, gt=0)
    """Nor what came after this one."""

    @property
    def name(self) -> str:
        parts = [self.variant, *([self.node] if self.node else [])]
        span = [f"from {self.from_s:g} s"] if self.from_s else []
        span += [f"until {self.until_s:g} s"] if self.until_s is not None else []
        return " ".join([", ".join(parts), *span])


def _table(value: Any) -> Any:
    return {"variant": value} if isinstance(value, str) else value


Measured = Annotated[Measure, BeforeValidator(_table)]


class Check(Section):
    claim: str
    """What was published, in a few words."""
    more: Measured
    than: tuple[Measured, ...] = Field(min_length=1)
    by: float = 0.0
    """The difference must be larger than this."""
    times: float | None = Field(None, gt=0)
    """Or the ratio at least this, instead."""


class Comparison(NamedTuple):
    """One of a check's pairs."""

    more: Measure
    than: Measure
    left: float
    """Mean over seeds."""
    right: float
    agreeing: int
    seeds: int


class Finding(NamedTuple):
    check: Check
    comparisons: list[Comparison]

    @property
    def holds(self) -> bool:
        return all(is_more(self.check, c.left, c.right) for c in self.comparisons)

    @property
    def text(self) -> str:
        pairs = "; ".join(_told(c) for c in self.comparisons)
        return f"{'holds' if self.holds else 'DOES NOT HOLD'}: {self.check.claim} ({pairs})"


def _told(pair: Comparison) -> str:
    left, right = pair.more, pair.than
    other = right.name if right.of == left.of else f"{right.of} of {right.name}"
    return (
        f"{left.of} of {left.name} {pair.left:.4g}, {other} {pair.right:.4g}: "
        f"{pair.left - pair.right:+.4g}, {pair.agreeing} of {pair.seeds} seeds"
    )


def is_more(check: Check, left: float, right: float) -> bool:
    return left >= check.times * right if check.times is not None else left - right > check.by


def judge(
    checks: Iterable[Check], results_of: Callable[[str], dict[int, Results]]
) -> list[Finding]:
    """``results_of``: a variant's runs by seed. Checks of variants without runs are left out."""
    found = []
    for check in checks:
        pairs = [(check.more, other) for other in check.than]
        if all(results_of(m.variant) for pair in pairs for m in pair):
            found.append(Finding(check, [_compare(check, *pair, results_of) for pair in pairs]))
    return found


def _compare(
    check: Check, more: Measure, than: Measure, results_of: Callable[[str], dict[int, Results]]
) -> Comparison:
    left = {seed: value_of(more, result) for seed, result in results_of(more.variant).items()}
    right = {seed: value_of(than, result) for seed, result in results_of(than.variant).items()}
    both = sorted(left.keys() & right.keys())
    agreeing = sum(is_more(check, left[seed], right[seed]) for seed in both)
    return Comparison(more, than, _mean(left), _mean(right), agreeing, len(both))


def _mean(values: dict[int, float]) -> float:
    return float(np.mean(list(values.values())))


def value_of(measure: Measure, result: Results) -> float:
    """NaN where there is nothing to measure."""
    curve = result.curve if measure.node is None else result.gateway_curve(measure.node)
    until = np.inf if measure.until_s is None else measure.until_s
    curve = curve[curve["sim_time_s"].between(measure.from_s, until)]
    if measure.of == "rounds":
        return float(curve["epoch"].max() - curve["epoch"].min()) if len(curve) else float("nan")
    scores = curve["loss" if result.is_regression else "accuracy"].astype(float)
    return _of(measure.of, scores, result.is_regression) if len(scores) else float("nan")


def _of(what: str, scores: pd.Series, is_regression: bool) -> float:
    if what == "final":
        return float(scores.iloc[-1])
    if what == "swing":
        return float(scores.diff().abs().mean())
    return float(scores.min() if is_regression else scores.max())
