"""Advice on topologies: what rounds cost on the network, bounds at their best, words, a race."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from algorithms.star_ring_bounds import FOUR, Constants, Shape
from simulator import race
from simulator.cli import app
from simulator.errors import UserError
from simulator.heterogeneity import learning_world
from simulator.topology_advice import (
    READINGS,
    Candidate,
    Facts,
    bounded,
    candidates,
    explain,
    race_time_s,
    ranking,
    rounds_to,
    table_of,
    winner,
)
from simulator.topology_delays import Cost, measure_rounds, shaped

TWO_BY_THREE = {
    "topology": {
        "gateways": 2, "devices": 6, "device_rate_bps": 1e6, "gateway_rate_bps": 1e6,
        "backhaul_rate_bps": 1e9, "device_latency_s": 0.0, "backhaul_latency_s": 0.0,
    },
    "compute": {"kind": "constant", "delay_s": 2.0, "per": "step"},
    "model": {"transfer_bytes": 125_000},
    "algorithm": {"name": "star-ring-hfl", "local_steps": 5, "group_rounds": 2},
}  # fmt: skip
"""A model takes a second to a device and back, alone; a gateway's three devices share a channel."""


def test_rounds_are_measured_on_the_network(scenario):
    costs = measure_rounds(scenario(TWO_BY_THREE), Path(), rounds=2)
    # A star's group round: 3 s down, 10 s, 3 s up; a ring's: 1 + 10 + 2 + 10 + 2 + 10 + 1.
    wired = 2 * 0.001
    assert costs["star", "star"].seconds == pytest.approx(2 * 16 + wired, abs=0.02)
    assert costs["star", "ring"].seconds == pytest.approx(2 * 36 + wired, abs=0.02)
    assert costs["ring", "star"].seconds == pytest.approx(4 * 16 + 2 * wired, abs=0.02)
    assert costs["ring", "ring"].seconds == pytest.approx(4 * 36 + 2 * wired, abs=0.02)
    model = 125_000
    assert costs["star", "star"].nbytes == 2 * 12 * model + 4 * model
    assert costs["ring", "ring"].nbytes == 2 * 2 * 4 * model + 2 * model


def test_a_tier_keeps_the_keys_that_count_there(scenario):
    timed = {"gateway_timeout_s": 50.0, "top": "ring", "group_order": "shuffled"}
    begun = scenario(TWO_BY_THREE, {"algorithm": timed})
    ring = shaped(begun, "ring", "ring").algorithm
    assert (ring.group_order, ring.device_timeout_s, ring.gateway_timeout_s) == (
        "shuffled", 50.0, None,
    )  # fmt: skip
    star = shaped(begun, "star", "star").algorithm
    assert (star.group_order, star.gateway_timeout_s) == ("fixed", 50.0)
    assert star.local_steps == 5
    either = shaped(begun, "star", "ring").model_copy(deep=True).algorithm
    either = either.model_copy(update={"retries": 7, "weights": "samples"})
    assert (either.shaped("star", "star").retries, either.shaped("ring", "star").retries) == (2, 7)
    assert either.shaped("ring", "ring").weights == "equal"
    assert either.shaped("star", "star").weights == "samples"


def test_who_waits_for_ever(scenario):
    silent = {"compute": {"dropout_probability": 0.5}, "algorithm": {"gateway_timeout_s": 90.0}}
    costs = measure_rounds(scenario(TWO_BY_THREE, silent), Path(), rounds=1)
    assert costs["star", "star"].seconds > 100
    lossy = {"network": {"kind": "flow", "loss_probability": 0.3}}
    endless = scenario(TWO_BY_THREE, lossy, {"algorithm": {"top": "ring"}})
    costs = measure_rounds(endless, Path(), rounds=2)
    assert 0 < costs["star", "star"].participants < 3, "what is lost is left out"
    assert costs["star", "ring"].participants > costs["star", "star"].participants, "or sent again"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (  # long enough for each client of a ring, too short for three in parallel
            {"algorithm": {"lower": "ring", "device_timeout_s": 15.5}},
            r"in rounds of star-star no device's model .*gateway_timeout_s = 15.5 is too short",
        ),
        (
            {"network": {"kind": "flow", "loss_probability": 1.0}},
            "no device's model reaches its gateway: everything is lost",
        ),
    ],
)
def test_rounds_that_say_nothing(changes, message, scenario):
    """Else the topology that leaves all out would be the fastest."""
    with pytest.raises(UserError, match=message):
        measure_rounds(scenario(TWO_BY_THREE, changes), Path(), rounds=1)


def test_who_is_left_out_is_told():
    costs = {pair: cost._replace(participants=10.0) for pair, cost in LONG.items()}
    costs["star", "star"] = Cost(2.0, 1e6, participants=2.5)
    told = explain(table_of(facts(noise=1.0), costs, 0.1, "corollary-1"), SHAPE)
    left_out = "in a group's round of star-star 2.5 devices take part, of star-ring 10: others"
    assert any(line.startswith(left_out) for line in told)
    whole = explain(table_of(facts(noise=1.0), LONG, 0.1, "corollary-1"), SHAPE)
    assert not any("too late" in line for line in whole)


SHAPE = Shape(10, 10, 2, 5)
SAME = {pair: Cost(1.0, 1e6) for pair in FOUR}
LONG = {pair: Cost(s, 1e6) for pair, s in zip(FOUR, (2.0, 14.0, 21.0, 140.0), strict=True)}


def facts(**constants):
    known = {"smoothness": 2.0, "noise": 0.0, "within": 0.0, "between": 0.0, "gap": 2.0}
    return Facts(SHAPE, Constants(**(known | constants)), 1.0)


def test_noise_is_what_a_top_ring_is_good_for():
    table = table_of(facts(noise=1e5), SAME, 0.1, "corollary-1")
    rounds = table.set_index("topology")["rounds"]
    assert ranking(table, "rounds")[0] == "ring-ring"
    assert rounds["star-ring"] == pytest.approx(10 * rounds["ring-ring"], rel=0.05), "G"
    table = table_of(facts(noise=30.0), LONG, 0.1, "corollary-1")
    assert ranking(table, "seconds")[0] == "star-star"


def test_a_ring_that_costs_no_more_time_is_better():
    """Of devices that share a channel, a star's wait for each other, too."""
    shared = {pair: Cost(s, 1e6) for pair, s in zip(FOUR, (66, 70, 660, 700), strict=True)}
    table = table_of(facts(noise=30.0, within=5.0), shared, 0.1, "corollary-1")
    assert ranking(table, "seconds")[0] == "star-ring"


def test_heterogeneity_between_groups_holds_all_back_and_then_time_decides():
    table = table_of(facts(between=30.0), LONG, 0.1, "theorem-1")
    assert set(table["held_back_by"]) == {"between"}
    assert table["rounds"].max() < 1.3 * table["rounds"].min()
    assert ranking(table, "seconds")[0] == "star-star"


@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_comes_down_to_the_target(reading):
    known = facts(noise=3.0, within=2.0, between=0.5)
    for pair in FOUR:
        rounds = rounds_to(known, pair, reading, 0.1)
        assert rounds_to(known, pair, reading, 0.05) > rounds > 0
        if reading != "corollary-1":
            curve, most = bounded(known, pair, reading)
            best = min(curve.at(rate, rounds) for rate in np.geomspace(1e-5 * most, most, 3000))
            assert best == pytest.approx(0.1, rel=1e-3)


def test_the_papers_limit_makes_rounds_alike():
    table = table_of(facts(), SAME, 0.1, "appendix")
    assert table["rounds"].max() == pytest.approx(table["rounds"].min())
    told = explain(table, SHAPE)
    assert any(line.startswith("all need as many rounds; ") for line in told)
    assert not any("fewest" in line for line in told)


def test_in_words():
    told = explain(table_of(facts(within=5.0, noise=30.0), LONG, 0.1, "corollary-1"), SHAPE)
    assert told[0].startswith("by rounds: ring-ring first; ")
    assert any(line.startswith("by seconds: ") for line in told)
    assert any("most of them for the noise of mini-batches" in line for line in told)
    assert any("a round of ring-ring takes 140 s" in line for line in told)
    assert "by the clock" in told[-1]


@pytest.mark.parametrize("reading", READINGS)
def test_of_one_client_or_one_group_star_and_ring_are_the_same(reading):
    known = facts(noise=3.0, within=2.0, between=0.5)
    alone = known._replace(shape=SHAPE._replace(clients=1))
    table = table_of(alone, SAME, 0.1, reading)
    rounds = table.set_index("topology")["rounds"]
    assert rounds["star-star"] == rounds["star-ring"]
    assert rounds["ring-star"] == rounds["ring-ring"]
    told = explain(table, alone.shape)
    assert "groups of one client: below, star and ring are the same" in told
    one = known._replace(shape=SHAPE._replace(groups=1))
    table = table_of(one, SAME, 0.1, reading)
    rounds = table.set_index("topology")["rounds"]
    assert rounds["star-star"] == rounds["ring-star"]
    assert rounds["star-ring"] == rounds["ring-ring"]
    told = explain(table, one.shape)
    assert " 1 times" not in told[0]
    assert "one group: above, star and ring differ in where the model stays" in told


def test_who_races(scenario):
    table = table_of(facts(noise=1.0), LONG, 0.1, "corollary-1")
    assert candidates(table, 2, [0.1, 0.3], scenario(TWO_BY_THREE), SHAPE) == [
        Candidate(name, rate) for name in ranking(table, "seconds")[:2] for rate in (0.1, 0.3)
    ]
    rounds = scenario(TWO_BY_THREE, {"algorithm": {"lower": "ring"}})
    assert race_time_s(rounds, LONG) == 3 * 14.0
    timed = scenario(TWO_BY_THREE, {"run": {"sim_time_s": 50.0}})
    assert race_time_s(timed, LONG) == 50.0


def test_with_which_step_size_they_race_if_nobody_says(scenario):
    table = table_of(facts(noise=1.0), LONG, 0.1, "corollary-1")
    plain = scenario(TWO_BY_THREE, {"training": {"learning_rate": 0.03}})
    assert {c.rate for c in candidates(table, 4, [], plain, SHAPE)} == {0.03}
    equal = scenario(TWO_BY_THREE, {"algorithm": {"effective_rate": 0.6}})
    found = {c.topology: c.rate for c in candidates(table, 4, [], equal, Shape(2, 3, 2, 5))}
    steps = {"star-star": 10, "star-ring": 30, "ring-star": 20, "ring-ring": 60}  # P = 2, K = 5
    assert found == pytest.approx({name: 0.6 / along for name, along in steps.items()})


def heats_of(*rows):
    return pd.DataFrame(rows, columns=["heat", "topology", "rate", "score", "target_s"])


def test_who_is_first_at_the_target_wins():
    nan = float("nan")
    early, late = ("star-star", 0.1, 0.92, 50.0), ("ring-star", 0.1, 0.95, 80.0)
    assert winner(heats_of((1, *late), (1, *early))).topology == "star-star"
    assert winner(heats_of((1, *early), (1, "ring-star", 0.1, 0.95, nan))).topology == "star-star"
    neither = [(2, "star-star", 0.1, 0.7, nan), (2, "ring-star", 0.1, 0.8, nan)]
    assert winner(heats_of((1, *early), *neither)).topology == "ring-star", "of the last heat"


def test_a_race_keeps_those_who_were_first_at_the_target(monkeypatch, tmp_path):
    summaries = {
        "slow": (0.9, 90.0), "never": (0.89, None), "quick": (0.9, 40.0), "diverged": (None, None),
    }  # fmt: skip

    def run_of(name, share, folder):
        accuracy, target_s = summaries[name]
        summary = {"final_accuracy": accuracy, "final_loss": None, "time_to_target_s": target_s}
        return SimpleNamespace(results=SimpleNamespace(summary=summary))

    monkeypatch.setattr(race, "carry_out", lambda *_: [])
    heats = race.race(list(summaries), run_of, tmp_path, 1)
    assert [heat.candidate for heat in heats if heat.heat == 2] == ["slow", "quick"]
    no_target = {"slow": (0.9, None), "never": (0.89, None), "quick": (0.95, None)}
    summaries.update(no_target)
    heats = race.race(list(no_target), run_of, tmp_path, 1)
    assert [heat.candidate for heat in heats if heat.heat == 2] == ["slow", "quick"]


def test_steps_of_an_epoch_are_counted(scenario):
    from simulator.topology_advice import _shape

    whole = {"algorithm": {"name": "star-ring-hfl", "local_steps": None}}
    unsaid = scenario(TWO_BY_THREE, whole, {"data": {"samples_per_device": 100}})
    with learning_world(unsaid, Path()) as (world, _):
        assert _shape(unsaid, world) == Shape(2, 3, 2, 5)


def test_the_command(scenario, tmp_path):
    (tmp_path / "ring.toml").write_text(scenario(TWO_BY_THREE).to_toml())
    out = tmp_path / "advice"
    command = ["advise", "topology", str(tmp_path / "ring.toml"), "--out", str(out)]
    small = ["--samples", "40", "--rounds", "1"]
    done = CliRunner().invoke(app, [*command, *small, "--race", "2", "--rate", "0.1"])
    assert done.exit_code == 0, done.output
    assert "by seconds: " in done.output
    assert "by the race: " in done.output
    table = pd.read_csv(out / "advice.csv")
    assert table["topology"].tolist() == ["star-star", "star-ring", "ring-star", "ring-ring"]
    assert (out / "advice.png").read_bytes().startswith(b"\x89PNG")
    heats = pd.read_csv(out / "race.csv")
    assert heats["topology"].tolist() == ranking(table, "seconds")[:2]
    assert winner(heats).topology in set(heats["topology"])


def test_what_it_does_not_know(scenario, tmp_path):
    with pytest.raises(UserError, match="'fedavg' has no topology to advise on; use 'star-ring"):
        measure_rounds(scenario(), Path(), rounds=1)
    (tmp_path / "ring.toml").write_text(scenario(TWO_BY_THREE).to_toml())
    command = ["advise", "topology", str(tmp_path / "ring.toml"), "--by", "theorem-2"]
    wrong = CliRunner().invoke(app, command)
    assert "unknown bound 'theorem-2'; did you mean 'theorem-1'" in str(wrong.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--share", "0"], "--share 0: the target is a share .* from 1e-06 to less than 1"),
        (["--share", "1e-300"], "--share 1e-300: the target is a share"),
        (["--set", "run.learning=none", "--set", "model.transfer_bytes=9"], 'use learning = "sgd"'),
        (["--share", "1.5"], "--share 1.5: the target is a share"),
        (["--share", "nan"], "--share nan: the target is a share"),
        (["--race", "1"], "one topology has nobody to race with"),
        (["--rate", "0.1"], "give --race, too"),
        (["--race", "2", "--rate", "inf"], "a step size is above 0, and finite"),
    ],
)
def test_options_that_make_no_sense(options, message, scenario, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.toml").write_text(scenario(TWO_BY_THREE).to_toml())
    done = CliRunner().invoke(app, ["advise", "topology", str(tmp_path / "ring.toml"), *options])
    assert isinstance(done.exception, UserError)
    assert re.search(message, str(done.exception))
    assert not (tmp_path / "runs").exists()


def test_what_has_no_topology_leaves_no_folder(scenario, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.toml").write_text(scenario().to_toml())
    done = CliRunner().invoke(app, ["advise", "topology", "plain.toml"])
    assert "'fedavg' has no topology to advise on" in str(done.exception)
    assert not (tmp_path / "runs").exists()
