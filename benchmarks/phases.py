"""Where a run's time goes: network, selection, training, evaluation, recording, and the rest.

Wall-clock time of one run in this process, each moment counted once, for the innermost phase.
    .venv/bin/python benchmarks/phases.py SCENARIO... [--set SECTION.KEY=VALUE] [--workers N]
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulator import recorder, runner
from simulator.errors import UserError
from simulator.kernel import Simulation
from simulator.learner import DeferredLearner
from simulator.scenario import Scenario

PHASES = ("network", "selection", "training", "evaluation", "recording", "rest")
AT_MOST = 0.15
"""Of a run's time that may go into anything but training."""


class Clock:
    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._open = ["rest"]
        self._since = time.perf_counter()

    def _turn(self) -> None:
        now = time.perf_counter()
        self.spent[self._open[-1]] += now - self._since
        self._since = now

    def wrap(self, owner: Any, name: str, phase: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._open.append(phase)
            try:
                return inner(*args, **kwargs)
            finally:
                self._turn()
                self._open.pop()

        setattr(owner, name, timed)

    def restart(self) -> None:
        self._turn()
        self.spent.clear()

    def stop(self) -> None:
        self._turn()


def measure(path: Path, settings: list[str], workers: int) -> tuple[Counter[str], dict[str, Any]]:
    clock = Clock()
    began = Simulation.start

    def start(sim: Simulation) -> None:
        for name in ("send", "advance"):
            clock.wrap(sim.network, name, "network")
        for name in ("select", "begin", "end", "reassociate"):
            clock.wrap(sim.manager, name, "selection")
        clock.restart()  # setting up is no part of a long run
        began(sim)

    saved = {
        (owner, name): getattr(owner, name)
        for owner, name in (
            (Simulation, "start"),
            *((DeferredLearner, n) for n in ("_compute", "train", "evaluate")),
            *((recorder.FolderRecorder, n) for n in ("transfer", "trained", "alarm", "row")),
            (runner._Run, "_checkpoint"), (runner._Run, "_finish"),
        )
    }  # fmt: skip
    Simulation.start = start  # type: ignore[method-assign]
    for owner, name in saved:
        if owner is DeferredLearner:
            clock.wrap(owner, name, "evaluation" if name == "evaluate" else "training")
        elif owner is not Simulation:
            clock.wrap(owner, name, "recording")
    try:
        with tempfile.TemporaryDirectory() as folder:
            scenario = Scenario.load(path, settings)
            summary = runner.start(scenario, path.parent, Path(folder) / "run", workers)
    finally:
        clock.stop()
        for (owner, name), inner in saved.items():
            setattr(owner, name, inner)
    assert summary is not None
    return clock.spent, summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="+", type=Path, metavar="SCENARIO")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    print(f"{'share of time':28}{'s':>8}{'jobs/s':>9}", *(f"{phase:>11}" for phase in PHASES))
    for path in options.scenarios:
        spent, summary = measure(path, options.settings, options.workers)
        total = sum(spent.values())
        shares = {phase: spent[phase] / total for phase in PHASES}
        rate = summary["jobs_started"] / total
        columns = (f"{shares[phase]:>11.1%}" for phase in PHASES)
        print(f"{path.stem:28}{total:8.1f}{rate:9,.0f}", *columns)
        outside = 1 - shares["training"]
        verdict = "met" if outside <= AT_MOST else "MISSED"
        print(f"  outside training {outside:.1%}, wanted <= {AT_MOST:.0%}: {verdict}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
