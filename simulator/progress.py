"""How far a run is, as a bar in the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from simulator.kernel import Simulation


class Bar:
    """A bar on standard error while a run goes on."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task("setting up", total=None)
        self._events: tuple[float, int] | None = None

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def update(self, sim: Simulation) -> None:
        progress = sim.progress
        began, events = self._events = self._events or (time.monotonic(), progress.events)
        rate = (progress.events - events) / max(time.monotonic() - began, 1e-9)
        score = "" if progress.accuracy is None else f"accuracy {progress.accuracy:.3f}  "
        score += "" if progress.loss is None else f"loss {progress.loss:.3g}  "
        text = (
            f"epoch {progress.epoch}  {progress.now / 1e9:,.1f} s simulated  {score}"
            f"{rate:,.0f} events/s"
        )
        self._progress.update(self._task, description=text, total=1.0, completed=share_done(sim))


def share_done(sim: Simulation) -> float:
    """Of the way to whichever stop condition is nearest."""
    goals, progress = sim.goals, sim.progress
    share = progress.epoch / goals.max_epochs if goals.max_epochs else 0.0
    return max(share, progress.now / goals.max_time)
