"""Studies: variants laid over a scenario, run side by side, continued, compared."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from simulator.cli import app, main
from simulator.errors import UserError
from simulator.runner import start
from simulator.scenario import Scenario, laid_over
from simulator.study import Study, check_done, runs_of
from topologies import shipped

STUDIES = Path(__file__).parents[2] / "scripts" / "studies"
STUDY = """
title = "Two ways"
scenario = "small.toml"
reference = "FedAvg"
seeds = [1, 2]
source = "a paper, Table 1"

[[variants]]
name = "FedAvg"
published = 1.0

[[variants]]
name = "Two rounds"
published = 2.5

[variants.change.algorithm]
gateway_rounds = 2

[variants.change.compute]
kind = "constant"
delay_s = 1.0
"""


@pytest.fixture
def study(tmp_path, scenario):
    small = scenario({"run": {"target": 0.5}})
    (tmp_path / "small.toml").write_text(small.to_toml())
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def conduct(path, *options):
    return CliRunner().invoke(
        app, ["study", str(path), "--out", str(path.parent / "out"), *options]
    )


def test_tables_are_merged_unless_they_become_another_kind():
    before = {"a": {"kind": "x", "k": 1, "deep": {"n": 1, "m": 2}}, "b": 1}
    assert laid_over(before, {"a": {"deep": {"n": 3}}})["a"]["deep"] == {"n": 3, "m": 2}
    assert laid_over(before, {"a": {"kind": "x", "k": 2}})["a"]["deep"] == {"n": 1, "m": 2}
    assert laid_over(before, {"a": {"kind": "y", "j": 1}})["a"] == {"kind": "y", "j": 1}
    assert before["a"]["k"] == 1


def test_a_study_ends_with_a_table_beside_published_numbers(study):
    done = conduct(study, "--jobs", "2")
    assert done.exit_code == 0, done.output
    assert "a paper, Table 1" in done.output
    assert "±: standard deviation over the seeds" in done.output
    out = study.parent / "out"
    found = pd.read_csv(out / "findings.csv").set_index("variant")
    times = {
        variant: [
            json.loads((out / folder / f"seed-{seed}" / "summary.json").read_text())
            for seed in (1, 2)
        ]
        for variant, folder in {"FedAvg": "fedavg", "Two rounds": "two-rounds"}.items()
    }
    for variant, summaries in times.items():
        mean = sum(s["time_to_target_s"] for s in summaries) / 2
        assert found.loc[variant, "seconds"] == pytest.approx(mean)
        assert found.loc[variant, "reached"] == "2/2"
    ratio = found.loc["Two rounds", "seconds"] / found.loc["FedAvg", "seconds"]
    assert found.loc["Two rounds", "ratio"] == pytest.approx(ratio)
    assert found.loc["Two rounds", "published"] == 2.5
    assert (out / "findings.md").read_text().count("|") > 30
    for name in ("curves.png", "ratios.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_brackets_in_names_are_text(study):
    text = STUDY.replace('"a paper, Table 1"', '"a paper [7], Table 1"')
    study.write_text(text.replace('"FedAvg"', '"FedAvg [8]"').replace("Two ways", "[bold]Ways"))
    done = conduct(study, "--only", "FedAvg [8]", "--set", "run.epochs=1")
    assert done.exit_code == 0, done.output
    for shown in ("published: a paper [7], Table 1", "[bold]Ways: to target", "FedAvg [8]"):
        assert shown in done.output


def test_what_is_done_is_not_run_again_and_what_was_begun_goes_on(study):
    out = study.parent / "out"
    first, begun, *_ = runs_of(Study.load(study), study, out)
    start(first.scenario, first.base, first.folder)
    written = (first.folder / "summary.json").stat().st_mtime_ns

    def pause(sim):
        sim.interrupted = True

    assert start(begun.scenario, begun.base, begun.folder, watch=pause) is None
    done = conduct(study)
    assert done.exit_code == 0, done.output
    assert (first.folder / "summary.json").stat().st_mtime_ns == written
    assert (begun.folder / "summary.json").is_file()


def test_one_variant_alone(study):
    done = conduct(study, "--only", "Two rounds")
    assert done.exit_code == 0, done.output
    assert not (study.parent / "out/fedavg").exists()
    found = pd.read_csv(study.parent / "out/findings.csv").set_index("variant")
    assert found.index.tolist() == ["Two rounds"]
    assert pd.isna(found.loc["Two rounds", "ratio"])
    wrong = conduct(study, "--only", "Two round")
    assert "did you mean 'Two rounds'" in str(wrong.exception)


def test_keys_are_changed_for_all_variants(study, scenario):
    settings = ["training.learning_rate=0.3", "algorithm.gateway_rounds=4", "data.name=mnist"]
    (study.parent / "small.toml").write_text(scenario({"data": {"fraction": 0.5}}).to_toml())
    changed = Study.load(study).with_settings(settings)
    runs = runs_of(changed, study, study.parent / "out")
    assert {run.scenario.training.learning_rate for run in runs} == {0.3}
    assert {run.scenario.algorithm.gateway_rounds for run in runs} == {4}, "above variants"
    assert {run.scenario.data.name for run in runs} == {"mnist"}
    assert {run.scenario.data.fraction for run in runs} == {0.5}, "the section's others stay"
    assert [run.seed for run in runs] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.learning_rate=0.3", r"the study's \[grid\] says that; change its file"),
        ("run.seed=5", "the study's list of seeds says that"),
        ("training.learning_rat=0.3", "did you mean 'learning_rate'"),
        ("training", "must read section.key=value"),
    ],
)
def test_keys_that_cannot_be_changed(study, setting, message):
    reference = 'reference = "FedAvg, learning_rate 0.05, gateway_rounds 1"'
    study.write_text(STUDY.replace('reference = "FedAvg"', reference) + GRID)
    done = conduct(study, "--set", setting)
    assert isinstance(done.exception, UserError)
    assert re.search(message, str(done.exception)), str(done.exception)
    assert not (study.parent / "out").exists()


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_studies_are_good(path, tmp_path):
    if re.search(r"^(\[\[variants|like)", path.read_text(), re.M):
        assert runs_of(Study.load(path), path, tmp_path)
    else:
        Scenario.load(path)


def test_a_finished_run_of_another_scenario_is_refused(study):
    assert conduct(study).exit_code == 0
    study.write_text(STUDY.replace("gateway_rounds = 2", "gateway_rounds = 3"))
    done = conduct(study)
    assert isinstance(done.exception, UserError)
    assert "two-rounds" in str(done.exception)
    assert "remove that folder" in str(done.exception)


def test_a_finished_run_on_another_topology_is_refused(study, scenario):
    small = study.parent / "small.toml"
    on_file = {"topology": {"kind": "file", "path": "tree-30"}, "run": {"target": 0.5}}
    small.write_text(scenario(on_file).to_toml())
    first = runs_of(Study.load(study), study, study.parent / "out")[0]
    start(first.scenario, first.base, first.folder)
    small.write_text(small.read_text().replace('"tree-30"', '"campus-12"'))
    done = conduct(study)
    assert isinstance(done.exception, UserError)
    assert "of another scenario" in str(done.exception)


def test_a_finished_run_with_another_file_of_the_same_name_is_refused(study, scenario):
    own = study.parent / "own.json"
    own.write_text(shipped()["tree-30"].read_text())
    on_file = {"topology": {"kind": "file", "path": "own.json"}, "run": {"target": 0.5}}
    (study.parent / "small.toml").write_text(scenario(on_file).to_toml())
    first = runs_of(Study.load(study), study, study.parent / "out")[0]
    start(first.scenario, first.base, first.folder)
    check_done([first])
    own.write_text(own.read_text().replace("\n", "\n\n", 1))
    with pytest.raises(UserError, match="of another scenario"):
        check_done([first])


def test_what_is_no_run_is_left_alone(study):
    notes = study.parent / "out/fedavg/seed-1/notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    done = conduct(study)
    assert isinstance(done.exception, UserError)
    assert re.search(r"seed-1: is no run's folder.*another --out", str(done.exception))
    assert notes.read_text() == "mine"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "titel =", "titel: unknown key; did you mean 'title'"),
        ('reference = "FedAvg"', 'reference = "FedAvk"', "did you mean 'FedAvg'"),
        ('name = "Two rounds"', 'name = "fedavg"', "2 variants are called 'FedAvg' or have that"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "seed 1 is given twice"),
        ("gateway_rounds = 2", "gateway_rouds = 2", "'Two rounds'.*did you mean 'gateway_rounds'"),
        ("small.toml", "smal.toml", "smal.toml cannot be read"),
        ("published = 2.5", "published = -1", "published"),
        (
            'reference = "FedAvg"',
            'reference = "FedAvg, batch_sise 1"\ngrid = {"training.batch_sise" = [1]}',
            "'FedAvg, batch_sise 1':.*training.batch_sise: unknown key; did you mean 'batch_size'",
        ),
        ("published = 2.5", "change.run.seed = 4", "run.seed: seeds has the seeds"),
        *[
            ("[[variants]]", f"grid = {{{grid}}}\n[[variants]]", message)
            for grid, message in {
                '"run.seed" = [1, 2]': "run.seed: seeds has the seeds of all variants",
                "rate = [1, 2]": 'grid.rate: must name section and key, as "training.learning_rate"',
                '"training.learning_rate" = []': 'grid."training.learning_rate": an empty list',
                '"training.learning_rate" = [1, 1.0]': 'learning_rate": 1 is given twice',
                '"training.learning_rate" = 1': "grid.training.learning_rate: 1 should be",
                '"algorithm.gateway_rounds" = [1, 2]': "unknown reference 'FedAvg'; known: 'FedAvg, gateway_rounds 1', 'FedAvg, ga",
            }.items()
        ],
    ],
)
def test_bad_studies_are_refused_before_anything_is_written(study, old, new, message):
    study.write_text(STUDY.replace(old, new, 1))
    done = conduct(study)
    assert isinstance(done.exception, UserError)
    assert re.search(message, str(done.exception), re.S), str(done.exception)
    assert not (study.parent / "out").exists()


def test_a_study_does_not_move_into_a_run(study):
    """For which the folder would be taken no more: a study's is drawn and exported as a whole."""
    (first, *_) = runs_of(Study.load(study), study, study.parent)
    start(first.scenario, first.base, study.parent / "out")
    before = sorted((study.parent / "out").rglob("*"))
    with pytest.raises(UserError, match="out: holds a run, not a study; choose another --out"):
        raise conduct(study).exception
    assert sorted((study.parent / "out").rglob("*")) == before


@pytest.mark.parametrize(
    ("more", "place"),
    [
        (
            '[[variants]]\nname = "Third"\nchange = {training = {batch_size = 7}}\n',
            "variant 'Third'",
        ),
        ('[grid]\n"training.batch_size" = [7, 8]\n', r"\[grid\]"),
    ],
)
def test_what_would_be_set_in_vain_is_refused(study, more, place):
    study.write_text(STUDY + "[change.training]\nbatch_size = 5\n" + more)
    with pytest.raises(UserError, match=f"training.batch_size is set by {place} and by .change"):
        Study.load(study)


def test_a_study_does_not_move_into_another_ones_folder(study):
    """A report of the folder would mix the runs of both."""
    assert conduct(study).exit_code == 0
    told = (study.parent / "out/study.json").read_text()
    study.write_text(STUDY.replace("title = ", 'title = "Not " # '))
    message = "out: holds the study .*, not 'Not '; choose another --out"
    with pytest.raises(UserError, match=message):
        raise conduct(study).exception
    assert (study.parent / "out/study.json").read_text() == told


def test_an_interrupt_has_one_word(study, monkeypatch, capsys):
    """Not also that it was stopped at once: the runs have been saved."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.study_run.carry_out", interrupted)
    monkeypatch.setattr(
        "sys.argv", ["meshfl", "sweep", str(study), "--out", str(study.parent / "o")]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    told = capsys.readouterr()
    assert "interrupted; the same command continues the study" in told.out
    assert "stopped at once" not in told.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "Two rounds"', "name = 5", r"variants\.1\.name: 5 should be a valid string"),
        ('name = "Two rounds"\n', "", r"variants\.1\.name: missing"),
        (
            'name = "Two rounds"',
            'name = ""',
            r"variants\.1\.name: '' String should have at least 1",
        ),
        ("published = 2.5", 'change = "x"', r"variants\.1\.change: 'x' should be a valid dict"),
    ],
)
def test_bad_variants_are_told_as_without_a_grid(study, old, new, message):
    text, _, _ = STUDY.partition("[variants.change")
    study.write_text(text.replace(old, new) + '[grid]\n"training.learning_rate" = [0.1, 0.2]\n')
    with pytest.raises(UserError, match=message):
        Study.load(study)


def test_a_variant_may_have_a_target_and_a_reference_of_its_own(study):
    study.write_text(
        STUDY.replace("published = 2.5", 'published = 2.5\nreference = "Two rounds"')
        + "\n[variants.change.run]\ntarget = 0.6\n"
    )
    assert conduct(study).exit_code == 0
    found = pd.read_csv(study.parent / "out/findings.csv").set_index("variant")
    assert found["target"].to_dict() == {"FedAvg": 0.5, "Two rounds": 0.6}
    assert found["ratio"].tolist() == [1.0, 1.0]
    assert "| target |" in (study.parent / "out/findings.md").read_text()


LIKE = """
title = "The same, elsewhere"
scenario = "small.toml"
like = "study.toml"
reference = "Two rounds"
seeds = [3]

[published]
FedAvg = 0.7

[change.training]
learning_rate = 0.02
"""


def test_a_study_may_take_the_variants_of_another(study):
    path = study.parent / "like.toml"
    path.write_text(LIKE)
    runs = runs_of(Study.load(path), path, study.parent / "out")
    assert [run.variant for run in runs] == ["FedAvg", "Two rounds"]
    assert [run.scenario.training.learning_rate for run in runs] == [0.02, 0.02]
    assert [run.scenario.algorithm.gateway_rounds for run in runs][1] == 2
    done = conduct(path)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(study.parent / "out/findings.csv").set_index("variant")
    assert found.loc["FedAvg", "published"] == 0.7
    assert pd.isna(found.loc["Two rounds", "published"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("FedAvg = 0.7", "FedAvk = 0.7", "no variant 'FedAvk'; did you mean 'FedAvg'"),
        ("FedAvg = 0.7", "FedAvg = 0", "published"),
        ('"study.toml"', '"like.toml"', "takes its own variants from 'like.toml'; name that one"),
        ('"study.toml"', '"stud.toml"', "stud.toml: no such study file"),
    ],
)
def test_bad_references_to_another_study_are_refused(study, old, new, message):
    path = study.parent / "like.toml"
    path.write_text(LIKE.replace(old, new))
    with pytest.raises(UserError, match=message):
        Study.load(path)


def test_all_variants_have_a_target_or_none_of_them_any(study, scenario):
    (study.parent / "small.toml").write_text(scenario().to_toml())
    study.write_text(STUDY + "[variants.change.run]\ntarget = 0.6\n")
    done = conduct(study)
    assert isinstance(done.exception, UserError)
    assert "give every variant a [run] target" in str(done.exception)


def test_without_a_target_best_scores_stand_beside_published_ones(study, scenario):
    (study.parent / "small.toml").write_text(scenario().to_toml())
    study.write_text(STUDY.replace("published = 2.5", "published_best = 0.9"))
    done = conduct(study)
    assert done.exit_code == 0, done.output
    out = study.parent / "out"
    found = pd.read_csv(out / "findings.csv").set_index("variant")
    best = [
        json.loads((out / "two-rounds" / f"seed-{seed}" / "summary.json").read_text())
        for seed in (1, 2)
    ]
    mean = sum(summary["best_accuracy"] for summary in best) / 2
    assert found.loc["Two rounds", "best"] == pytest.approx(mean)
    assert (out / "findings.md").read_text().startswith("| variant | best | paper | final |")
    assert "0.9000" in (out / "findings.md").read_text()
    assert (out / "scores.png").is_file()
    assert not (out / "ratios.png").exists()


GRID = """
[grid]
"training.learning_rate" = [0.05, 0.1]
"algorithm.gateway_rounds" = [1, 2, 3]
"""


def test_a_grid_is_all_combinations_of_every_variant(study):
    reference = 'reference = "FedAvg, learning_rate 0.05, gateway_rounds 1"'
    study.write_text(STUDY.replace('reference = "FedAvg"', reference) + GRID)
    runs = runs_of(Study.load(study), study, study.parent / "out")
    assert len(runs) == 2 * 2 * 6
    last = runs[-1]
    assert last.variant == "Two rounds, learning_rate 0.1, gateway_rounds 3"
    assert last.scenario.training.learning_rate == 0.1
    assert last.scenario.algorithm.gateway_rounds == 3
    assert last.scenario.compute.kind == "constant"


def test_a_grid_of_two_keys_is_drawn(study, scenario):
    (study.parent / "small.toml").write_text(scenario().to_toml())
    reference = 'reference = "FedAvg, learning_rate 0.05, gateway_rounds 1"'
    one_seed = STUDY.replace("[1, 2]", "[1]").replace('reference = "FedAvg"', reference)
    study.write_text(one_seed.partition('[[variants]]\nname = "Two rounds"')[0] + GRID)
    done = conduct(study)
    assert done.exit_code == 0, done.output
    assert (study.parent / "out/grid.png").read_bytes().startswith(b"\x89PNG")


def test_a_failing_run_does_not_stop_the_others(study):
    study.write_text(
        STUDY.replace("delay_s = 1.0", 'delay_s = 1.0\n[variants.change.data]\nname = "cinic10"')
    )
    done = conduct(study)
    assert isinstance(done.exception, UserError)
    assert "2 of 4 runs failed" in str(done.exception)
    assert str(done.exception).count("meshfl data fetch cinic10") == 2
    assert (study.parent / "out/fedavg/seed-2/summary.json").is_file()
    found = pd.read_csv(study.parent / "out/findings.csv")
    assert found["variant"].tolist() == ["FedAvg"]


def test_a_grid_without_variants_is_refused(study):
    study.write_text(STUDY[: STUDY.index("[[variants]]")] + GRID)
    with pytest.raises(UserError, match="variants"):
        Study.load(study)
