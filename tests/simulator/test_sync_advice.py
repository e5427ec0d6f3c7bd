"""Advice on the sync time: measured delays, rounds drawn from them, bounds, races, a run's bounds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from algorithms.sync_time_bounds import Constants, mean_iterations
from simulator.cli import app
from simulator.errors import UserError
from simulator.gradient_facts import estimate_constants
from simulator.sync_advice import advised, bounds_over, candidates, race, system_time_s, winner
from simulator.sync_delays import Delays, draw_path, measure_delays

LINEAR = {
    "network": {
        "kind": "linear", "d": 0.1, "b": [0.7, 1.7], "e": 0.0, "f": 0.2,
        "d_g": 0.5, "b_g": 2.0, "e_g": 0.0, "f_g": 0.0,
    },
    "compute": {"kind": "constant"},
    "run": {"epochs": None, "sim_time_s": 60.0},
    "algorithm": {"name": "sync-time", "sync_time_s": 5.0, "normalise": "none"},
}  # fmt: skip
"""Two groups of three: iterations of 1 or 2 s and .2 s more in the mean, rounds of 3 s."""


def test_delays_are_measured_on_the_network(scenario):
    delays = measure_delays(scenario(LINEAR), Path(), samples=400)
    fast, slow = delays.local_s
    assert len(fast) > len(slow) >= 400
    assert fast.min() >= 1
    assert slow.min() >= 2
    assert fast.mean() == pytest.approx(1.2, rel=0.05)
    assert slow.mean() == pytest.approx(2.2, rel=0.05)
    assert delays.global_s == pytest.approx(3.0)


def test_delays_on_another_network(scenario):
    """Training takes .1 s and an exponential time more, the slowest of three counts."""
    flow = {"run": {"epochs": None, "sim_time_s": 60.0}, "algorithm": LINEAR["algorithm"]}
    delays = measure_delays(scenario(flow), Path(), samples=30)
    assert all(times.min() > 0.1 for times in delays.local_s)
    assert all(times.mean() < 3 for times in delays.local_s)
    assert (delays.global_s > 0).all()


def test_a_group_that_waits_for_ever(scenario):
    dropping = {"compute": {"dropout_probability": 0.5}}
    with pytest.raises(ValueError, match=r"wait for it for ever; give algorithm.gateway_timeout_s"):
        scenario(LINEAR, dropping)


def test_drawn_rounds():
    rng = np.random.default_rng(3)
    delays = Delays((1 + rng.exponential(0.5, 4000), np.array([2.0])), np.array([3.0]))
    course = draw_path(delays, 5.0, 20_000.0, rng)
    first, second = np.mean(course.iterations, axis=0)
    assert first == pytest.approx(mean_iterations(5.0, 1.0, 0.5), rel=0.01)
    assert second == 3
    # The second group takes 6 s, the first 5 s and a part of an iteration more
    assert len(course.iterations) == pytest.approx(20_000 / (6 + 3), rel=0.03)
    assert 0 < course.waiting < 0.2
    once = draw_path(delays, 0.0, 100.0, rng)
    assert {tuple(row) for row in once.iterations} == {(1, 1)}


PLAIN = Constants(smoothness=1.0, gradient=1.0, noise=0.1, dissimilarity=0.01, loss_drop=2.0)
DELAYS = Delays((np.array([1.0]), np.array([1.0])), np.array([20.0]))


@pytest.mark.parametrize(("normalise", "best"), [("printed", (0,)), ("none", (5, 10, 20))])
def test_bounds_over_sync_times(normalise, best):
    """Groups that are alike and far from the cloud: whole steps want many iterations."""
    times = [0, 5, 10, 20, 400]
    table = bounds_over(PLAIN, [10, 10], DELAYS, times, 1000.0, normalise, seed=1)
    assert advised(table) in best
    assert table["iterations"].tolist() == [1, 5, 10, 20, 400]
    assert table["rounds"].tolist() == [48, 40, 34, 25, 3]
    assert (table["paper"].diff().dropna() > 0).all(), "(20) is least at S = 0"


def test_candidates_are_those_that_the_bound_cannot_tell_apart():
    table = pd.DataFrame({"sync_time_s": [0, 1, 2, 3, 4], "ours": [5.0, 1.0, 1.5, 1.9, 2.1]})
    assert [c.sync_time_s for c in candidates(table, 4, [0.1])] == [0, 1, 2, 3]
    assert [c.sync_time_s for c in candidates(table, 2, [0.1])] == [0, 3]
    assert len(candidates(table, 9, [0.1, 1.0])) == 8


def test_a_race_halves_the_field(scenario, tmp_path):
    table = pd.DataFrame({"sync_time_s": [0.0, 2.0, 4.0, 8.0], "ours": [1.0] * 4})
    field, said = candidates(table, 4, [0.3]), []
    heats = race(scenario(LINEAR), Path(), tmp_path, field, 1, said.append)
    assert heats["heat"].tolist() == [1, 1, 1, 1, 2, 2]
    assert heats["time_s"].tolist() == [30.0] * 4 + [60.0] * 2
    first, last = heats[heats["heat"] == 1], heats[heats["heat"] == 2]
    assert set(last["sync_time_s"]) == set(first.nlargest(2, "score")["sync_time_s"])
    best = last.set_index("sync_time_s")["score"]
    assert best[winner(heats).sync_time_s] == best.max()
    assert len(said) == 6


def test_what_advice_needs(scenario):
    with pytest.raises(UserError, match="'fedavg' has no sync time to advise on; use 'sync-time'"):
        system_time_s(scenario())
    with pytest.raises(UserError, match=r"give run.sim_time_s, or"):
        system_time_s(scenario({"algorithm": LINEAR["algorithm"]}))


def test_constants_of_a_scenario(scenario):
    """Of equal data and whole batches there is no noise, and groups are alike."""
    whole = {"training": {"batch_size": 5000}, "data": {"fraction": 1.0}}
    constants, sizes = estimate_constants(scenario(LINEAR, whole), Path())
    assert sizes == [3, 3]
    assert constants.noise == pytest.approx(0, abs=1e-4)
    assert constants.loss_drop == pytest.approx(2.3, abs=0.2)
    noisy, _ = estimate_constants(scenario(LINEAR), Path())
    assert noisy.noise > 0.05
    assert noisy.gradient > noisy.noise
    split = {"data": {"partition": {"kind": "disjoint-groups"}}}
    apart, _ = estimate_constants(scenario(LINEAR, split), Path())
    assert apart.dissimilarity > 5 * constants.dissimilarity


def test_the_command(scenario, tmp_path):
    (tmp_path / "timed.toml").write_text(scenario(LINEAR).to_toml())
    out = tmp_path / "advice"
    command = ["advise", "sync-time", str(tmp_path / "timed.toml"), "--out", str(out)]
    done = CliRunner().invoke(app, [*command, "--samples", "20", "--race", "2", "--rate", "0.3"])
    assert done.exit_code == 0, done.output
    assert "by the bound: S = " in done.output
    assert "with step size 0.3" in done.output
    assert (out / "advice.png").read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(out / "advice.csv")) == 11


def test_bounds_of_a_run(scenario, run_in, tmp_path):
    run_in(scenario(LINEAR, {"training": {"learning_rate": 0.05}}), "run")
    done = CliRunner().invoke(app, ["advise", "bounds", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    for name in ("Lemma 1, g0", "Theorem 1, g1", "Theorem 2", "Corollary 1", "whole steps, ours"):
        assert name in done.output
    lemma = next(line for line in done.output.splitlines() if "Lemma 1, g0" in line).split()
    bound, measured = float(lemma[-2]), float(lemma[-1])
    assert 0 < measured < bound
    fedavg = run_in(scenario(), "fedavg")
    assert fedavg
    wrong = CliRunner().invoke(app, ["advise", "bounds", str(tmp_path / "fedavg")])
    assert "bounds are for runs of sync-time" in str(wrong.exception)
