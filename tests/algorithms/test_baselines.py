"""Async-HFL's baselines (Sections 4 and 6.3) are scenarios of the same parts; each can be run."""

from pathlib import Path

import pytest

from simulator.runner import start
from simulator.scenario import Scenario

FOLDER = Path(__file__).parents[2] / "scripts/scenarios/baselines"
BASELINES = {
    "async-random": ("async-hfl", "random", "random"),
    "async-hl": ("async-hfl", "high-loss", "random"),
    "async-st": ("async-hfl", "short-latency", "random"),
    "two-tier-async": ("fedasync", "all", "random"),
    "semi-async": ("semi-async", "random", "random"),
    "rfl-ha": ("rfl-ha", "random", "rfl-ha"),
    "sync-random": ("fedavg", "random", "random"),
    "sync-tifl": ("fedavg", "tifl", "random"),
    "sync-oort": ("fedavg", "oort", "random"),
    "sync-divfl": ("fedavg", "divfl", "random"),
}
"""Algorithm, selection, association."""
DIFFERENT = {"algorithm", "selection", "association", "sketch", "record"}


def load(name, *settings):
    return Scenario.load(FOLDER / f"{name}.toml", settings)


def test_each_has_a_file():
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted(BASELINES)


@pytest.mark.parametrize("name", BASELINES)
def test_they_differ_in_the_method_alone(name):
    one, other = load(name), load("async-random")
    for section in set(Scenario.model_fields) - DIFFERENT:
        assert getattr(one, section) == getattr(other, section)
    budgets = {s.selection.budget_bytes_per_s for s in (one, other)} - {None}
    assert len(budgets) == 1


@pytest.mark.parametrize("name", BASELINES)
def test_each_runs(name, tmp_path):
    epochs = 40 if name == "two-tier-async" else 2
    scenario = load(name, f"run.epochs={epochs}")
    parts = scenario.algorithm.name, scenario.selection.name, scenario.association.name
    assert parts == BASELINES[name]
    summary = start(scenario, FOLDER, tmp_path / "run")
    assert summary["stop_reason"] == "epochs"
    assert summary["algorithm"] == BASELINES[name][0]
