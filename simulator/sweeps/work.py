"""One run of a sweep, wherever it is carried out."""

from __future__ import annotations

import os
import platform
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import UserError
from simulator.folders import FolderBusy, alone_in
from simulator.progress import share_done
from simulator.recorder import SCENARIO
from simulator.runner import Watch, resume, start
from simulator.same import holds
from simulator.scenario import Scenario
from simulator.sweeps.notes import DONE, IN_USE, RUNNING, Note, is_wanted

if TYPE_CHECKING:
    from simulator.kernel import Simulation

INTERRUPTED = "interrupted"
_NOTE_EVERY_S = 0.5
_ALONE = threading.Lock()
"""A process carries out one run at a time, however many threads a cluster gives it."""


@dataclass(frozen=True)
class Task:
    name: str
    scenario: Scenario
    base: Path
    """Where the scenario's paths start; all paths here mean the same on every machine."""
    folder: Path
    """Of the run."""
    note: Path
    data: Path
    """Where data sets live, unless the machine has a folder of its own for them."""


def perform(task: Task) -> str:
    """What went wrong, if anything. What is done is left alone, what was begun goes on."""
    with _ALONE:
        try:
            problem = _perform(task)
        except UserError as error:
            problem = str(error)
        except Exception as error:
            problem = f"unexpected {type(error).__name__}: {error}"
        if problem:
            Note.read(task.note).failed(problem).write(task.note)
        return problem


def _perform(task: Task) -> str:
    if not task.note.parent.parent.is_dir():
        return (
            f"{task.note.parent.parent}: no such folder on {platform.node()}; all machines of a "
            "cluster must share the folder of a sweep (--out)"
        )
    os.environ.setdefault("MESHFL_DATA", str(task.data))
    watch = _noting(task.note)
    while is_wanted(task.note):
        Note(RUNNING).write(task.note)
        try:
            summary = _run(task, watch)
        except FolderBusy:
            Note(IN_USE).write(task.note)
            time.sleep(_NOTE_EVERY_S)
            continue
        if summary is None:
            break
        _last_note(summary).write(task.note)
        return ""
    return INTERRUPTED


def _run(task: Task, watch: Watch) -> dict[str, Any] | None:
    if (task.folder / SCENARIO).is_file():
        if holds(task.folder, task.scenario, task.base):
            return resume(task.folder, watch=watch)
        with alone_in(task.folder, "running it"):
            shutil.rmtree(task.folder)
    return start(task.scenario, task.base, task.folder, watch=watch)


def _noting(path: Path) -> Watch:
    due = 0.0

    def watch(sim: Simulation) -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        progress = sim.progress
        note = Note(
            RUNNING, share_done(sim), progress.epoch, progress.now / 1e9, progress.accuracy,
            progress.loss,
        )  # fmt: skip
        note.write(path)
        sim.interrupted = sim.interrupted or not is_wanted(path)
        due = time.monotonic() + _NOTE_EVERY_S

    return watch


def _last_note(summary: dict[str, Any]) -> Note:
    return Note(
        DONE, 1.0, summary["epochs"], summary["sim_time_s"], summary["final_accuracy"],
        summary["final_loss"],
    )  # fmt: skip
