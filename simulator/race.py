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


def race(
    field: Sequence[C],
    run_of: Callable[[C, float, Path], Run],
    out: Path,
    jobs: int,
) -> list[Heat[C]]:
    """In the last heat, of at most two, there is all the time; in each before it half the next's.

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
        scores = [_score(run.results) for run in runs]
        done += [Heat(heat, share, *one) for one in zip(field, scores, strict=True)]
        order = np.argsort(scores, kind="stable")[::-1]
        field = [field[i] for i in sorted(order[: max(1, -(-len(field) // 2))])]
    return done


def winner(heats: Sequence[Heat[C]]) -> C:
    last = [heat for heat in heats if heat.heat == heats[-1].heat]
    return max(last, key=lambda heat: heat.score).candidate


def _score(result: Results) -> float:
    """More is better; a run that has diverged is worst."""
    accuracy, loss = result.summary["final_accuracy"], result.summary["final_loss"]
    if accuracy is not None:
        return float(accuracy)
    return -np.inf if loss is None else -float(loss)
