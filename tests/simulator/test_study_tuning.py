"""Studies that choose a value with runs of their own, and figures over a grid's key."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from simulator.cli import app
from simulator.errors import UserError
from simulator.study import Study
from simulator.study_figures import crossings

STUDY = """
title = "Tuned"
scenario = "small.toml"
reference = "FedAvg, learning_rate 0.1"
seeds = [1, 2]
tuned = "training.learning_rate"
curves = ["rounds", "seconds", "bytes"]

[tuning]
seeds = [9]
epochs = 2

[published_best]
FedAvg = 0.9

[grid]
"training.learning_rate" = [1e-6, 0.1]

[[variants]]
name = "FedAvg"

[[variants]]
name = "Two rounds"

[variants.change.algorithm]
gateway_rounds = 2
"""
SWEEP = """
title = "Swept"
scenario = "small.toml"
reference = "FedAvg, delay_s 1.0"
seeds = [1]

[sweep]
label = "seconds of computing"

[grid]
"compute.delay_s" = [1.0, 10.0]

[[variants]]
name = "FedAvg"

[variants.change.compute]
kind = "constant"

[[variants]]
name = "Two rounds"

[variants.change.compute]
kind = "constant"

[variants.change.algorithm]
gateway_rounds = 2
"""


@pytest.fixture
def conduct(tmp_path, scenario):
    def run(text, small=None, *options):
        (tmp_path / "small.toml").write_text(scenario(small or {}).to_toml())
        (tmp_path / "study.toml").write_text(text)
        out = str(tmp_path / "out")
        done = CliRunner().invoke(
            app, ["study", str(tmp_path / "study.toml"), "--out", out, *options]
        )
        assert done.exit_code == 0, (done.output, done.exception)
        return tmp_path / "out"

    return run


def test_only_what_the_tuning_has_chosen_is_run_with_the_studys_seeds(conduct):
    out = conduct(STUDY)
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == [
        "fedavg-learning-rate-0-1", "tuning", "two-rounds-learning-rate-0-1",
    ]  # fmt: skip
    runs = [p.parent.name for p in (out / "tuning").glob("*/*/summary.json")]
    assert runs == ["seed-9"] * 4
    tuned = pd.read_csv(out / "tuning" / "findings.csv").set_index("variant")
    assert tuned["chosen"].tolist() == [False, True, False, True]
    assert tuned["rounds"].tolist() == [2] * 4
    found = pd.read_csv(out / "findings.csv").set_index("variant")
    assert found.index.tolist() == ["FedAvg, learning_rate 0.1", "Two rounds, learning_rate 0.1"]
    assert found["published_best"].tolist() == [0.9, pytest.approx(np.nan, nan_ok=True)]
    assert (out / "curves.png").is_file()
    assert (out / "tuning" / "tuning.png").is_file()
    assert not (out / "tuning.png").exists()


def test_runs_that_stop_at_their_target_are_tuned_by_who_is_there_first(conduct):
    """A slower value that happens to end a little above the target is not better."""
    rates = STUDY.replace("[1e-6, 0.1]", "[1e-6, 0.02, 0.1]").replace("epochs = 2", "")
    goal = {"run": {"epochs": 20, "target": 0.5, "stop_at_target": True}}
    tried = pd.read_csv(conduct(rates, goal) / "tuning" / "findings.csv")
    for name in ("FedAvg", "Two rounds"):
        values = tried[tried["variant"].str.startswith(name)]
        assert values["reached"].tolist() == ["0/1", "1/1", "1/1"]
        soonest = values["seconds"].idxmin()
        assert values.index[values["chosen"]].tolist() == [soonest]


def test_one_variant_alone_is_tuned_alone(conduct):
    out = conduct(STUDY, None, "--only", "Two rounds")
    assert not list(out.glob("fedavg*"))
    assert len(list((out / "tuning").glob("*/seed-9"))) == 2


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("seeds = [9]", "seeds = [2]", "2 is one of the study's; take others"),
        ('tuned = "training.learning_rate"', "", "name their key"),
        ("FedAvg = 0.9", "FedAgv = 0.9", "did you mean 'FedAvg'"),
    ],
)
def test_what_does_not_go_together(tmp_path, before, after, message):
    (tmp_path / "study.toml").write_text(STUDY.replace(before, after))
    with pytest.raises(UserError, match=message):
        Study.load(tmp_path / "study.toml")


def test_a_sweep_has_a_figure(conduct):
    out = conduct(SWEEP, {"run": {"target": 0.5}})
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("value", ["0.0", "'a'", "inf"])
def test_a_sweep_is_over_what_an_axis_can_have(tmp_path, value):
    """It was told when all runs were done, or the value's points were missing."""
    path = tmp_path / "study.toml"
    path.write_text(SWEEP.replace("10.0]", f"{value}]"))
    with pytest.raises(UserError, match=f'grid."compute.delay_s" .* {value} is no number above 0'):
        Study.load(path)


def test_a_sweep_of_which_none_reaches_the_target(conduct):
    out = conduct(SWEEP, {"run": {"target": 1.0}})
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_lines_cross_where_their_ratio_is_one():
    x = np.array([1.0, 10.0, 100.0])
    # 1 against 10 at 1, 100 against 10 at 100: at 10 they are equal, were it measured
    assert crossings(x[[0, 2]], np.array([1.0, 100.0]), np.array([10.0, 10.0])) == pytest.approx(
        [10]
    )
    assert crossings(x, np.ones(3), 2 * np.ones(3)) == []
    assert crossings(x, np.array([1.0, np.nan, 3.0]), np.array([2.0, 2.0, 2.0])) == []
