"""Training in worker processes; data, models and results lie in memory that all of them share."""

from __future__ import annotations

import shutil
import signal
import weakref
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.multiprocessing

from simulator.errors import UserError
from simulator.events import Job, Result
from simulator.orphans import end_with_parent
from simulator.task import Task
from simulator.trainer import Trainer

_STACKS = 4
"""Handed over as one chunk: a message costs as much as some steps of a small model."""
_SLABS_PER_WORKER = 8
"""Chunks of models: at work, waiting for a worker, and read by the run."""


class Order(NamedTuple):
    """A job without its tensors: these are rows of a slab."""

    job: Job
    start: int
    shift: int | None


class Chunk(NamedTuple):
    slab: int
    size: int
    losses: Future[list[float]]


class ProcessEngine:
    def __init__(self, task: Task, workers: int) -> None:
        trainer = Trainer(task)
        self.workers = workers
        self.num_parameters = trainer.num_parameters
        self.jobs_at_once = _STACKS * trainer.jobs_at_once
        rows = 2 * self.jobs_at_once  # a start, then the result, and a shift for each job
        shape = (_SLABS_PER_WORKER * workers, rows, self.num_parameters)
        _check_room(task, 4 * shape[0] * shape[1] * shape[2])
        for tensor in (task.x_train, task.y_train):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        arena = torch.empty(shape).share_memory_()  # type: ignore[no-untyped-call]
        self._arena: np.ndarray = arena.numpy()
        self._free = list(range(shape[0]))
        self._given_up: list[Future[list[float]]] = []
        spawn = torch.multiprocessing.get_context("spawn")
        worker_task = replace(task, x_test=task.x_test[:0], y_test=task.y_test[:0])
        self._pool = ProcessPoolExecutor(workers, spawn, _start_worker, (worker_task, arena))

    def submit(self, jobs: Sequence[Job]) -> Chunk:
        while not self._free:  # chunks that were given up while at work still hold theirs
            wait(self._given_up, timeout=0.1, return_when=FIRST_COMPLETED)
        slab = self._free.pop()
        rows = self._arena[slab]
        starts: dict[int, int] = {}
        orders = []
        for place, job in enumerate(jobs):
            if id(job.start) not in starts:
                starts[id(job.start)] = len(starts)
                rows[len(starts) - 1] = job.start.numpy()
            start = starts[id(job.start)]
            shift = None if job.shift is None else self.jobs_at_once + place
            if job.shift is not None:
                rows[self.jobs_at_once + place] = job.shift.numpy()
            bare = replace(job, start=_NOTHING, shift=None, tag=None)
            orders.append(Order(bare, start, shift))
        try:
            return Chunk(slab, len(jobs), self._pool.submit(_work, slab, orders))
        except BrokenProcessPool:
            raise self._broken() from None

    def results(self, chunk: Chunk) -> list[Result]:
        try:
            losses = chunk.losses.result()
        except BrokenProcessPool:
            raise self._broken() from None
        rows = list(self._arena[chunk.slab][: chunk.size])
        if len(self._free) < 3 * self.workers:
            models = [torch.from_numpy(row.copy()) for row in rows]
            self._free.append(chunk.slab)
        else:
            models = self._lent(chunk.slab, rows)
        return [Result(model, loss) for model, loss in zip(models, losses, strict=True)]

    def discard(self, chunk: Chunk) -> None:
        chunk.losses.cancel()
        self._given_up = [losses for losses in self._given_up if not losses.done()]
        self._given_up.append(chunk.losses)
        chunk.losses.add_done_callback(lambda _: self._free.append(chunk.slab))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _broken(self) -> UserError:
        """The pool would wait for ever for workers that ignore its SIGTERM."""
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        return UserError(
            "a worker process has died (out of memory?); the run can be resumed from its "
            "last checkpoint"
        )

    def _lent(self, slab: int, rows: list[np.ndarray]) -> list[torch.Tensor]:
        """Without a copy; the slab is free again when nobody has any of its rows."""
        left = len(rows)

        def give_back() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._free.append(slab)

        for row in rows:  # a tensor made of an array keeps it, and so do all views of the tensor
            weakref.finalize(row, give_back).atexit = False
        return [torch.from_numpy(row) for row in rows]


_NOTHING = torch.empty(0)


def _check_room(task: Task, arena_bytes: int) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        return
    data = task.x_train.nbytes + task.y_train.nbytes
    free = shutil.disk_usage(shared).free
    if data + arena_bytes > free:
        raise UserError(
            f"training in processes needs {(data + arena_bytes) / 1e6:,.0f} MB of shared memory, "
            f"{shared} has {free / 1e6:,.0f} MB left; give it more (a container's --shm-size), or "
            "train with --workers 1"
        )


_trainer: Trainer
_arena: torch.Tensor


def _start_worker(task: Task, arena: torch.Tensor) -> None:
    global _trainer, _arena
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # meant for the run, which ends its workers
    end_with_parent()
    _trainer, _arena = Trainer(task), arena


def _work(slab: int, orders: list[Order]) -> list[float]:
    rows = _arena[slab]
    jobs = [
        replace(job, start=rows[start], shift=None if shift is None else rows[shift])
        for job, start, shift in orders
    ]
    results = _trainer.train(jobs)
    for row, result in zip(rows, results, strict=False):
        row.copy_(result.model)
    return [result.loss for result in results]
