"""What the timeline says is what the simulation did."""

import itertools
from pathlib import Path

import pandas as pd
import pytest

from simulator.kernel import Simulation
from simulator.report.activity import NO_TIME, SENDS, gaps
from simulator.report.gather import gather

CASES = {
    "sync": {"algorithm": {"name": "fedavg", "gateway_rounds": 2}},
    "async": {"algorithm": {"name": "async-hfl", "updates_per_upload": 5}},
    "warm-up": {
        "algorithm": {"name": "async-hfl", "updates_per_upload": 10, "in_flight": "drop"},
        "selection": {"name": "utility-ilp", "budget_bytes_per_s": 4000.0},
        "association": {"name": "utility-ilp", "every_epochs": 2},
        "sketch": {"kind": "pca", "components": 3},
        "topology": {"reach": 2},
    },
    "two-tiers": {"run": {"epochs": 30}, "algorithm": {"name": "fedasync"}},
    "rings": {"algorithm": {"name": "star-ring-hfl", "top": "ring", "lower": "ring"}},
    "lossy": {
        "algorithm": {"name": "async-hfl", "device_timeout_s": 6.0, "updates_per_upload": 5},
        "network": {"loss_probability": 0.2},
        "compute": {"dropout_probability": 0.2},
    },
}


@pytest.fixture
def began(monkeypatch):
    """When each training that ended began, as the simulation knows it: by device and end."""
    started, found = {}, {}
    train, end_job = Simulation.train, Simulation._end_job

    def note_begin(self, job):
        started[self.topology.nodes[job.node].name] = self.now
        return train(self, job)

    def note_end(self, number):
        event = end_job(self, number)
        if event is not None:
            name = self.topology.nodes[event.update.node].name
            found[name, self.now] = started[name]
        return event

    monkeypatch.setattr(Simulation, "train", note_begin)
    monkeypatch.setattr(Simulation, "_end_job", note_end)
    return found


@pytest.mark.parametrize("case", CASES)
def test_trainings_begin_when_they_did(case, scenario, run_in, tmp_path, began):
    run_in(scenario(CASES[case]))
    run = gather([tmp_path / "run"]).groups[0].first
    found = run.visits
    assert {(row.device, row.trained): row.begin for row in found.itertuples()} == began
    answered = found[found["answered"] != NO_TIME]
    assert (answered["answered"] >= answered["trained"]).all()
    assert (found["asked"] <= found["begin"]).all()


def test_rounds_are_those_of_the_tables(study):
    run = gather([study]).groups[1].first
    table = run.results.transfers
    up = table[(table["kind"] == "up") & (table["status"] == "arrived")]
    found = run.visits
    assert (found["answered"] != NO_TIME).sum() == len(up)
    assert sorted(found.loc[found["answered"] != NO_TIME, "answered"] / 1e9) == pytest.approx(
        sorted(up["end_s"])
    )


def test_every_transfer_is_a_span_of_both_its_ends(study):
    run = gather([study]).groups[0].first
    found = run.spans
    table = run.results.transfers
    sent = found[found["what"] == SENDS]
    assert len(sent) == len(table)
    assert sent.groupby("node")["bytes"].sum().to_dict() == (
        table.groupby("src")["bytes"].sum().to_dict()
    )
    assert found["end"].max() <= run.end


def test_gaps_are_what_no_span_covers():
    busy = pd.DataFrame([("a", 2, 5), ("a", 3, 4), ("a", 7, 8)], columns=["node", "start", "end"])
    found = gaps(busy, 10, ["a", "b"])
    assert list(found.itertuples(index=False, name=None)) == [
        ("a", 0, 2), ("a", 5, 7), ("a", 8, 10), ("b", 0, 10),
    ]  # fmt: skip


def test_moves_of_devices_are_counted(tmp_path, scenario):
    from simulator.runner import start

    moving = {
        "run": {"epochs": 6},
        "topology": {"reach": 2},
        "algorithm": {"name": "rfl-ha"},
        "association": {"name": "rfl-ha", "every_epochs": 1, "tolerance": 0.2},
    }
    start(scenario(moving), Path(), tmp_path / "run")
    run = gather([tmp_path / "run"]).groups[0].first
    table = run.results.transfers
    for device, row in run.partners.iterrows():
        own = table[(table["src"] == device) | (table["dst"] == device)]
        own = own[own["kind"].isin(["up", "down"])]
        others = [s if d == device else d for s, d in zip(own["src"], own["dst"], strict=True)]
        assert (row["first"], row["last"]) == (others[0], others[-1])
        assert row["moves"] == sum(a != b for a, b in itertools.pairwise(others))
