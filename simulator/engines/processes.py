"""Training in worker processes; data, models and results lie in memory that all of them share.

The run's own process is one of them: it trains while it would wait for others.
"""

from __future__ import annotations

import shutil
import signal
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.multiprocessing

from simulator.errors import UserError
from simulator.events import Job, Result
from simulator.interrupts import withheld_from_workers
from simulator.orphans import end_with_parent
from simulator.task import Task
from simulator.trainer import Trainer
from simulator.units import NodeId

_SLABS_PER_WORKER, _ENOUGH_SLABS, _SLABS_BYTES = 8, 16, 2**28
"""Chunks of models: at work, waiting for a worker, and read by the run; more if they are small."""
_OF_THE_RUN = (signal.SIGINT, signal.SIGTERM)
"""It ends its workers itself."""


class Order(NamedTuple):
    """A job whose vectors are rows of the chunk's slab; numbers alone are cheap to send."""

    node: NodeId
    start: int
    shift: int | None
    pull: float
    epochs: int | None
    steps: int | None
    learning_rate: float | None
    number: int
    """The job's count."""


@dataclass(eq=False)
class Chunk:
    slab: int
    size: int
    worker: _Worker
    losses: list[float] | None = None
    """None: not back yet."""
    is_wanted: bool = True


@dataclass(eq=False)
class OwnChunk:
    """Of the run's own process."""

    jobs: Sequence[Job]
    results: list[Result] | None = None


@dataclass(eq=False)
class _Worker:
    pipe: Connection
    process: BaseProcess
    chunks: deque[Chunk] = field(default_factory=deque)
    """Handed over and not yet back, in the order in which they come back."""


class ProcessEngine:
    chunks_per_worker = 3
    """One at work and two that wait: a worker need not wait for the run to look after it."""

    def __init__(self, task: Task, workers: int) -> None:
        sizes = Trainer(task)
        self.workers = workers
        self.num_parameters = sizes.num_parameters
        self.jobs_at_once = sizes.jobs_at_once
        others = max(1, workers - 1)
        rows = 2 * self.jobs_at_once  # a start, then the result, and a shift for each job
        affordable = _SLABS_BYTES // (4 * rows * self.num_parameters)
        slabs = max(_SLABS_PER_WORKER, min(_ENOUGH_SLABS, affordable))
        shape = (slabs * others, rows, self.num_parameters)
        _check_room(task, 4 * shape[0] * shape[1] * shape[2])
        for tensor in (task.x_train, task.y_train):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        self._trainer = Trainer(task)  # it has to know where the data lie now
        arena = torch.empty(shape).share_memory_()  # type: ignore[no-untyped-call]
        self._arena: np.ndarray = arena.numpy()
        self._free = list(range(shape[0]))
        worker_task = replace(task, x_test=task.x_test[:0], y_test=task.y_test[:0])
        self._workers = [_start_worker(worker_task, arena) for _ in range(others)]
        self._own: deque[OwnChunk] = deque()
        """Not trained yet."""
        # Also when the run ends by an error: workers end with their pipes, nothing else ends them.
        self._end = weakref.finalize(self, _end, self._workers)

    def submit(self, jobs: Sequence[Job]) -> Chunk | OwnChunk:
        worker = min(self._workers, key=lambda worker: len(worker.chunks))
        if self.workers > 1 and len(self._own) < len(worker.chunks):
            self._own.append(OwnChunk(jobs))
            return self._own[-1]
        while not self._free:  # chunks that were given up while at work still hold theirs
            self._receive(self._workers)
        slab = self._free.pop()
        chunk = Chunk(slab, len(jobs), worker)
        worker.chunks.append(chunk)
        try:
            worker.pipe.send((slab, self._orders(jobs, self._arena[slab])))
        except OSError:
            raise self._broken() from None
        return chunk

    def _orders(self, jobs: Sequence[Job], rows: np.ndarray) -> list[Order]:
        """Of jobs that share a start, the last one's result takes its place: they go in turn."""
        starts = {id(job.start): place for place, job in enumerate(jobs)}
        orders = []
        for place, job in enumerate(jobs):
            if starts[id(job.start)] == place:
                rows[place] = job.start.numpy()
            shift = None if job.shift is None else self.jobs_at_once + place
            if job.shift is not None:
                rows[self.jobs_at_once + place] = job.shift.numpy()
            numbers = (job.pull, job.epochs, job.steps, job.learning_rate, job.count)
            orders.append(Order(job.node, starts[id(job.start)], shift, *numbers))
        return orders

    def results(self, chunk: Chunk | OwnChunk) -> list[Result]:
        if isinstance(chunk, OwnChunk):
            if chunk.results is None:
                self._own.remove(chunk)
                chunk.results = self._trainer.train(chunk.jobs)
            return chunk.results
        while chunk.losses is None:
            if self._own and not chunk.worker.pipe.poll():
                own = self._own.popleft()
                own.results = self._trainer.train(own.jobs)
            else:
                self._receive([chunk.worker])
        rows = list(self._arena[chunk.slab][: chunk.size])
        if len(self._free) <= self.chunks_per_worker * self.workers:  # what may be under way
            models = [torch.from_numpy(row.copy()) for row in rows]
            self._free.append(chunk.slab)
        else:
            models = self._lent(chunk.slab, rows)
        return [Result(model, loss) for model, loss in zip(models, chunk.losses, strict=True)]

    def discard(self, chunk: Chunk | OwnChunk) -> None:
        if isinstance(chunk, OwnChunk):
            if chunk.results is None:
                self._own.remove(chunk)
            return
        chunk.is_wanted = False
        if chunk.losses is not None:
            self._free.append(chunk.slab)

    def close(self) -> None:
        self._end()

    def _receive(self, workers: list[_Worker]) -> None:
        """One chunk of each that has one, from those that are asked for; waits for the first."""
        busy = {worker.pipe: worker for worker in workers if worker.chunks}
        for pipe in wait(busy):
            worker = busy[pipe]  # type: ignore[index]
            try:
                answer = worker.pipe.recv()
            except (EOFError, OSError):
                raise self._broken() from None
            if isinstance(answer, Exception):
                raise answer
            chunk = worker.chunks.popleft()
            chunk.losses = answer
            if not chunk.is_wanted:
                self._free.append(chunk.slab)

    def _broken(self) -> UserError:
        for worker in self._workers:
            worker.process.kill()
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


def _start_worker(task: Task, arena: torch.Tensor) -> _Worker:
    spawn = torch.multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, task, arena), daemon=True)
    with withheld_from_workers(*_OF_THE_RUN):
        process.start()
    theirs.close()
    return _Worker(ours, process)


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.pipe.close()
        worker.process.kill()  # what it is at work on, nobody wants any more
    for worker in workers:
        worker.process.join()


def _serve(pipe: Connection, task: Task, arena: torch.Tensor) -> None:
    end_with_parent()
    trainer: Trainer | None = None
    with suppress(EOFError, OSError):  # the run has closed its end
        while True:
            slab, orders = pipe.recv()
            try:
                trainer = trainer or Trainer(task)
                answer: object = _work(trainer, arena[slab], orders)
            except Exception as error:
                answer = error
            pipe.send(answer)


def _work(trainer: Trainer, rows: torch.Tensor, orders: list[Order]) -> list[float]:
    jobs = [
        Job(
            order.node,
            rows[order.start],
            pull=order.pull,
            shift=None if order.shift is None else rows[order.shift],
            epochs=order.epochs,
            steps=order.steps,
            learning_rate=order.learning_rate,
            count=order.number,
        )
        for order in orders
    ]
    return [result.loss for result in trainer.train(jobs, list(rows[: len(jobs)]))]
