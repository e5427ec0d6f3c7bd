"""Checks of published findings, tuned keys, and gateways' own scores in studies."""

import math
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from typer.testing import CliRunner

from simulator.cli import app
from simulator.errors import UserError
from simulator.study import Study
from simulator.study_checks import Check, Measure, judge, value_of


def result(scores, every_s=10.0, gateway=(), losses=None):
    """Scores at 0, 10, 20 s and so on; ``gateway``: of g0's own model."""

    def rows(values, tier, node):
        return [
            {"sim_time_s": every_s * i, "epoch": i, "accuracy": a, "loss": a, "tier": tier, "node": node}
            for i, a in enumerate(values)
        ]  # fmt: skip

    cloud = pd.DataFrame(rows(scores, "cloud", None))
    own = pd.DataFrame(rows(gateway, "gateway", "g0"))
    return SimpleNamespace(
        curve=cloud, gateway_curve=lambda node: own, is_regression=losses is not None
    )


SCORES = [0.1, 0.5, 0.3, 0.4]


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ({}, 0.4),
        ({"until_s": 25}, 0.3),
        ({"of": "best"}, 0.5),
        ({"of": "best", "from_s": 15}, 0.4),
        ({"of": "rounds"}, 3),
        ({"of": "rounds", "until_s": 10}, 1),
        ({"of": "swing"}, (0.4 + 0.2 + 0.1) / 3),
        ({"of": "swing", "from_s": 20}, 0.1),
    ],
)
def test_measures(measure, value):
    assert value_of(Measure(variant="a", **measure), result(SCORES)) == pytest.approx(value)


def test_a_gateways_own_model():
    both = result(SCORES, gateway=[0.7, 0.8])
    assert value_of(Measure(variant="a", node="g0"), both) == 0.8


def test_of_losses_the_least_is_best():
    assert value_of(Measure(variant="a", of="best"), result(SCORES, losses=True)) == 0.1


def test_nothing_to_measure():
    assert math.isnan(value_of(Measure(variant="a", from_s=100), result(SCORES)))


RUNS = {
    "a": {1: result([0.6]), 2: result([0.8])},
    "b": {1: result([0.7]), 2: result([0.5])},
    "c": {},
}


def judged(**check):
    (found,) = judge([Check(claim="as published", **check)], RUNS.__getitem__)
    return found


def test_means_decide_and_seeds_are_counted():
    found = judged(more="a", than=["b"])
    assert found.holds
    assert found.text == ("holds: as published (final of a 0.7, b 0.6: +0.1, 1 of 2 seeds)")
    assert not judged(more="b", than=["a"]).holds
    assert judged(more="b", than=["a"]).text.startswith("DOES NOT HOLD: as published")


def test_by_how_much():
    assert not judged(more="a", than=["b"], by=0.11).holds
    assert judged(more="a", than=["b"], times=1.1).holds
    assert not judged(more="a", than=["b"], times=1.2).holds
    assert judged(more="b", than=["a"], by=-0.2).holds, "not worse by more than that"


def test_all_of_several_must_hold():
    longer = {"variant": "a", "of": "best"}
    assert not judged(more=longer, than=["b", "a"]).holds, "a is not more than itself"


def test_what_was_not_run_is_not_judged():
    assert judge([Check(claim="x", more="a", than=["c"])], RUNS.__getitem__) == []


STUDY = """
title = "Two ways"
scenario = "small.toml"
reference = "One round, learning_rate 0.1"
seeds = [1, 2]
tuned = "training.learning_rate"

[grid]
"training.learning_rate" = [1e-9, 0.1]

[[variants]]
name = "One round"

[[variants]]
name = "Two rounds"

[variants.change.algorithm]
gateway_rounds = 2

[[checks]]
claim = "more rounds, more accuracy"
more = "Two rounds"
than = ["One round"]

[[checks]]
claim = "it learns"
more = {variant = "One round", node = "g1"}
than = [{variant = "One round", until_s = 1e-6}]
by = 0.3
"""


@pytest.fixture
def study(tmp_path, scenario):
    small = scenario({"record": {"evaluate_gateway_rounds": 1}})
    (tmp_path / "small.toml").write_text(small.to_toml())
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_each_variant_is_told_at_its_best_value(study):
    out = study.parent / "out"
    done = CliRunner().invoke(app, ["study", str(study), "--out", str(out)])
    assert done.exit_code == 0, done.output
    told = (out / "findings.md").read_text()
    assert "One round, learning_rate 0.1 |" in told
    assert "1e-09" not in told
    assert "Two rounds, learning_rate 0.1, g0" in told, "gateways' own models"
    assert "- holds: it learns (final of One round, g1 0." in told
    assert re.search(r"HOLD\w*: more rounds|holds: more rounds", told)
    assert "it learns" in done.output
    table = pd.read_csv(out / "findings.csv")
    assert table["chosen"].sum() == 2 * 3
    assert len(table) == 4 * 3, "all values, and two gateways each"
    assert (out / "tuning.png").read_bytes().startswith(b"\x89PNG")


def test_groups_that_never_meet_are_tuned_by_their_own_scores(study, scenario):
    alone = {"algorithm": {"name": "sync-time", "sync_time_s": 1000.0}}
    short = {"run": {"epochs": None, "sim_time_s": 10.0}}
    scored = {"record": {"evaluate_gateway_rounds": 1}}
    (study.parent / "small.toml").write_text(scenario(alone, short, scored).to_toml())
    study.write_text(STUDY[: STUDY.index('[[variants]]\nname = "Two rounds"')])
    out = study.parent / "out"
    done = CliRunner().invoke(app, ["study", str(study), "--out", str(out)])
    assert done.exit_code == 0, done.output
    table = pd.read_csv(out / "findings.csv").set_index("variant")
    assert table["rounds"].eq(0).all()
    assert table["chosen"].to_dict()["One round, learning_rate 0.1"]
    assert not table["chosen"].to_dict()["One round, learning_rate 1e-09"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('tuned = "training', 'tuned = "trainin', "no key of the grid; did you mean"),
        ('than = ["One round"]', 'than = ["One rond"]', "no variant 'One rond'; did you mean"),
        ('node = "g1"}', 'nod = "g1"}', "unknown key; did you mean 'node'"),
    ],
)
def test_bad_checks_are_refused(study, old, new, message):
    study.write_text(STUDY.replace(old, new))
    with pytest.raises(UserError, match=message):
        Study.load(study)
