"""Selection by learning utility in whole runs: sketches, and solvers that do not answer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from by_hand import ListRecorder

from selection import milp
from selection.ilp import select_devices
from selection.manager import gradient
from selection.utility import LearningUtility
from simulator.build import build
from simulator.kernel import Simulation
from simulator.rng import Stream

BY_UTILITY = {
    "algorithm": {"name": "async-hfl", "updates_per_upload": 10},
    "selection": {"name": "utility-ilp", "budget_bytes_per_s": 4000.0},
    "association": {"name": "utility-ilp", "every_epochs": 2},
    "topology": {"reach": 2},
}


class BothWays:
    """A manager that also keeps full gradients, and compares what would be picked by them."""

    def __init__(self, manager, devices):
        self.manager = manager
        self.full = LearningUtility(list(devices))
        self.alike, self.by_chance = [], []

    def __getattr__(self, name):
        return getattr(self.manager, name)

    def fit(self, sim, updates):
        self.manager.fit(sim, updates)
        for update in updates:
            self.full.update(update.node, gradient(update).numpy())

    def end(self, sim, gateway, device, update):
        self.manager.end(sim, gateway, device, update)
        if update is not None:
            self.full.update(device, gradient(update).numpy())

    def select(self, sim, gateway, idle, most=None):
        ledger = self.manager.ledger
        members = list(dict.fromkeys([*idle, *sim.devices_of(gateway)]))
        latencies = np.array([ledger.latency_s(sim, gateway, d) for d in idle])
        rates = np.array([ledger.rate(sim, gateway, d) for d in idle])
        free, kappa = ledger.free(gateway), self.manager.selector.params.kappa
        utilities = [
            known.utilities(members)[: len(idle)] for known in (ledger.gradients, self.full)
        ]
        shuffled = sim.rng(Stream.SKETCH, gateway).permutation(utilities[1])
        picks = [
            set(select_devices(u, latencies, rates, free, kappa=kappa, solver="highs").devices)
            for u in (*utilities, shuffled)
        ]
        if len(picks[1]) < len(idle):
            self.alike.append(overlap(picks[0], picks[1]))
            self.by_chance.append(overlap(picks[2], picks[1]))
        return self.manager.select(sim, gateway, idle, most)


def overlap(some, others):
    return len(some & others) / max(1, len(some | others))


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
    assert np.mean(both.alike) > 0.6
    assert np.mean(both.alike) > 2 * np.mean(both.by_chance)


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
