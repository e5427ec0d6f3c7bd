"""Local training and evaluation: jobs in, updates out.

An update is a function of its job, the scenario and the seed alone: every process computes
with one thread, so the bits do not depend on the number of workers.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from torch.nn import functional as F

from simulator.errors import UserError
from simulator.events import Job, Result, Update
from simulator.model_section import ModelSection
from simulator.models import FlatModule, build_model, initial_model, model_bytes
from simulator.parts import Score
from simulator.rng import Stream, generator
from simulator.training import TrainingSection, work_of
from simulator.units import NodeId

_EVALUATION_BATCH = 1024
_AHEAD = 4
"""Jobs per worker that are handed over before they are asked for."""


@dataclass(frozen=True)
class Task:
    """What is learned, by whom and how; shared by reference, also between processes."""

    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor
    outputs: int
    regression: bool
    parts: dict[NodeId, np.ndarray]
    """Each device's training samples."""
    model: ModelSection
    training: TrainingSection
    seed: int

    def build(self) -> FlatModule:
        shape = tuple(self.x_train.shape[1:])
        return FlatModule(build_model(self.model, shape, self.outputs))

    def loss(self, prediction: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        if self.regression:
            return F.mse_loss(prediction, truth)
        return F.cross_entropy(prediction, truth)


def steps_of(task: Task, job: Job) -> tuple[int, int]:
    """Local steps of a job, and the samples that they read."""
    return work_of(job, task.training, len(task.parts[job.node]))


def batches(task: Task, job: Job, num_steps: int) -> Iterator[torch.Tensor]:
    """Sample numbers of each step: shuffled anew every time the device's data is used up."""
    rng = generator(task.seed, Stream.TRAIN, job.node, job.count)
    samples, size = task.parts[job.node], task.training.batch_size
    per_epoch = -(-len(samples) // size)
    for step in range(num_steps):
        place = step % per_epoch
        if place == 0:
            order = torch.from_numpy(rng.permutation(samples))
        yield order[place * size : (place + 1) * size]


def train(task: Task, net: FlatModule, job: Job) -> Result:
    """Plain local SGD along ``gradient + pull * (w - start) + shift``."""
    training, num_steps = task.training, steps_of(task, job)[0]
    rate = training.learning_rate if job.learning_rate is None else job.learning_rate
    net.load(job.start)
    w, step = net.values, net.gradients
    velocity = torch.zeros_like(w) if training.momentum else None
    total = torch.zeros(())
    for batch in batches(task, job, num_steps):
        net.zero_grad()
        loss = task.loss(net(task.x_train[batch]), task.y_train[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
        with torch.no_grad():
            if job.pull:
                step.add_(w - job.start, alpha=job.pull)
            if job.shift is not None:
                step.add_(job.shift)
            if training.clip_norm is not None:
                step.mul_((training.clip_norm / (step.norm() + 1e-12)).clamp(max=1.0))
            if velocity is not None:
                velocity.mul_(training.momentum).add_(step)
            w.sub_(step if velocity is None else velocity, alpha=rate)
    return Result(w.clone(), float(total) / num_steps)


@torch.inference_mode()
def evaluate(task: Task, net: FlatModule, model: torch.Tensor) -> Score:
    net.load(model)
    total, right, count = 0.0, 0, len(task.x_test)
    for first in range(0, count, _EVALUATION_BATCH):
        x = task.x_test[first : first + _EVALUATION_BATCH]
        y = task.y_test[first : first + _EVALUATION_BATCH]
        prediction = net(x)
        total += float(task.loss(prediction, y)) * len(x)
        if not task.regression:
            right += int((prediction.argmax(1) == y).sum())
    return Score(None if task.regression else right / count, total / count)


class _Base:
    def __init__(self, task: Task) -> None:
        torch.set_num_threads(1)
        self.task = task
        self._net = task.build()
        self.model_bytes = model_bytes(task.model, self._net.module)

    def initial_model(self) -> torch.Tensor:
        shape = tuple(self.task.x_train.shape[1:])
        rng = generator(self.task.seed, Stream.MODEL)
        return initial_model(self.task.model, shape, self.task.outputs, rng)

    def num_samples(self, node: NodeId) -> int:
        return len(self.task.parts[node])

    def work(self, job: Job) -> tuple[int, int]:
        return steps_of(self.task, job)

    def evaluate(self, model: torch.Tensor) -> Score:
        return evaluate(self.task, self._net, model)

    def _update(self, job: Job, compute: Callable[[], Result]) -> Update:
        steps, _ = steps_of(self.task, job)
        return Update(job, len(self.task.parts[job.node]), steps, compute)


class SerialLearner(_Base):
    """Trains in this process, each job when its result is asked for."""

    def train(self, job: Job) -> Update:
        return self._update(job, lambda: train(self.task, self._net, job))

    def close(self) -> None:
        pass


class PoolLearner(_Base):
    """Trains jobs in worker processes while simulated time goes on; data in shared memory.

    Few jobs are handed over ahead of being asked for: each that is done holds a model.
    """

    def __init__(self, task: Task, workers: int) -> None:
        super().__init__(task)
        for tensor in (task.x_train, task.y_train):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        spawn = torch.multiprocessing.get_context("spawn")
        worker_task = replace(task, x_test=task.x_test[:0], y_test=task.y_test[:0])
        self._pool = ProcessPoolExecutor(workers, spawn, _start_worker, (worker_task,))
        self._waiting: deque[weakref.ref[_Remote]] = deque()
        self._handed_over: dict[int, Future[tuple[np.ndarray, float]]] = {}
        self._most = _AHEAD * workers

    def train(self, job: Job) -> Update:
        remote = _Remote(job)
        weakref.finalize(remote, self._drop, id(remote)).atexit = False
        self._waiting.append(weakref.ref(remote))
        self._hand_over_more()
        return self._update(job, lambda: self._result(remote))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _result(self, remote: _Remote) -> Result:
        self._hand_over(remote)
        try:
            model, loss = self._handed_over[id(remote)].result()
        except BrokenProcessPool:
            raise UserError(
                "a worker process has died (out of memory?); the run can be resumed from its "
                "last checkpoint"
            ) from None
        del self._handed_over[id(remote)]
        remote.job = None
        self._hand_over_more()
        return Result(torch.from_numpy(model), loss)

    def _hand_over_more(self) -> None:
        while self._waiting and len(self._handed_over) < self._most:
            remote = self._waiting.popleft()()
            if remote is not None and remote.job is not None:
                self._hand_over(remote)

    def _hand_over(self, remote: _Remote) -> None:
        if id(remote) in self._handed_over:
            return
        assert remote.job is not None
        self._handed_over[id(remote)] = self._pool.submit(_work, _as_arrays(remote.job))

    def _drop(self, key: int) -> None:
        """Nobody can ask for this result any more."""
        future = self._handed_over.pop(key, None)
        if future is not None:
            future.cancel()


class _Remote:
    """A job on its way through the pool; lives as long as somebody may want its result."""

    def __init__(self, job: Job) -> None:
        self.job: Job | None = job


def _as_arrays(job: Job) -> Any:
    """Tensors would travel as one shared-memory file each."""
    shift = None if job.shift is None else job.shift.numpy()
    return replace(job, tag=None, start=job.start.numpy(), shift=shift)  # type: ignore[arg-type]


_worker: tuple[Task, FlatModule]


def _start_worker(task: Task) -> None:
    global _worker
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # meant for the run, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _worker = task, task.build()


def _end_with_parent() -> None:
    """A killed run cannot end its workers."""
    parent = torch.multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(job: Any) -> tuple[np.ndarray, float]:
    task, net = _worker
    shift = None if job.shift is None else torch.from_numpy(job.shift)
    result = train(task, net, replace(job, start=torch.from_numpy(job.start), shift=shift))
    return result.model.numpy(), result.loss
