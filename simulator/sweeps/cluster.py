"""Runs on a Ray or a Dask cluster, through joblib's backends.

joblib gives up everything when one worker is lost, so what is not done then is begun once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from simulator.engines.ray_cluster import connect, import_ray
from simulator.errors import UserError
from simulator.recorder import SUMMARY
from simulator.sweeps.notes import FAILED, Note, give_up
from simulator.sweeps.work import Task, perform

_ATTEMPTS = 3
_LEAST = 2
"""Workers on Ray: for a single one, joblib would not go there at all."""


class RayEngine:
    def __init__(self, address: str | None) -> None:
        self._ray = import_ray("--engine ray")
        self._address = address

    def execute(self, tasks: Sequence[Task], jobs: int | None) -> list[str]:
        ray_joblib: Any = import_module("ray.util.joblib")
        connect(self._ray, None if jobs is None else max(jobs, _LEAST), self._address, "--address")
        try:
            cores = int(self._ray.cluster_resources()["CPU"])
            ray_joblib.register_ray()
            return _with_patience(tasks, lambda left: _through_joblib("ray", left, jobs or cores))
        finally:
            self._ray.shutdown()


class DaskEngine:
    def __init__(self, address: str | None) -> None:
        try:
            import distributed
        except ImportError:
            raise UserError(
                "--engine dask needs the package distributed: pip install 'meshfl[dask]', or "
                "choose --engine local"
            ) from None
        self._distributed: Any = distributed
        self._address = address

    def execute(self, tasks: Sequence[Task], jobs: int | None) -> list[str]:
        with self._client(jobs) as client:
            cores = sum(client.ncores().values())
            if not cores:
                raise UserError(
                    f"--address {self._address}: the Dask scheduler has no workers; start some "
                    "with 'dask worker ADDRESS --nthreads 1'"
                )
            return _with_patience(tasks, lambda left: _through_joblib("dask", left, jobs or cores))

    @contextmanager
    def _client(self, jobs: int | None) -> Iterator[Any]:
        """Of a scheduler that runs already, or of one on this machine for the sweep."""
        dask, size = self._distributed, {"n_workers": jobs, "threads_per_worker": 1}
        quiet = {"silence_logs": logging.ERROR, "dashboard_address": None}
        if self._address is None:
            with dask.LocalCluster(**size, **quiet) as own, dask.Client(own) as client:
                yield client
            return
        try:
            client = dask.Client(self._address, timeout=10)
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f"--address {self._address}: no Dask scheduler answers ({reason}); start one with "
                "'dask scheduler', or leave --address out for one on this machine"
            ) from None
        with client:
            yield client


def _through_joblib(backend: str, tasks: Sequence[Task], jobs: int) -> None:
    """``jobs`` at a time, also where a backend would take all."""
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend=backend, n_jobs=max(jobs, _LEAST)):
        Parallel(pre_dispatch=jobs, batch_size=1)(delayed(perform)(task) for task in tasks)


def _with_patience(tasks: Sequence[Task], carry_out: Callable[[Sequence[Task]], None]) -> list[str]:
    reason = ""
    for _ in range(_ATTEMPTS):
        left = [task for task in tasks if not _has_ended(task)]
        try:
            if left:
                carry_out(left)
        except KeyboardInterrupt:
            give_up(tasks)
            raise
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return [_problem(task, reason) for task in tasks]


def _has_ended(task: Task) -> bool:
    return (task.folder / SUMMARY).is_file() or Note.read(task.note).state == FAILED


def _problem(task: Task, reason: str) -> str:
    note = Note.read(task.note)
    if note.state == FAILED or (task.folder / SUMMARY).is_file():
        return note.problem
    lost = f"lost on the cluster {_ATTEMPTS} times ({reason}); the same command continues it"
    note.failed(lost).write(task.note)
    return lost
