"""Runs from Python: a scenario in, pandas frames out."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from simulator.errors import UserError
from simulator.folders import make_folder
from simulator.progress import Bar
from simulator.recorder import SCENARIO, SUMMARY, write_text
from simulator.results import Results
from simulator.runner import resume, start
from simulator.same import holds
from simulator.scenario import Scenario

if TYPE_CHECKING:
    from simulator.kernel import Algorithm


def run(
    scenario: Scenario,
    out: Path | str | None = None,
    *,
    workers: int = 1,
    progress: bool = False,
    algorithm: Algorithm | None = None,
) -> Results:
    """Run a scenario and give its results.

    ``out``: folder of the run. What is finished there is not run again, what was begun goes on; a
    run of another scenario is an error. Without it the run lies in a temporary folder, which goes
    when its results are forgotten.

    ``workers``: threads or processes that train; results do not depend on it. ``progress``: a bar
    on standard error.

    ``algorithm``: one of your own, in the place of the scenario's. Such a run cannot be continued:
    ``out`` must not exist, and it appears when the run is done.

    An interrupt (Ctrl-C) saves, and is raised again; the same call continues a run with ``out``.
    """
    if workers < 1:
        raise UserError(f"workers = {workers}: at least 1 has to train")
    if out is None:
        temporary = TemporaryDirectory(prefix="meshfl-")
        folder = Path(temporary.name) / f"{scenario.algorithm.name}-{scenario.run.seed}"
        _run(scenario, folder, workers, progress, algorithm)
        return Results(folder, Results.load(folder).summary, temporary)
    folder = Path(out)
    if algorithm is not None:
        _run_whole(scenario, folder, workers, progress, algorithm)
    elif not _is_finished(scenario, folder):
        _run(scenario, folder, workers, progress, None)
    return Results.load(folder)


def _is_finished(scenario: Scenario, folder: Path) -> bool:
    if (folder / SCENARIO).is_file() and not holds(folder, scenario, scenario.base):
        raise UserError(
            f"{folder}: holds a run of another scenario; remove that folder, or choose another out"
        )
    return (folder / SUMMARY).is_file()


def _run(
    scenario: Scenario, folder: Path, workers: int, progress: bool, algorithm: Algorithm | None
) -> None:
    with Bar() if progress else nullcontext() as bar:
        watch = bar.update if bar else None
        if (folder / SCENARIO).is_file():
            summary = resume(folder, workers, watch)
        else:
            summary = start(scenario, scenario.base, folder, workers, watch, algorithm)
    if summary is None:
        raise KeyboardInterrupt(f"{folder}: interrupted")


def _run_whole(
    scenario: Scenario, folder: Path, workers: int, progress: bool, algorithm: Algorithm
) -> None:
    """Its scenario file cannot name the algorithm: a part of the run could never be continued."""
    if folder.exists():
        raise UserError(
            f"{folder}: exists already, and a run with an algorithm of its own cannot be continued "
            "or compared; remove that folder, or choose another out"
        )
    make_folder(folder.parent, folder)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        draft = Path(made) / "run"
        _run(scenario, draft, workers, progress, algorithm)
        said = (draft / SCENARIO).read_text()
        note = (
            f"# Run from Python, with {type(algorithm).__qualname__} in the place of [algorithm]."
        )
        write_text(draft / SCENARIO, f"{note}\n\n{said}")
        os.replace(draft, folder)
