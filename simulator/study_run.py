"""A study as a person sees it: progress, the table, where the figures are, what went wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread

from rich.console import Console

from simulator.errors import UserError, did_you_mean
from simulator.folders import alone_in, make_folder
from simulator.recorder import SCENARIO, STUDY, SUMMARY
from simulator.saying import say
from simulator.scenario import laid_over
from simulator.study import Run, Study, Tuning, check_done, runs_of
from simulator.sweeps import Engine
from simulator.sweeps.carry_out import carry_out, told

TUNING = "tuning"
_INTERRUPTED = 130


class Conductor:
    """Carries a study out into ``out``; ``jobs`` runs at a time, or all that there is room for."""

    def __init__(self, out: Path, engine: Engine, jobs: int | None, console: Console) -> None:
        self._out = out
        self._engine = engine
        self._jobs = jobs
        self._console = console

    def conduct(self, file: Path, only: list[str], settings: list[str]) -> None:
        """The table has all variants that are done, also those that were not asked for now."""
        study = Study.load(file).with_settings(settings)
        runs = runs_of(study, file, self._out)
        _check_free(self._out, study.title)
        if study.tuning is not None:
            chosen = self._tune(study, study.tuning, file, only)
            runs = [run for run in runs if run.variant in chosen]
        wanted = _wanted(study, runs, [name for name in only if study.tuning is None])
        make_folder(self._out, self._out)
        check_done(runs)
        with alone_in(self._out, "writing", wait=True):
            study.save(self._out)
        Thread(target=import_module, args=("simulator.study_report",), daemon=True).start()
        problems = self._carry_out(wanted, self._out)
        left = {run.variant for run in runs if not (run.folder / SUMMARY).is_file()}
        with alone_in(self._out, "writing", wait=True):
            self._report(study, [run for run in runs if run.variant not in left])
        if problems:
            raise UserError(told(problems, len(wanted)))

    def _tune(self, study: Study, tuning: Tuning, file: Path, only: list[str]) -> set[str]:
        """The variants with the value that is best for each, by runs with seeds of their own."""
        from simulator.study_findings import tuned_variants
        from simulator.study_report import write

        shorter = {} if tuning.epochs is None else {"run": {"epochs": tuning.epochs}}
        change = laid_over(study.change, shorter)
        trial = study.model_copy(update={"seeds": tuning.seeds, "change": change, "tuning": None})
        stems = [stem for stem in study.stems if stem in (only or study.stems)]
        for name in only:
            if name not in study.stems:
                remedy = did_you_mean(name, study.stems)
                raise UserError(f"--only {name}: no such variant; {remedy}")
        among = {name for stem in stems for name in study.stems[stem]}
        out = self._out / TUNING
        runs = [run for run in runs_of(trial, file, out) if run.variant in among]
        make_folder(out, out)
        trial.save(out)
        if problems := self._carry_out(runs, out):
            raise UserError(told(problems, len(runs)))
        for path in write(trial, runs, out):
            say(self._console, f"written: {path}")
        return set(tuned_variants(trial, runs).values())

    def _carry_out(self, runs: list[Run], out: Path) -> dict[Path, str]:
        try:
            return carry_out(runs, out, self._engine, self._jobs)
        except KeyboardInterrupt:
            say(self._console, f"interrupted; the same command continues the study in {out}")
            raise SystemExit(_INTERRUPTED) from None  # the word about it is said

    def _report(self, study: Study, runs: list[Run]) -> None:
        if not runs:
            return
        from simulator.study_findings import checked, findings
        from simulator.study_report import terminal_table, write

        console = self._console
        console.print(terminal_table(study, findings(study, runs)))
        if study.source:
            console.print(f"published: {study.source}", highlight=False, markup=False)
        for finding in checked(study, runs):
            console.print(finding.text, highlight=False, markup=False)
        for path in write(study, runs, self._out):
            say(console, f"written: {path}")


def _check_free(out: Path, title: str) -> None:
    """What is there already is the study's own."""
    if (out / SCENARIO).is_file():
        raise UserError(f"{out}: holds a run, not a study; choose another --out")
    there = title
    with suppress(OSError, ValueError, KeyError, TypeError):  # then it is written anew
        there = json.loads((out / STUDY).read_text())["title"]
    if there != title:
        raise UserError(f"{out}: holds the study {there!r}, not {title!r}; choose another --out")


def _wanted(study: Study, runs: list[Run], only: list[str]) -> list[Run]:
    names = [variant.name for variant in study.variants]
    for name in only:
        if name not in names:
            raise UserError(f"--only {name}: no such variant; {did_you_mean(name, names)}")
    return [run for run in runs if run.variant in (only or names)]
