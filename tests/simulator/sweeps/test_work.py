"""One run of a sweep, its notes, and the table that is made of them."""

import threading
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from simulator.folders import alone_in
from simulator.runner import start
from simulator.sweeps.notes import DONE, FAILED, IN_USE, RUNNING, Note, give_up, notes_in
from simulator.sweeps.view import Board, watched
from simulator.sweeps.work import INTERRUPTED, Task, perform

from .conftest import PATIENCE_S


@pytest.fixture
def task(tmp_path, scenario):
    (tmp_path / ".sweep-1").mkdir()
    folder, note = tmp_path / "run", tmp_path / ".sweep-1" / "0.json"
    return Task("a run", scenario(), Path(), folder, note, tmp_path)


def test_a_run_leaves_a_last_note(task):
    assert perform(task) == ""
    note = Note.read(task.note)
    assert (note.state, note.share, note.epoch) == (DONE, 1.0, 3)
    assert note.accuracy > 0.3
    written = (task.folder / "summary.json").stat().st_mtime_ns
    assert perform(task) == ""
    assert (task.folder / "summary.json").stat().st_mtime_ns == written


def test_what_goes_wrong_is_in_the_note(task, scenario):
    absent = scenario({"data": {"name": "cinic10"}})
    problem = perform(replace(task, scenario=absent))
    assert "meshfl data fetch cinic10" in problem
    assert Note.read(task.note) == Note(FAILED, problem=problem)
    assert perform(replace(task, scenario=None)).startswith("unexpected AttributeError: ")


def test_a_machine_that_does_not_share_the_folder_says_so(task, tmp_path):
    elsewhere = replace(task, note=tmp_path / "elsewhere" / ".sweep-1" / "0.json")
    assert "elsewhere: no such folder on" in perform(elsewhere)
    assert not task.folder.exists()


def test_a_run_whose_sweep_is_over_saves_itself(task, scenario, run_in):
    longer = replace(task, scenario=scenario({"run": {"epochs": 1_000_000}}))
    problems = []
    thread = threading.Thread(target=lambda: problems.append(perform(longer)))
    thread.start()
    while Note.read(task.note).epoch < 2:
        assert thread.is_alive(), problems
        time.sleep(0.01)
    give_up([longer])
    thread.join(PATIENCE_S)
    assert problems == [INTERRUPTED]
    assert (task.folder / "checkpoint.safetensors").is_file()
    assert perform(longer) == INTERRUPTED, "nor is it begun"


def test_a_folder_in_use_is_waited_for(task):
    start(
        task.scenario, task.base, task.folder, watch=lambda sim: setattr(sim, "interrupted", True)
    )
    problems = []
    thread = threading.Thread(target=lambda: problems.append(perform(task)))
    with alone_in(task.folder, "testing"):
        thread.start()
        while Note.read(task.note).state != IN_USE:
            assert thread.is_alive(), problems
            time.sleep(0.01)
    thread.join(PATIENCE_S)
    assert problems == [""]


def test_what_was_begun_as_another_run_is_begun_afresh(task, scenario):
    other = scenario({"run": {"seed": 4}})
    start(other, task.base, task.folder, watch=lambda sim: setattr(sim, "interrupted", True))
    assert perform(task) == ""
    assert "seed = 3" in (task.folder / "scenario.toml").read_text()


def test_notes_go_with_their_sweep_and_those_of_killed_ones_too(tmp_path):
    left = tmp_path / ".sweep-killed"
    left.mkdir()
    Note(RUNNING).write(left / "0.json")
    with notes_in(tmp_path) as first, notes_in(tmp_path) as second:
        assert first != second
        assert not left.exists()
        Note(RUNNING).write(first / "0.json")
    assert list(tmp_path.iterdir()) == []
    Note(RUNNING).write(first / "0.json")
    assert list(tmp_path.iterdir()) == []


def board_of(tmp_path, task, *notes):
    tasks = [replace(task, name=f"[run] {i}", note=tmp_path / f"{i}.json") for i in range(9)]
    for i, note in enumerate(notes):
        note.write(tmp_path / f"{i}.json")
    return Board(tasks)


def shown(board, lines=20):
    console = Console(file=StringIO(), width=100)
    console.print(board.table(lines))
    return console.file.getvalue()


def test_the_table(tmp_path, task):
    board = board_of(
        tmp_path, task, Note(DONE, 1.0, 20, 99.0, 0.91234), Note(RUNNING, 0.5, 1234, 50.0, None, 2.5),
        Note(RUNNING), Note(FAILED, 0.5, problem="no data"),
    )  # fmt: skip
    assert [task.name for task, _ in board.look()] == ["[run] 0", "[run] 3"]
    assert board.look() == []
    rows = [line.split() for line in shown(board).splitlines()]
    assert rows[0] == ["run", "state", "%", "epoch", "simulated", "score"]
    assert rows[1][:3] == ["[run]", "3", "failed"]
    assert rows[2] == ["[run]", "1", "running", "50", "1,234", "50.0", "s", "loss", "2.5"]
    assert rows[3] == ["[run]", "2", "running"]
    assert rows[4] == ["[run]", "0", "done", "100", "20", "99.0", "s", "accuracy", "0.9123"]
    assert " ".join(rows[5]).startswith("1 of 9 done, 1 failed, 2 running, about ")


def test_a_low_terminal_shows_what_matters(tmp_path, task):
    board = board_of(tmp_path, task, *[Note(DONE, 1.0)] * 6, Note(RUNNING), Note(FAILED))
    board.look()
    rows = shown(board, lines=8).splitlines()
    assert len(rows) == 6
    assert [row.split()[1] for row in rows[1:5]] == ["7", "6", "5", "4"]


def test_a_terminal_that_cannot_go_back_shows_lines(tmp_path, task):
    """As that of an editor: a live table would leave nothing there at all."""
    text = StringIO()
    console = Console(file=text, force_terminal=True, _environ={"TERM": "dumb"})
    with watched([task], console):
        Note(DONE, 1.0, 20, 99.0, 0.5).write(task.note)
    assert text.getvalue() == "a run: done, accuracy 0.5000 (1 of 1 done)\n"
