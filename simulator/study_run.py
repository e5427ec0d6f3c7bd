"""A study as a person sees it: progress, what went wrong, the table, where the figures are."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from simulator.errors import UserError, did_you_mean
from simulator.folders import make_folder
from simulator.recorder import SUMMARY
from simulator.study import Run, Study, carry_out, check_done, runs_of

_INTERRUPTED = 130


def conduct(file: Path, out: Path, jobs: int, only: list[str], console: Console) -> None:
    """The table has all variants that are done, also those that were not asked for now."""
    study = Study.load(file)
    runs = runs_of(study, file, out)
    wanted = _wanted(study, runs, only)
    make_folder(out, out)
    check_done(runs)
    try:
        problems = _run_all(wanted, jobs)
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command continues the study in {out}")
        sys.exit(_INTERRUPTED)
    if problems:
        told = [f"{folder}: {problem}" for folder, problem in problems.items()]
        raise UserError("\n  ".join([f"{len(problems)} of {len(wanted)} runs failed:", *told]))
    from simulator.study_report import checked, findings, terminal_table, write

    left = {run.variant for run in runs if not (run.folder / SUMMARY).is_file()}
    runs = [run for run in runs if run.variant not in left]
    console.print(terminal_table(study, findings(study, runs)))
    if study.source:
        console.print(f"published: {study.source}", highlight=False)
    for finding in checked(study, runs):
        console.print(finding.text, highlight=False)
    for path in write(study, runs, out):
        console.print(f"written: {path}", highlight=False)


def _wanted(study: Study, runs: list[Run], only: list[str]) -> list[Run]:
    names = [variant.name for variant in study.variants]
    for name in only:
        if name not in names:
            raise UserError(f"--only {name}: no such variant; {did_you_mean(name, names)}")
    return [run for run in runs if run.variant in (only or names)]


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
