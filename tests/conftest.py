import os

os.environ.setdefault("COLUMNS", "200")

import copy
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("busy machines", deadline=None)
hypothesis.settings.load_profile("busy machines")

SMALL = {
    "run": {"seed": 3, "epochs": 3},
    "topology": {"kind": "tree", "gateways": 2, "devices": 6},
    "network": {"kind": "flow"},
    "compute": {"kind": "exponential", "shift_s": 0.1, "mean_s": 0.5, "drawn": "job"},
    "data": {"name": "digits", "partition": {"kind": "iid"}},
    "model": {"name": "logistic"},
    "training": {"learning_rate": 0.1, "batch_size": 20},
    "algorithm": {"name": "fedavg"},
}
"""A run of a second: six devices on two gateways."""


def merged(content, changes):
    """Later tables win, except that a table with another kind or name is replaced whole."""
    result = copy.deepcopy(content)
    for key, value in changes.items():
        before = result.get(key)
        other = isinstance(value, dict) and any(
            k in value and isinstance(before, dict) and before.get(k) != value[k]
            for k in ("kind", "name")
        )
        if isinstance(before, dict) and isinstance(value, dict) and not other:
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result


@pytest.fixture(scope="session")
def scenario():
    """scenario({"run": {...}}, ...): the small scenario with changes."""

    from simulator.scenario import Scenario

    def make(*changes):
        content = SMALL
        for change in changes:
            content = merged(content, change)
        return Scenario.model_validate(content)

    return make


@pytest.fixture
def run_in(tmp_path):
    """run_in(scenario, name): its summary; with after_events it is interrupted and resumed."""

    from simulator.runner import resume, start

    def run(scenario, name="run", workers=1, after_events=None):
        folder = tmp_path / name

        def pause(sim):
            if after_events is not None and sim.progress.events >= after_events:
                sim.interrupted = True

        eager = scenario.record.model_copy(update={"checkpoint_every_s": 1e-6})
        scenario = scenario.model_copy(update={"record": eager} if after_events else {})
        summary = start(scenario, Path(), folder, workers, pause)
        if after_events is not None:
            assert summary is None, "the run was over before it could be interrupted"
            summary = resume(folder, workers)
        return summary

    return run
