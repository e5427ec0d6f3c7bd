"""Where jobs are trained. Every engine gives the same results, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from simulator.engines.serial import SerialEngine
from simulator.engines.threads import ThreadEngine
from simulator.errors import UserError
from simulator.events import Job, Result
from simulator.task import Task
from simulator.trainer import is_native


class Engine(Protocol):
    num_parameters: int
    jobs_at_once: int
    """How many jobs are fastest as one chunk."""
    workers: int
    """That train while the run goes on; 0: a chunk is trained when its results are asked for."""
    chunks_per_worker: int
    """At work or waiting, so that no worker has to wait."""

    def submit(self, jobs: Sequence[Job]) -> Any:
        """Hand a chunk of at most ``jobs_at_once`` over; what comes back stands for it."""
        ...

    def results(self, chunk: Any) -> list[Result]:
        """Wait for a chunk; once for each."""
        ...

    def discard(self, chunk: Any) -> None:
        """Nobody wants a chunk any more."""
        ...

    def close(self) -> None: ...


def build_engine(name: str, task: Task, workers: int, ray_address: str | None) -> Engine:
    """By its name in [run]; ``auto`` is what is fastest."""
    if name == "auto":
        several = "threads" if is_native(task) else "processes"
        name = several if workers > 1 else "serial"
    if name == "ray":
        from simulator.engines.ray_cluster import RayEngine

        return RayEngine(task, workers, ray_address)
    if name == "serial" and workers > 1:
        raise UserError(
            f"[run] engine = 'serial' trains in one process, not in {workers}; "
            "choose 'auto', 'threads', 'processes' or 'ray', or leave --workers out"
        )
    if name == "serial":
        return SerialEngine(task)
    if name == "threads":
        return ThreadEngine(task, workers)
    from simulator.engines.processes import ProcessEngine

    return ProcessEngine(task, workers)
