"""A sweep while it goes on: a table that stays up to date, or lines where nobody looks at one."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from simulator.sweeps.notes import DONE, ENDED, FAILED, IN_USE, RUNNING, WAITING, Note
from simulator.sweeps.work import Task

_LOOK_EVERY_S = 0.5
_FIRST = {FAILED: 0, RUNNING: 1, IN_USE: 2, DONE: 3}
"""Those that wait have no row."""
_COLOURS = {FAILED: "red", DONE: "green"}
_AROUND = 4
"""Lines of the table that are no runs, and one to breathe."""


class Board:
    """What is known of the runs; only what may have changed is read again."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._notes = {task.note: Note() for task in tasks}
        self._ended: list[Task] = []
        self._began = time.monotonic()

    def look(self) -> list[tuple[Task, Note]]:
        """Read the notes; those that have ended since the last look, in order of the sweep."""
        folder = self._tasks[0].note.parent
        there = set(os.listdir(folder)) if folder.is_dir() else set()
        news = []
        for task in self._tasks:
            if self._notes[task.note].state in ENDED or task.note.name not in there:
                continue
            note = self._notes[task.note] = Note.read(task.note)
            if note.state in ENDED:
                news.append((task, note))
        self._ended += [task for task, _ in news]
        return news

    def headline(self) -> str:
        """How many have ended, and how long the rest may take at this pace."""
        notes = self._notes.values()
        counts = Counter(note.state for note in notes)
        parts = [f"{counts[DONE]} of {len(notes)} done"]
        parts += [f"{counts[state]} {state}" for state in _FIRST if state != DONE and counts[state]]
        share = sum(1.0 if note.state in ENDED else note.share for note in notes)
        spent = time.monotonic() - self._began
        if 0 < share < len(notes):
            left = timedelta(seconds=round(spent * (len(notes) - share) / share))
            parts.append(f"about {left} left")
        return ", ".join(parts)

    def table(self, lines: int) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("run", overflow="fold")
        for name in ("state", "%", "epoch", "simulated", "score"):
            table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
        for task in self._shown(max(lines - _AROUND, 1)):
            table.add_row(Text(task.name), *_cells(self._notes[task.note]))
        return Group(table, Text(self.headline(), style="bold"))

    def _shown(self, most: int) -> list[Task]:
        """Failed ones, those under way, and the latest that were done."""
        known = {id(task): i for i, task in enumerate(reversed(self._ended))}
        begun = [task for task in self._tasks if self._notes[task.note].state != WAITING]
        begun.sort(key=lambda task: (_FIRST[self._notes[task.note].state], known.get(id(task), 0)))
        return begun[:most]


def _cells(note: Note) -> list[Text | str]:
    state = Text(note.state, style=_COLOURS.get(note.state, ""))
    if note.state != DONE and not note.share:
        return [state]
    return [
        state, f"{100 * note.share:.0f}", f"{note.epoch:,}", f"{note.sim_time_s:,.1f} s",
        score(note),
    ]  # fmt: skip


def score(note: Note) -> str:
    if note.accuracy is not None:
        return f"accuracy {note.accuracy:.4f}"
    return "" if note.loss is None else f"loss {note.loss:.4g}"


@contextmanager
def watched(tasks: Sequence[Task], console: Console) -> Iterator[None]:
    """Show them until they are done."""
    if not tasks:
        yield
        return
    board = Board(tasks)
    if not console.is_terminal or console.is_dumb_terminal:
        with _every(_LOOK_EVERY_S, lambda: _tell(board, console)):
            yield
        return

    def render() -> Group:
        board.look()
        return board.table(console.height)

    with Live(
        get_renderable=render, console=console, transient=True, refresh_per_second=1 / _LOOK_EVERY_S
    ):
        yield


def _tell(board: Board, console: Console) -> None:
    for task, note in board.look():
        how = score(note) if note.state == DONE else note.problem
        text = f"{task.name}: {note.state}{f', {how}' if how else ''} ({board.headline()})"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _every(seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """In a thread of its own, and once more at the end."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(seconds):
            look()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        look()
