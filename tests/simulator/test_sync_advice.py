"""Advice on the sync time: measured delays, rounds drawn from them, bounds, races, a run's bounds."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import erlang
from typer.testing import CliRunner

from algorithms.sync_time_bounds import Constants
from simulator.cli import app
from simulator.errors import UserError
from simulator.gradient_facts import estimate_constants
from simulator.results import read_summary
from simulator.sync_advice import (
    Horizon,
    advised,
    bounds_over,
    candidates,
    draw_advice,
    horizon,
    race,
    sync_times,
    winner,
)
from simulator.sync_bounds import bounds_of_run
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
    assert len(fast) + len(slow) >= 800
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


MANY = {"topology": {"gateways": 12, "devices": 14}, "association": {"name": "shares"}}
SLOWER = {"network": {"b": [float(i) for i in range(1, 13)], "d": 0.0, "f": 0.0}}
"""Twelve groups, g0 to g11: an iteration of the next one takes a second longer."""


def test_groups_are_in_the_order_of_the_topology(scenario, run_in, tmp_path):
    """By name, g10 and g11 would come before g2."""
    reach = {"topology": {"reach": 12}}
    twelve = scenario(LINEAR, MANY, reach, SLOWER)
    delays = measure_delays(twelve, Path(), samples=6)
    assert [times.mean() for times in delays.local_s] == pytest.approx(range(1, 13))
    uneven = scenario(LINEAR, MANY, reach, SLOWER, {"association": {"shares": [1] * 11 + [3]}})
    constants, members = estimate_constants(uneven, Path())
    assert members == {f"g{i}": 1 for i in range(11)} | {"g11": 3}
    run_in(uneven, "run")
    table, facts = bounds_of_run(tmp_path / "run")
    found = table.set_index("bound")["noise"]
    noise = facts["step size"] * constants.smoothness * constants.noise**2
    for name, size in members.items():
        assert found[f"Theorem 1, {name}"] == pytest.approx(noise / size)


def test_a_group_that_waits_for_ever(scenario):
    dropping = {"compute": {"dropout_probability": 0.5}}
    with pytest.raises(ValueError, match=r"wait for it for ever; give algorithm.gateway_timeout_s"):
        scenario(LINEAR, dropping)


def test_drawn_rounds():
    rng = np.random.default_rng(3)
    delays = Delays((1 + rng.exponential(0.5, 4000), np.array([2.0])), np.array([3.0]))
    course = draw_path(delays, 5.0, 20_000.0, rng)
    first, second = np.mean(course.iterations, axis=0)
    # One and, for sure, others as long as n of them are over before 5 s: a renewal process
    more = sum(erlang.cdf(5 - n, n, scale=0.5) for n in range(1, 5))
    assert first == pytest.approx(1 + more, rel=0.01)
    assert second == 3
    # The second group takes 6 s, the first 5 s and a part of an iteration more
    assert len(course.iterations) == pytest.approx(20_000 / (6 + 3), rel=0.03)
    assert 0 < course.waiting < 0.2
    once = draw_path(delays, 0.0, 100.0, rng)
    assert {tuple(row) for row in once.iterations} == {(1, 1)}


def test_a_round_that_is_cut_off_does_not_count():
    """Rounds of 21 s at S = 0: a run until 100 s has four, and (13) a fifth; until 84 s four."""
    for time_s, finished, cut in ((100.0, 5, 4), (84.0, 4, 4), (20.0, 1, 0)):
        rng = np.random.default_rng(3)
        assert len(draw_path(DELAYS, 0.0, time_s, rng).iterations) == finished
        assert len(draw_path(DELAYS, 0.0, time_s, rng, cut_off=True).iterations) == cut


@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [
        ({"sync_time_s": 0.0}, 12),  # 1.7 + 3 s each: the thirteenth would end at 61.1 s
        ({"sync_time_s": 5.0}, 6),  # 5.6 s and 5.1 s of iterations, + 3 s: the seventh at 60.2 s
        ({"sync_time_s": 5.0, "system_time_s": 58.0}, 7),
    ],
)
def test_as_many_rounds_as_in_the_run(scenario, run_in, algorithm, rounds):
    fixed = {"network": {"b": [0.4, 1.4], "f": 0.0}, "algorithm": algorithm}
    if "system_time_s" in algorithm:
        fixed["run"] = {"sim_time_s": None}
    timed = scenario(LINEAR, fixed)
    assert run_in(timed)["epochs"] == rounds
    delays = measure_delays(timed, Path(), samples=10)
    times, until = [algorithm["sync_time_s"]], horizon(timed)
    table = bounds_over(PLAIN, [3, 3], delays, times, until, "none", seed=1)
    assert table["rounds"].tolist() == [rounds]


@pytest.mark.filterwarnings("error")
def test_too_little_time():
    times = sync_times(DELAYS, 30.0)
    assert times[0] == 0
    assert max(times) <= 30
    few = bounds_over(PLAIN, [10, 10], DELAYS, [0.0, 15.0], Horizon(30.0, True), "none", seed=1)
    assert few["rounds"].tolist() == [1, 0]
    assert advised(few) == 0
    with pytest.raises(
        UserError, match=r"T = 20 s: not one global round .* takes 21 s in the mean"
    ):
        bounds_over(PLAIN, [10, 10], DELAYS, [0.0], Horizon(20.0, True), "none", seed=1)
    assert sync_times(DELAYS, 0.5) == [0.0], "no S is longer than T"


PLAIN = Constants(smoothness=1.0, gradient=1.0, noise=0.1, dissimilarity=0.01, loss_drop=2.0)
DELAYS = Delays((np.array([1.0]), np.array([1.0])), np.array([20.0]))


@pytest.mark.parametrize(
    ("normalise", "best", "largest_rate"),
    [("printed", (0,), 0.5), ("none", (5, 10, 20), 1.0)],  # 1 / (2 L), 1 / L
)
def test_bounds_over_sync_times(normalise, best, largest_rate):
    """Groups that are alike and far from the cloud: whole steps want many iterations."""
    times = [0, 5, 10, 20, 400]
    until = Horizon(1000.0, cut_off=False)
    table = bounds_over(PLAIN, [10, 10], DELAYS, times, until, normalise, seed=1)
    assert advised(table) in best
    assert table["rate"][0] == pytest.approx(largest_rate), "with so little noise"
    assert table["iterations"].tolist() == [1, 5, 10, 20, 400]
    assert table["rounds"].tolist() == [48, 40, 34, 25, 3]
    assert (table["paper"].diff().dropna() > 0).all(), "(20) is least at S = 0"


def test_candidates_are_spread_over_all_s_and_the_bounds_choice_is_among_them():
    times = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    table = pd.DataFrame({"sync_time_s": times, "ours": [5.0, 1.0, 2.0, 3.0, 4.0, np.inf]})
    assert [c.sync_time_s for c in candidates(table, 3, [0.1])] == [0, 1, 4]
    assert [c.sync_time_s for c in candidates(table, 2, [0.1])] == [0, 1]
    assert [c.sync_time_s for c in candidates(table, 9, [0.1, 1.0])] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    flat = table.assign(ours=[1.0] * 5 + [np.inf])
    assert [c.sync_time_s for c in candidates(flat, 3, [0.1])] == [0, 2, 4]
    assert [c.sync_time_s for c in candidates(flat[:1], 3, [0.1])] == [0]


def test_a_race_halves_the_field(scenario, tmp_path):
    table = pd.DataFrame({"sync_time_s": [0.0, 2.0, 4.0, 8.0], "ours": [1.0] * 4})
    field = candidates(table, 4, [0.3])
    aimed = scenario(LINEAR, {"run": {"target": 0.1, "stop_at_target": True}})
    heats = race(aimed, Path(), tmp_path, field, 1)
    assert heats["heat"].tolist() == [1, 1, 1, 1, 2, 2]
    assert heats["time_s"].tolist() == [30.0] * 4 + [60.0] * 2
    first, last = heats[heats["heat"] == 1], heats[heats["heat"] == 2]
    assert set(last["sync_time_s"]) == set(first.nlargest(2, "score")["sync_time_s"])
    best = last.set_index("sync_time_s")["score"]
    assert best[winner(heats).sync_time_s] == best.max()
    summaries = [read_summary(path.parent) for path in tmp_path.glob("heat-1/*/summary.json")]
    assert [s["sim_time_s"] for s in summaries] == [30.0] * 4, "nobody stops at the target"
    other = scenario(LINEAR, {"model": {"name": "mlp", "hidden": [5]}})
    with pytest.raises(UserError, match="finished run of another scenario"):
        race(other, Path(), tmp_path, field, 1)


def test_what_advice_needs(scenario):
    with pytest.raises(UserError, match="'fedavg' has no sync time to advise on; use 'sync-time'"):
        horizon(scenario())
    with pytest.raises(UserError, match="learning = 'none': which S is best is a matter of what"):
        horizon(scenario(LINEAR, {"run": {"learning": "none"}}))
    with pytest.raises(UserError, match=r"give run.sim_time_s, or"):
        horizon(scenario({"algorithm": LINEAR["algorithm"]}))
    with pytest.raises(UserError, match="gradient_bound = 2 gives each group a step size of its"):
        horizon(scenario(LINEAR, {"algorithm": {"gradient_bound": 2.0}}))


@pytest.mark.parametrize(
    ("sim_time_s", "system_time_s", "expected"),
    [
        (60.0, None, Horizon(60.0, cut_off=True)),
        (None, 50.0, Horizon(50.0, cut_off=False)),
        (60.0, 50.0, Horizon(50.0, cut_off=False)),
        (60.0, 70.0, Horizon(60.0, cut_off=True)),
    ],
)
def test_the_time_that_there_is(scenario, sim_time_s, system_time_s, expected):
    timed = {"run": {"sim_time_s": sim_time_s}, "algorithm": {"system_time_s": system_time_s}}
    assert horizon(scenario(LINEAR, timed)) == expected


def test_constants_of_a_scenario(scenario):
    """Of equal data and whole batches there is no noise, and groups are alike."""
    whole = {"training": {"batch_size": 5000}, "data": {"fraction": 1.0}}
    constants, sizes = estimate_constants(scenario(LINEAR, whole), Path())
    assert sizes == {"g0": 3, "g1": 3}
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
    out = tmp_path / ("advice" * 30)
    command = ["advise", "sync-time", str(tmp_path / "timed.toml"), "--out", str(out)]
    done = CliRunner().invoke(app, [*command, "--samples", "20", "--race", "2", "--rate", "0.3"])
    assert done.exit_code == 0, done.output
    assert "an S that stays" not in done.output
    assert "by the bound: S = " in done.output
    assert "with step size 0.3" in done.output
    assert f"written: {out / 'advice.csv'}" in done.output, "whole, to be copied"
    assert (out / "advice.png").read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(out / "advice.csv")) == 11


def test_bounds_do_not_know_schedules(scenario, tmp_path):
    ramp = {"algorithm": {"schedule": {"kind": "ramp"}}}
    (tmp_path / "timed.toml").write_text(scenario(LINEAR, ramp).to_toml())
    command = ["advise", "sync-time", str(tmp_path / "timed.toml"), "--out", str(tmp_path / "a")]
    done = CliRunner().invoke(app, [*command, "--samples", "5", "--time", "2"])
    assert "bounds are for an S that stays; schedule 'ramp' is left to a race" in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--time 61", r"--time 61: longer than T = 60 s, .* give at most T"),
        ("--race 1", r"--race 1: one S has nobody to race with; give 2 or more"),
        ("--rate 0.1", r"--rate is the step size of a race; give --race, too"),
        ("--race 2 --rate 0", r"--rate 0: a step size is above 0, and finite"),
        ("--race 2 --rate inf", r"--rate inf: a step size"),
    ],
)
def test_bad_options(scenario, tmp_path, options, message):
    (tmp_path / "timed.toml").write_text(scenario(LINEAR).to_toml())
    command = ["advise", "sync-time", str(tmp_path / "timed.toml"), "--out", str(tmp_path / "a")]
    done = CliRunner().invoke(app, [*command, *options.split()])
    assert isinstance(done.exception, UserError)
    assert re.search(message, str(done.exception)), str(done.exception)
    assert not (tmp_path / "a").exists()


@pytest.mark.filterwarnings("error")
def test_no_sync_time_alone_is_drawn(tmp_path):
    table = bounds_over(PLAIN, [10, 10], DELAYS, [0.0], Horizon(100.0, True), "none", seed=1)
    draw_advice(table, None, tmp_path / "advice.png")
    assert (tmp_path / "advice.png").is_file()


def test_bounds_of_a_run(scenario, run_in, tmp_path):
    run_in(scenario(LINEAR, {"training": {"learning_rate": 0.05}}), "run")
    done = CliRunner().invoke(app, ["advise", "bounds", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    for name in ("Lemma 1, g0", "Theorem 1, g1", "Theorem 2", "Corollary 1", "whole steps, ours"):
        assert name in done.output
    lemma = next(line for line in done.output.splitlines() if "Lemma 1, g0" in line).split()
    bound, measured = float(lemma[-2]), float(lemma[-1])
    assert 0 < measured < bound
    assert "'whole steps' for 'none' and 'fednova'; this run has 'none'" in done.output
    run_in(scenario(LINEAR, {"algorithm": {"gradient_bound": 2.0}}), "many rates")
    wrong = CliRunner().invoke(app, ["advise", "bounds", str(tmp_path / "many rates")])
    assert "bounds are for one step size of all groups" in str(wrong.exception)
    fedavg = run_in(scenario(), "fedavg")
    assert fedavg
    wrong = CliRunner().invoke(app, ["advise", "bounds", str(tmp_path / "fedavg")])
    assert "bounds are for runs of sync-time" in str(wrong.exception)


def test_a_run_too_short_for_bounds(scenario, run_in, tmp_path):
    """Its table has no row of a group, and none of such a row's columns."""
    run_in(scenario(LINEAR, {"run": {"sim_time_s": 0.5}}), "run")
    told = CliRunner().invoke(app, ["advise", "bounds", str(tmp_path / "run")])
    assert isinstance(told.exception, UserError)
    assert "no global round was finished" in str(told.exception)
