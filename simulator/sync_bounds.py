"""Sync-time HFL's bounds for a run that is done: its own t_i and U, with estimated constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from algorithms.sync_time_bounds import (
    Terms,
    corollary_bound,
    global_bound,
    group_bound,
    mean_step_bound,
    most_deviation,
    whole_steps_bound,
)
from algorithms.sync_time_hfl import SyncTimeSection
from simulator.errors import UserError
from simulator.gradient_facts import estimate_constants
from simulator.recorder import SCENARIO
from simulator.results import Results
from simulator.scenario import Scenario


def bounds_of_run(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A row for each bound, and the constants that they are made of."""
    result, scenario = Results.load(folder), Scenario.load(folder / SCENARIO)
    section = scenario.algorithm
    if not isinstance(section, SyncTimeSection) or scenario.run.learning == "none":
        raise UserError(f"{folder}: bounds are for runs of sync-time that learned something")
    if section.gradient_bound is not None:
        raise UserError(
            f"{folder}: bounds are for one step size of all groups; with algorithm.gradient_bound "
            "each of this run's has its own"
        )
    groups = result.metrics[result.metrics["tier"] == "group"]
    if groups.empty:  # nor has the table the groups' columns
        raise _nothing(folder)
    constants, members = estimate_constants(scenario, folder)
    rounds = groups.pivot(index="epoch", columns="node", values="iterations")
    rounds = rounds.reindex(columns=list(members)).dropna().astype(int)
    if rounds.empty:
        raise _nothing(folder)
    rate, sizes = scenario.training.learning_rate, list(members.values())
    iterations, most = rounds.to_numpy().tolist(), rounds.max().tolist()
    rows = [_lemma(groups, node, rate, constants.gradient, sizes) for node in rounds.columns]
    rows += [
        _row(f"Theorem 1, {node}", group_bound(constants, rate, rounds[node].tolist(), sizes, i))
        for i, node in enumerate(rounds.columns)
    ]
    rows += [
        _row("Theorem 2", global_bound(constants, rate, iterations, sizes)),
        _row("Corollary 1", corollary_bound(constants, len(rounds), most, sizes)),
        _row("mean steps, ours", mean_step_bound(constants, rate, iterations, sizes)),
        _row("whole steps, ours", whole_steps_bound(constants, rate, iterations, sizes)),
    ]
    facts = {
        "L": constants.smoothness, "G": constants.gradient, "sigma": constants.noise,
        "dissimilarity of groups": constants.dissimilarity, "f(x^1)": constants.loss_drop,
        "normalise": section.normalise, "step size": rate, "1 / L": 1 / constants.smoothness,
        "global rounds": len(rounds), "mean t": float(rounds.to_numpy().mean()),
    }  # fmt: skip
    return pd.DataFrame(rows), facts


def _nothing(folder: Path) -> UserError:
    return UserError(
        f"{folder}: no global round was finished, with all groups; nothing to bound: run it for "
        "longer"
    )


def _row(name: str, terms: Terms) -> dict[str, Any]:
    return {"bound": name, **terms._asdict(), "total": terms.total, "measured": None}


def _lemma(
    groups: pd.DataFrame, node: str, rate: float, gradient: float, sizes: list[int]
) -> dict[str, Any]:
    """Means over rounds, of the bound and of what it bounds."""
    own = groups[groups["node"] == node]
    bounds = [most_deviation(rate, gradient, int(t), sizes) for t in own["iterations"]]
    return {
        "bound": f"Lemma 1, {node}", "start": None, "noise": None, "drift": None,
        "total": sum(bounds) / len(bounds), "measured": float(own["deviation"].mean()),
    }  # fmt: skip
