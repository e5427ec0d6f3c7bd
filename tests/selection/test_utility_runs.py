"""Selection by learning utility in whole runs: sketches, and solvers that do not answer."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
from by_hand import ListRecorder
from sketches import BothWays, mean_share

from selection import milp
from simulator.build import build
from simulator.kernel import Simulation

BY_UTILITY = {
    "algorithm": {"name": "async-hfl", "updates_per_upload": 10},
    "selection": {"name": "utility-ilp", "budget_bytes_per_s": 4000.0},
    "association": {"name": "utility-ilp", "every_epochs": 2},
    "topology": {"reach": 2},
}


def test_thirty_components_pick_as_full_gradients_do(scenario):
    """A sanity bound. Measured: of those picked either way .79 are picked both ways; with utilities
    dealt out at random, .30."""
    case = scenario(
        BY_UTILITY,
        {"run": {"epochs": 10}, "topology": {"gateways": 2, "devices": 30, "reach": 2}},
        {"data": {"partition": {"kind": "dirichlet", "alpha": 0.3}}},
        {"selection": {"budget_bytes_per_s": 12_000.0}, "association": {"name": "nearest"}},
        {"sketch": {"kind": "pca", "components": 30, "warm_up": "free"}},
    )
    world = build(case, Path())
    both = BothWays(world.manager, world.topology.devices)
    sim = Simulation(replace(world, manager=both), ListRecorder())
    sim.start()
    sim.run(lambda: 0.0)
    assert len(both.alike) > 30
    assert mean_share(both.alike) > 0.6
    assert mean_share(both.alike) > 2 * mean_share(both.by_chance)


def test_the_summary_says_who_answered(scenario, run_in):
    summary = run_in(scenario(BY_UTILITY, {"run": {"epochs": 5}}))
    for part in ("selection", "association"):
        assert sum(summary[f"{part}_solvers"]["answers"].values()) > 0
        assert set(summary[f"{part}_solvers"]["answers"]) <= {"none", "gurobi"}
        assert summary[f"{part}_solvers"]["reasons"] == {}


def test_a_run_without_programs_has_no_solvers(scenario, run_in):
    assert not [key for key in run_in(scenario()) if "solver" in key]


def test_a_solver_that_cannot_answer_is_told_of(scenario, run_in, monkeypatch, tmp_path):
    """HiGHS takes over; the reason is told once in the metrics, and counted in the summary."""
    monkeypatch.setattr(milp, "_environment", lambda process: "Gurobi is on holiday")
    summary = run_in(scenario(BY_UTILITY, {"run": {"epochs": 5}}))
    for part in ("selection", "association"):
        answers = summary[f"{part}_solvers"]["answers"]
        assert answers["highs"] > 0
        assert summary[f"{part}_solvers"]["reasons"] == {"Gurobi is on holiday": answers["highs"]}
    metrics = pd.read_parquet(tmp_path / "run" / "metrics.parquet")
    told = metrics[metrics["tier"] == "solver"]
    assert sorted(told["node"]) == ["association", "selection"]
    assert set(told["reason"]) == {"Gurobi is on holiday"}


def test_without_any_solver_the_greedy_answer_is_taken(scenario, run_in, monkeypatch):
    def fails(problem, gap):
        raise milp._NoAnswer("neither here nor there")

    monkeypatch.setattr(milp, "_SOLVERS", {"gurobi": fails, "highs": fails})
    summary = run_in(scenario(BY_UTILITY, {"run": {"epochs": 3}}))
    answers = summary["selection_solvers"]["answers"]
    assert set(answers) <= {"none", "greedy"}
    assert answers["greedy"] > 0
