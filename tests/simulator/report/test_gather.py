import shutil

import pytest

from simulator.errors import UserError
from simulator.folders import slug
from simulator.report.gather import gather

from .conftest import EVIL, NAMES, SEEDS, TITLE


def seeds(gathered):
    return {group.name: [run.seed for run in group.runs] for group in gathered.groups}


def test_a_study_is_its_variants_with_their_names(study):
    gathered = gather([study])
    assert seeds(gathered) == {key: list(SEEDS) for key in NAMES}
    assert list(seeds(gathered)) == list(NAMES)
    assert gathered.reference.name == "Async-HFL"


def test_a_study_that_is_under_way_has_its_names_too(study, tmp_path):
    shutil.copytree(study / slug(EVIL) / "seed-2", tmp_path / slug(EVIL) / "seed-2")
    shutil.copy(study / "study.json", tmp_path)
    gathered = gather([tmp_path])
    assert seeds(gathered) == {EVIL: [2]}
    assert gathered.title == TITLE
    assert gathered.reference.name == EVIL, "for that of the study is not there yet"


def test_of_several_folders_none_gives_the_title(study):
    assert gather([study, study / "rfl-ha/seed-1"]).title == ""


def test_a_study_of_which_nothing_is_done_is_told(study, tmp_path):
    shutil.copy(study / "study.json", tmp_path)
    with pytest.raises(UserError, match="none of its runs is finished yet"):
        gather([tmp_path])


@pytest.mark.parametrize("content", ["", "[]", '{"title": "a"}', '{"variants": [1]}', "\xff"])
def test_a_study_that_cannot_be_read_is_its_runs(study, tmp_path, content):
    shutil.copytree(study / "rfl-ha", tmp_path / "rfl-ha")
    (tmp_path / "study.json").write_bytes(content.encode("latin-1"))
    assert list(seeds(gather([tmp_path]))) == ["rfl-ha"]


def test_without_a_study_variants_are_called_as_their_folders(study, tmp_path):
    for name in ("async-hfl", "rfl-ha"):
        shutil.copytree(study / name, tmp_path / name)
    gathered = gather([tmp_path])
    assert list(seeds(gathered)) == ["async-hfl", "rfl-ha"]
    assert gathered.reference.name == "async-hfl"
    assert gather([tmp_path], "rfl-ha").reference.name == "rfl-ha"


def test_runs_that_differ_in_the_seed_alone_are_one(study, tmp_path):
    for seed in SEEDS:
        shutil.copytree(study / "rfl-ha" / f"seed-{seed}", tmp_path / f"mine-{seed}")
    shutil.copytree(study / "async-hfl" / "seed-2", tmp_path / "other-2")
    folders = [tmp_path / name for name in ("mine-1", "mine-2", "other-2", "mine-3", "mine-1")]
    assert seeds(gather(folders)) == {"mine": [1, 2, 3], "other-2": [2]}


def test_the_same_seed_twice_is_two_things(study, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(study / "rfl-ha" / "seed-1", tmp_path / name)
    assert seeds(gather([tmp_path / "a", tmp_path / "b"])) == {"a": [1], "b": [1]}


def test_unfinished_runs_of_a_study_are_left_out_and_named(study, tmp_path):
    shutil.copytree(study / "rfl-ha", tmp_path / "rfl-ha")
    (tmp_path / "rfl-ha/seed-2/summary.json").unlink()
    gathered = gather([tmp_path])
    assert seeds(gathered) == {"rfl-ha": [1, 3]}
    assert [place.name for place in gathered.unfinished] == ["seed-2"]


def test_what_cannot_be_reported_is_told(study, tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        gather([tmp_path / "nowhere"])
    with pytest.raises(UserError, match="holds neither a run"):
        gather([tmp_path])
    place = tmp_path / slug("x") / "seed-1"
    shutil.copytree(study / "rfl-ha/seed-1", place)
    (place / "summary.json").unlink()
    with pytest.raises(UserError, match="'meshfl resume"):
        gather([place])
    with pytest.raises(UserError, match="none of its runs is finished"):
        gather([tmp_path])
    with pytest.raises(UserError, match=r"--reference Async-HFI: .* did you mean 'Async-HFL'"):
        gather([study], "Async-HFI")


def test_a_log_that_is_gone_is_told(study, tmp_path):
    shutil.copytree(study / "rfl-ha/seed-1", tmp_path / "run")
    (tmp_path / "run/events.log").unlink()
    with pytest.raises(UserError, match=r"events\.log: cannot be read"):
        assert gather([tmp_path / "run"]).groups[0].first.trained
