"""Successive halving: candidates run for a short time, the better half for twice as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from simulator.errors import UserError
from simulator.folders import make_folder
from simulator.results import Results
from simulator.study import Run
from simulator.sweeps.carry_out import carry_out, told
from simulator.sweeps.local import LocalEngine

C = TypeVar("C")


class Heat(NamedTuple, Generic[C]):
    """One candidate's run."""

    heat: int
    share: float
    """Of all the time."""
    candidate: C
    score: float
    target_s: float | None
    """When it reached the scenario's target, if it has one."""


def race(
    field: Sequence[C],
    run_of: Callable[[C, float, Path], Run],
    out: Path,
    jobs: int,
) -> list[Heat[C]]:
    """In the last heat, of at most two, there is all the time; in each before it half the next's.

    Who reaches the target sooner is better; of those who do not, who ends with the better score.
    ``run_of`` a candidate, a share of the time, and a folder.
    """
    done: list[Heat[C]] = []
    engine = LocalEngine()
    make_folder(out, out)
    heats = max(1, int(np.ceil(np.log2(len(field)))))
    for heat in range(1, heats + 1):
        share = 0.5 ** (heats - heat)
        runs = [run_of(candidate, share, out / f"heat-{heat}") for candidate in field]
        if problems := carry_out(runs, out, engine, jobs):
            raise UserError(told(problems, len(runs)))
        results = [run.results for run in runs]
        done += [
            Heat(heat, share, candidate, _score(result), result.summary["time_to_target_s"])
            for candidate, result in zip(field, results, strict=True)
        ]
        places = [place(one.target_s, one.score) for one in done[-len(field) :]]
        order = sorted(range(len(field)), key=places.__getitem__)
        field = [field[i] for i in sorted(order[: max(1, -(-len(field) // 2))])]
    return done


def place(target_s: float | None, score: float) -> tuple[float, float]:
    """The least is the best."""
    return np.inf if target_s is None or np.isnan(target_s) else target_s, -score


def _score(result: Results) -> float:
    """More is better; a run that has diverged is worst."""
    accuracy, loss = result.summary["final_accuracy"], result.summary["final_loss"]
    if accuracy is not None:
        return float(accuracy)
    return -np.inf if loss is None else -float(loss)
