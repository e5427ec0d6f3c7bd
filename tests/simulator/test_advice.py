"""Warnings about parameters outside of a paper's theory, and the smoothness that they rest on."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from simulator.advice import warnings_of
from simulator.cli import app
from simulator.data.samples import Dataset
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


def test_with_drawn_delays_the_bound_on_them_counts(scenario):
    drawn = {"network": {"kind": "drawn"}}
    (warning,) = warnings_of(
        scenario(HGA_FL, changed({"rate": 0.1}, {"alpha": 1e6}), drawn), Path()
    )
    assert "above 0.00866" in warning
    assert "staleness of 500" in warning


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


def test_show_warns_beside_the_scenario(scenario, tmp_path):
    (tmp_path / "hga.toml").write_text(scenario(HGA_FL).to_toml())
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "hga.toml")])
    assert shown.exit_code == 0
    assert "warning: algorithm.gateway.alpha" in shown.stderr
    assert "warning" not in shown.stdout
    (tmp_path / "again.toml").write_text(shown.stdout)
    assert CliRunner().invoke(app, ["show", str(tmp_path / "again.toml")]).stdout == shown.stdout
