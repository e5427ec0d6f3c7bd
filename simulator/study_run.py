"""A study as a person sees it: progress, what went wrong, the table, where the figures are."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from simulator.errors import UserError, did_you_mean
from simulator.folders import make_folder
from simulator.recorder import SUMMARY
from simulator.study import Run, Study, Tuning, carry_out, check_done, laid_over, runs_of

TUNING = "tuning"
_INTERRUPTED = 130


def conduct(file: Path, out: Path, jobs: int, only: list[str], console: Console) -> None:
    """The table has all variants that are done, also those that were not asked for now."""
    study = Study.load(file)
    runs = runs_of(study, file, out)
    if study.tuning is not None:
        chosen = _tune(study, study.tuning, file, out, jobs, only, console)
        runs = [run for run in runs if run.variant in chosen]
    _finish(study, runs, out, jobs, [name for name in only if study.tuning is None], console)
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


def _tune(
    study: Study, tuning: Tuning, file: Path, out: Path, jobs: int, only: list[str],
    console: Console,
) -> set[str]:  # fmt: skip
    """The variants with the value that is best for each, by runs with seeds of their own."""
    from simulator.study_report import tuned_variants, write

    shorter = {} if tuning.epochs is None else {"run": {"epochs": tuning.epochs}}
    change = laid_over(study.change, shorter)
    trial = study.model_copy(update={"seeds": tuning.seeds, "change": change, "tuning": None})
    stems = [stem for stem in study.stems if stem in (only or study.stems)]
    for name in only:
        if name not in study.stems:
            raise UserError(f"--only {name}: no such variant; {did_you_mean(name, study.stems)}")
    among = {name for stem in stems for name in study.stems[stem]}
    runs = [run for run in runs_of(trial, file, out / TUNING) if run.variant in among]
    _finish(trial, runs, out / TUNING, jobs, [], console)
    for path in write(trial, runs, out / TUNING):
        console.print(f"written: {path}", highlight=False)
    return set(tuned_variants(trial, runs).values())


def _finish(
    study: Study, runs: list[Run], out: Path, jobs: int, only: list[str], console: Console
) -> None:
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
