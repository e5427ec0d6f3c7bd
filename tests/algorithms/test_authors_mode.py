"""Async-HFL as its authors' program has it, on delay tables of their format, made here and small."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from simulator.runner import start
from simulator.scenario import Scenario

AUTHORS = Path(__file__).parents[2] / "scripts/scenarios/async-hfl-authors.toml"
SMALL = (
    "data={name='digits', samples_per_device=40, partition={kind='primary-secondary'}}",
    "model={name='logistic', transfer_bytes=1700000}",
    "training={learning_rate=0.1, batch_size=20, momentum=0.9, epochs=2}",
    "run={seed=1, epochs=40}",
    "algorithm.updates_per_upload=5",
)


def test_it_runs_on_tables_of_their_format(tmp_path):
    rng = np.random.default_rng(0)
    delays = rng.uniform(30, 120, (12, 3)).round(2)
    delays[rng.random((12, 3)) < 0.3] = 0
    delays[:, 0] = delays[:, 0].clip(40)
    lines = [",".join(map(str, row)) for row in delays]
    (tmp_path / "delay_client_to_gateway.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "delay_gateway_to_cloud.csv").write_text("18.72,18.72,18.72\n")
    computing = rng.uniform(30, 200, 12).round(2)
    (tmp_path / "comp1.txt").write_text("\n".join(map(str, computing)) + "\n")
    shutil.copy(AUTHORS, tmp_path)
    scenario = Scenario.load(tmp_path / AUTHORS.name, SMALL)

    summary = start(scenario, tmp_path, tmp_path / "run")

    assert summary["stop_reason"] == "epochs"
    assert summary["best_accuracy"] > 0.5
    assert summary["jobs_abandoned"] > 0, "busy devices are dropped at hand-overs"
    answers = summary["association_solvers"]["answers"]
    assert answers == {"gurobi": 1 + 39}, (
        "after the warm-up, and after each cloud epoch but the last"
    )
    transfers = pd.read_parquet(tmp_path / "run/transfers.parquet")
    down = transfers[(transfers["kind"] == "down") & (transfers["status"] == "arrived")]
    assert (down["end_s"] == down["start_s"]).all(), "downlinks are free"
    first = transfers[transfers["kind"] != "overhead"].iloc[0]
    assert first["start_s"] == 0, "the warm-up takes no time"
