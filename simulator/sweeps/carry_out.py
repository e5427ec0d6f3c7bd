"""The runs of a study, carried out by an engine and watched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from simulator.data.catalog import data_folder
from simulator.recorder import SUMMARY
from simulator.study import Run, check_done
from simulator.sweeps import Engine
from simulator.sweeps.notes import notes_in
from simulator.sweeps.view import watched
from simulator.sweeps.work import Task


def carry_out(
    runs: Sequence[Run], out: Path, engine: Engine, jobs: int | None = None
) -> dict[Path, str]:
    """Run what is not done yet, ``jobs`` at a time; by folder what went wrong.

    ``out`` holds the folders of all of them. What was begun goes on.
    """
    check_done(runs)
    left = [run for run in runs if not (run.folder / SUMMARY).is_file()]
    console = Console(stderr=True)
    if len(left) < len(runs):
        console.print(f"{len(runs) - len(left)} of {len(runs)} runs are done already")
    if not left:
        return {}
    with notes_in(out) as notes:
        tasks = [_task(run, notes / f"{i}.json") for i, run in enumerate(left)]
        with watched(tasks, console):
            told = engine.execute(tasks, jobs)
    return {run.folder: text for run, text in zip(left, told, strict=True) if text}


def _task(run: Run, note: Path) -> Task:
    return Task(
        name=f"{run.variant}, seed {run.seed}",
        scenario=run.scenario,
        base=run.base.resolve(),
        folder=run.folder.resolve(),
        note=note,
        data=data_folder(),
    )


def told(problems: dict[Path, str], count: int) -> str:
    """An error's text."""
    lines = [f"{folder}: {problem}" for folder, problem in problems.items()]
    return "\n  ".join([f"{len(problems)} of {count} runs failed:", *lines])
