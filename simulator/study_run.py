"""A study as a person sees it: progress, what went wrong, the table, where the figures are."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from simulator.errors import UserError
from simulator.study import Run, Study, carry_out, check_done, prepare, runs_of

_INTERRUPTED = 130


def conduct(file: Path, out: Path, jobs: int, console: Console) -> None:
    study = Study.load(file)
    runs = runs_of(study, file, out)
    target = _target(file, runs)
    prepare(out)
    check_done(runs)
    try:
        problems = _run_all(runs, jobs)
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command continues the study in {out}")
        sys.exit(_INTERRUPTED)
    if problems:
        told = [f"{folder}: {problem}" for folder, problem in problems.items()]
        raise UserError("\n  ".join([f"{len(problems)} of {len(runs)} runs failed:", *told]))
    from simulator.study_report import findings, terminal_table, write

    console.print(terminal_table(study, findings(study, runs, target), target))
    if study.source:
        console.print(f"published: {study.source}", highlight=False)
    for path in write(study, runs, target, out):
        console.print(f"written: {path}", highlight=False)


def _target(file: Path, runs: list[Run]) -> float:
    targets = {run.scenario.run.target for run in runs}
    target = targets.pop()
    if targets or target is None:
        raise UserError(f"{file}: give all variants one [run] target, to compare them at")
    return target


def _run_all(runs: list[Run], jobs: int) -> dict[str, str]:
    text = TextColumn("{task.description}")
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), text)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=len(runs))

        def tell(run: Run, how: str) -> None:
            progress.advance(task)
            if how != "done before":
                progress.console.print(f"{run.variant}, seed {run.seed}: {how}", highlight=False)

        return carry_out(runs, jobs, tell)
