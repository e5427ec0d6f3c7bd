"""Which sync time? The question that sync-time HFL's Remark 7 leaves open.

Delays are measured on the scenario's network, rounds are drawn from them for each S, and of each S
a bound is computed, with the step size at which it is least. (20), the paper's, is least at S = 0
whatever the delays (``algorithms.sync_time_bounds``); the advice goes by ours, for ``none`` and
``fednova`` with losses taken as convex. A bound is made of the worst case, from numbers measured
where training begins, and on every network so far it was least at S = 0 or near it, where longer S
learned more. So a race goes through all S, and not only through those that the bound prefers; the
better half goes on for twice as long. Bounds are for an S that stays; what races has the
scenario's schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from algorithms.sync_time_bounds import (
    Constants,
    Terms,
    global_bound,
    mean_step_bound,
    whole_steps_bound,
)
from algorithms.sync_time_hfl import Normalise, SyncTimeSection
from simulator import race as halving
from simulator.errors import UserError
from simulator.figures import COLOURS
from simulator.rng import Stream, generator
from simulator.scenario import Scenario
from simulator.study import Run
from simulator.sync_delays import Course, Delays, draw_path

_PATHS = 5
"""Drawn for each S; numbers are means over them."""
_RATES = 40
_SYNC_TIMES = 10
_LEAST_RATE = 1e-4
"""Of the largest step size that a bound allows."""

Bound = Callable[[Constants, float, Sequence[Sequence[int]], Sequence[int]], Terms]


class Horizon(NamedTuple):
    time_s: float
    """T."""
    cut_off: bool
    """The round that goes past it does not count; else it is finished, as in (13)."""


def horizon(scenario: Scenario) -> Horizon:
    section = scenario.algorithm
    if not isinstance(section, SyncTimeSection):
        raise UserError(
            f"algorithm.name = {section.name!r} has no sync time to advise on; use 'sync-time'"
        )
    if scenario.run.learning == "none":
        raise UserError(
            "run.learning = 'none': which S is best is a matter of what is learned; delete it"
        )
    if section.gradient_bound is not None:
        raise UserError(
            f"algorithm.gradient_bound = {section.gradient_bound:g} gives each group a step size "
            "of its own, and advice is for one of all groups; delete it"
        )
    cut_s, finished_s = scenario.run.sim_time_s, section.system_time_s
    if cut_s is not None and (finished_s is None or cut_s <= finished_s):
        return Horizon(cut_s, cut_off=True)
    if finished_s is None:
        raise UserError(
            "which S is best depends on the time that there is; give run.sim_time_s, or "
            "algorithm.system_time_s"
        )
    return Horizon(finished_s, cut_off=False)


def sync_times(delays: Delays, time_s: float) -> list[float]:
    """0, and up to ten from one iteration of the fastest group to a quarter of all time."""
    shortest = min(float(times.mean()) for times in delays.local_s)
    longest = max(time_s / 4, 2 * shortest)
    spaced = np.geomspace(shortest, longest, _SYNC_TIMES)
    rounded = (float(f"{time:.2g}") for time in spaced)
    return [0.0, *(time for time in rounded if time <= time_s)]


def bounds_over(
    constants: Constants,
    sizes: Sequence[int],
    delays: Delays,
    times_s: Sequence[float],
    until: Horizon,
    normalise: Normalise,
    seed: int,
) -> pd.DataFrame:
    """A row for each S: rounds, iterations, waiting, (20), our bound and its step size.

    Bounds are infinite where not one round ends in time.
    """
    rows = []
    for time_s in times_s:
        rng = generator(seed, Stream.NETWORK)
        paths = [draw_path(delays, time_s, until.time_s, rng, until.cut_off) for _ in range(_PATHS)]
        rate, ours = _least(_ours(normalise), constants, sizes, paths, _cap(normalise, constants))
        _, theirs = _least(global_bound, constants, sizes, paths, 1 / constants.smoothness)
        rows.append(
            {
                "sync_time_s": time_s,
                "rounds": np.mean([len(path.iterations) for path in paths]),
                "iterations": _mean_of_all(paths),
                "waiting": np.mean([path.waiting for path in paths]),
                "paper": theirs,
                "ours": ours,
                "rate": rate,
            }
        )
    table = pd.DataFrame(rows)
    if np.isinf(table["ours"]).all():
        shortest_s = max(times.mean() for times in delays.local_s) + delays.global_s.mean()
        raise UserError(
            f"T = {until.time_s:g} s: not one global round is sure to end in it, for S = 0 takes "
            f"{shortest_s:.3g} s in the mean; give more time, or a shorter --time"
        )
    return table


def _mean_of_all(paths: Sequence[Course]) -> float:
    counts = [t for path in paths for row in path.iterations for t in row]
    return float(np.mean(counts)) if counts else nan


def _ours(normalise: Normalise) -> Bound:
    if normalise == "printed":
        return mean_step_bound
    return partial(whole_steps_bound, convex=True)


def _cap(normalise: Normalise, constants: Constants) -> float:
    return 1 / ((2 if normalise == "printed" else 1) * constants.smoothness)


def _least(
    bound: Bound, constants: Constants, sizes: Sequence[int], paths: Sequence[Course], cap: float
) -> tuple[float, float]:
    """The step size at which the bound is least, and how much it is there."""
    if not all(path.iterations for path in paths):
        return nan, inf
    rates = np.geomspace(_LEAST_RATE * cap, cap, _RATES)
    totals = [
        np.mean([bound(constants, rate, path.iterations, sizes).total for path in paths])
        for rate in rates
    ]
    best = int(np.argmin(totals))
    return float(rates[best]), float(totals[best])


def advised(table: pd.DataFrame) -> float:
    return float(table["sync_time_s"].iloc[int(np.argmin(table["ours"]))])


@dataclass(frozen=True)
class Candidate:
    sync_time_s: float
    rate: float

    @property
    def name(self) -> str:
        return f"S = {self.sync_time_s:g} s, rate {self.rate:g}"


def candidates(table: pd.DataFrame, count: int, rates: Sequence[float]) -> list[Candidate]:
    """``count`` S spread evenly from 0 to the longest, the bound's choice among them; every rate.

    The longest is the longest of which a round is sure to end in time.
    """
    bounded = table.loc[np.isfinite(table["ours"]), "sync_time_s"]
    times = [0.0, *bounded[bounded > 0].tolist()]
    places = np.linspace(0, len(times) - 1, min(count, len(times))).round().astype(int)
    choice = times.index(advised(table))
    if choice not in places:
        places[1 + np.argmin(np.abs(places[1:] - choice))] = choice
    return [Candidate(times[place], rate) for place in places for rate in rates]


def race(
    scenario: Scenario,
    base: Path,
    out: Path,
    field: Sequence[Candidate],
    jobs: int,
) -> pd.DataFrame:
    """A row for each candidate and heat, with the score at its end."""
    total_s = horizon(scenario).time_s

    def run_of(candidate: Candidate, share: float, folder: Path) -> Run:
        return _run(scenario, base, folder, share * total_s, candidate)

    return pd.DataFrame(
        {
            "heat": heat, "time_s": share * total_s, "sync_time_s": candidate.sync_time_s,
            "rate": candidate.rate, "score": score,
        }
        for heat, share, candidate, score, _ in halving.race(field, run_of, out, jobs)
    )  # fmt: skip


def winner(heats: pd.DataFrame) -> Candidate:
    last = heats[heats["heat"] == heats["heat"].max()]
    best = int(np.argmax(last["score"]))
    return Candidate(float(last["sync_time_s"].iloc[best]), float(last["rate"].iloc[best]))


def _run(scenario: Scenario, base: Path, out: Path, time_s: float, candidate: Candidate) -> Run:
    timed = {"sync_time_s": candidate.sync_time_s, "system_time_s": None}
    changes: dict[str, dict[str, Any]] = {
        "algorithm": timed,
        "run": {"sim_time_s": time_s, "epochs": None, "target": None, "stop_at_target": False},
        "training": {"learning_rate": candidate.rate},
    }
    parts = {
        name: getattr(scenario, name).model_copy(update=change) for name, change in changes.items()
    }
    folder = out / f"{candidate.sync_time_s:g}-{candidate.rate:g}"
    changed = scenario.model_copy(update=parts)
    return Run(candidate.name, scenario.run.seed, changed, base, folder)


def draw_advice(table: pd.DataFrame, heats: pd.DataFrame | None, path: Path) -> None:
    """Bounds over S, rounds and iterations over S, and, after a race, scores over S."""
    count = 2 if heats is None else 3
    figure, panels = plt.subplots(1, count, figsize=(4.4 * count, 3.8), layout="constrained")
    x = table["sync_time_s"]
    step = float(x[x > 0].min()) if x.any() else 1.0
    curves = ((0, "ours", "ours"), (0, "paper", "(20)"), (1, "rounds", "global rounds"))
    for i, (panel, name, label) in enumerate((*curves, (1, "iterations", "mean t"))):
        panels[panel].plot(x, table[name], marker="o", ms=3, color=COLOURS[i], label=label)
    panels[0].axvline(advised(table), color="0.5", lw=1, ls=":")
    panels[0].set(yscale="log", ylabel="bound on mean |gradient|², best step size")
    panels[1].set(yscale="log", ylabel="in all the time; in a round")
    if heats is not None:
        _draw_race(heats, panels[2])
    for axes in panels:
        axes.set_xscale("symlog", linthresh=step)
        axes.set(xlabel="S [s]", xlim=(-step / 5, 1.2 * max(step, x.max())))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_race(heats: pd.DataFrame, axes: Axes) -> None:
    for i, (time_s, rows) in enumerate(heats.groupby("time_s")):
        best = rows.groupby("sync_time_s")["score"].max()
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(best.index, best, marker="o", color=colour, label=f"until {time_s:g} s")
    axes.set(ylabel="score at the end of the heat, best step size")
