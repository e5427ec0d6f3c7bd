"""Warnings about parameters outside of a paper's theory, and the smoothness that they rest on."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from algorithms.bounds import most_global_rate
from simulator.advice import warnings_of
from simulator.cli import app
from simulator.data.samples import Dataset
from simulator.scenario import Scenario
from simulator.smoothness import estimate_smoothness

HGA_FL = {"algorithm": {"name": "hga-fl", "gateway_rounds": 2, "cloud": {"buffer": 2}}}


def changed(cloud, gateway, **sections):
    return {"algorithm": {"cloud": cloud, "gateway": gateway}} | sections


def test_smoothness_of_a_plain_regression(scenario):
    # The mean of (w x + b - y)^2 over x in {-3, 3}: second derivatives 2 * 9 and 2 * 1
    x = np.array([[-3.0], [3.0]] * 4, np.float32)
    y = np.zeros((8, 1), np.float32)
    data = Dataset("line", x, y, x, y, num_classes=None)
    assert estimate_smoothness(scenario(), data) == pytest.approx(18, rel=1e-3)


def test_other_algorithms_have_no_warnings(scenario):
    assert warnings_of(scenario(), Path()) == []


def test_a_rate_above_the_limit(scenario):
    # M / K = 1: Gamma = 1, zeta = 2, limit 3.96
    large = scenario(HGA_FL, changed({"rate": 4.0}, {"alpha": 1e6}))
    assert "rate = 4 is above 3.96" in warnings_of(large, Path())[0]
    assert warnings_of(scenario(HGA_FL, changed({"rate": 3.9}, {"alpha": 1e6})), Path()) == []


def test_with_drawn_delays_staleness_is_as_in_the_run(scenario, run_in, tmp_path):
    drawn = {"network": {"kind": "drawn", "gamma_max": 40, "drawn": "upload"}}
    eight = {
        "topology": {"gateways": 8, "devices": 8},
        "run": {"epochs": 1000},
        "compute": {"kind": "constant"},
    }
    asked = scenario(
        HGA_FL, changed({"rate": 4.0, "buffer": 3}, {"alpha": 1e6}), drawn, eight,
        {"run": {"learning": "none"}, "model": {"transfer_bytes": 4}},
    )  # fmt: skip
    (warning,) = warnings_of(asked, Path())
    run_in(asked)
    metrics = pd.read_parquet(tmp_path / "run" / "metrics.parquet")
    uploads = metrics[metrics["tier"] == "upload"]
    gamma, zeta = int(uploads["staleness"].max()), int(uploads["cached_age"].max())
    assert f"staleness of {gamma} global steps" in warning
    assert warning.endswith(f"cached differences of {zeta}")
    limit = most_global_rate(gamma, zeta)
    assert f"rate = 4 is above {limit:.3g}" in warning
    within = changed({"rate": 0.99 * limit, "buffer": 3}, {"alpha": 1e6})
    assert warnings_of(scenario(HGA_FL, within, drawn, eight), Path()) == []


def test_an_alpha_below_the_limit(scenario):
    (warning,) = warnings_of(scenario(HGA_FL), Path())
    assert "alpha = 2 is below" in warning
    assert "for R = 2 and L = " in warning


def test_a_step_size_above_the_limit(scenario):
    timed = {"algorithm": {"name": "sync-time", "sync_time_s": 5.0}}
    (warning,) = warnings_of(scenario(timed, {"training": {"learning_rate": 50.0}}), Path())
    assert "learning_rate = 50 is above" in warning
    assert "for L = " in warning
    assert warnings_of(scenario(timed, {"training": {"learning_rate": 1e-4}}), Path()) == []


def test_without_the_data_it_says_so(scenario, tmp_path, monkeypatch):
    monkeypatch.setenv("MESHFL_DATA", str(tmp_path))
    (warning,) = warnings_of(scenario(HGA_FL, {"data": {"name": "cifar10"}}), Path())
    assert "not compared" in warning
    assert "meshfl data fetch cifar10" in warning


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_papers_rate_is_within_its_limit_in_the_papers_setting(seed):
    path = Path(__file__).parents[2] / "scripts/studies/hga-fashion.toml"
    paper = Scenario.load(path, [f"run.seed={seed}", "run.learning=none"])
    assert warnings_of(paper, path.parent) == []


def test_show_warns_beside_the_scenario(scenario, tmp_path):
    (tmp_path / "hga.toml").write_text(scenario(HGA_FL).to_toml())
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "hga.toml")])
    assert shown.exit_code == 0
    assert "warning: algorithm.gateway.alpha" in shown.stderr
    assert "warning" not in shown.stdout
    (tmp_path / "again.toml").write_text(shown.stdout)
    assert CliRunner().invoke(app, ["show", str(tmp_path / "again.toml")]).stdout == shown.stdout
