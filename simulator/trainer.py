"""Local training in one thread: in C++ where that knows the model, else with autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simulator.events import Job, Result
from simulator.models import FlatModule
from simulator.native import NativeTrainer
from simulator.task import Task, batches, steps_of
from simulator.training import rate_of


class Trainer:
    """Torch computes in one thread, in each worker: bits do not depend on their number."""

    def __init__(self, task: Task) -> None:
        torch.set_num_threads(1)
        self._task = task
        self._net = task.build()
        self._native = NativeTrainer.make(task) if task.training.kernels == "native" else None
        self.num_parameters = len(self._net.values)
        self.jobs_at_once = (
            NativeTrainer.jobs_at_once(self.num_parameters) if self._native is not None else 1
        )

    def train(self, jobs: Sequence[Job], rooms: Sequence[Tensor] | None = None) -> list[Result]:
        """``rooms``: where to leave the models; a job's may be its own start."""
        if self._native is not None:
            return self._native.train(jobs, rooms)
        results = [train(self._task, self._net, job) for job in jobs]
        if rooms is not None:
            for room, result in zip(rooms, results, strict=False):
                room.copy_(result.model)
        return results


def is_native(task: Task) -> bool:
    """Whether C++ trains the task's model: then other threads of the process can go on."""
    return Trainer(task)._native is not None


def train(task: Task, net: FlatModule, job: Job) -> Result:
    """Plain local SGD along ``gradient + pull * (w - start) + shift``."""
    assert job.less is None
    training, num_steps = task.training, steps_of(task, job)[0]
    rate = rate_of(job, training)
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
