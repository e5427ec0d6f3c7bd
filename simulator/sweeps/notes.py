"""How runs tell from afar how far they are: a small file for each, in a folder of the sweep.

A run whose sweep's folder is gone saves itself and ends: nobody waits for it any more. That holds
for interrupted sweeps, and for what a killed one has left behind on a cluster, as soon as the next
sweep has cleared up.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.folders import FolderBusy, alone_in

if TYPE_CHECKING:
    from simulator.sweeps.work import Task

WAITING, RUNNING, IN_USE, DONE, FAILED = "waiting", "running", "in use", "done", "failed"
"""In use: another process has the run's folder, of a sweep that was killed, say."""
ENDED = (DONE, FAILED)
_PREFIX = ".sweep-"


@dataclass(frozen=True)
class Note:
    state: str = WAITING
    share: float = 0.0
    """Of the way to the run's end."""
    epoch: int = 0
    sim_time_s: float = 0.0
    accuracy: float | None = None
    loss: float | None = None
    problem: str = ""

    @classmethod
    def read(cls, path: Path) -> Note:
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return cls()

    def write(self, path: Path) -> None:
        """Whole or not at all, and not if nobody waits for it."""
        partial = path.with_suffix(".partial")
        with suppress(FileNotFoundError):
            partial.write_text(json.dumps(asdict(self)))
            os.replace(partial, path)

    def failed(self, problem: str) -> Note:
        return replace(self, state=FAILED, problem=problem)


def is_wanted(path: Path) -> bool:
    """Whether anybody waits for the run that writes its note there."""
    return path.parent.is_dir()


def give_up(tasks: Sequence[Task]) -> None:
    """Runs that are under way save themselves and end."""
    for folder in {task.note.parent for task in tasks}:
        _remove(folder)


@contextmanager
def notes_in(out: Path) -> Iterator[Path]:
    """A folder for the notes of a sweep into ``out``, which goes with the sweep."""
    _clear(out)
    with ExitStack() as held:
        folder = _own(out, held)
        try:
            yield folder
        finally:
            _remove(folder)


def _own(out: Path, held: ExitStack) -> Path:
    """Until it is locked, a sweep that begins at the same time may clear it away."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=out)).resolve()
        with suppress(FolderBusy, FileNotFoundError):
            held.enter_context(alone_in(folder, "sweeping"))
            return folder


def _clear(out: Path) -> None:
    """What killed sweeps have left; another one may be going on beside this one."""
    for left in out.glob(f"{_PREFIX}*"):
        with suppress(FolderBusy, FileNotFoundError), alone_in(left, "sweeping"):
            _remove(left)


def _remove(folder: Path) -> None:
    """At one stroke: notes that are being written must not keep it."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder.rename(folder.with_name(f"{folder.name}-over")), ignore_errors=True)
