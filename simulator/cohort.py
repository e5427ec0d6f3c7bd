"""Local training of many jobs at once, each as if it were alone.

A job's result is the same to the bit whatever other jobs it is trained with, and in whichever
order: the samples of its batches are filled up to a number that follows from the job alone, and
only jobs whose steps are made of the same operations share a stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from simulator.events import Job, Result
from simulator.kernels import Kernel, Models
from simulator.task import Task, orders, steps_of


def train_together(task: Task, kernel: Kernel, jobs: Sequence[Job]) -> list[Result]:
    """What ``trainer.train`` gives for each of the jobs, but for rounding."""
    steps = [steps_of(task, job)[0] for job in jobs]
    alike = defaultdict(list)
    for place in sorted(range(len(jobs)), key=lambda place: -steps[place]):
        job = jobs[place]
        alike[_width(task, job), bool(job.pull), job.shift is not None].append(place)
    results: dict[int, Result] = {}
    for (width, *_), places in alike.items():
        for some in _chunks(places, kernel.jobs_at_once):
            stack = _Stack(task, kernel, [jobs[place] for place in some], width)
            results.update(zip(some, stack.train(), strict=False))
    return [results[place] for place in range(len(jobs))]


def _width(task: Task, job: Job) -> int:
    """Samples per step, fillers included: few different numbers, so that jobs share stacks."""
    return min(task.training.batch_size, _round_up(len(task.parts[job.node]), 8))


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _chunks(places: list[int], most: int) -> list[list[int]]:
    return [chunk.tolist() for chunk in np.array_split(places, -(-len(places) // most))]


class _Stack:
    """Jobs whose steps are made of the same operations, those with most steps first."""

    def __init__(self, task: Task, kernel: Kernel, jobs: list[Job], width: int) -> None:
        if len(jobs) == 1 < kernel.jobs_at_once:
            jobs = jobs * 2  # kernels.stack says why never one
        self._task, self._kernel, self._width = task, kernel, width
        self._steps = [steps_of(task, job)[0] for job in jobs]
        self._samples, self._shares = _schedule(task, jobs, self._steps, width)
        self._truth = task.y_train[self._samples]
        self._losses = torch.zeros_like(self._shares)
        self._models = Models(kernel.slots, [job.start for job in jobs])
        rates = torch.tensor([_rate(task, job) for job in jobs])
        self._steering = (
            _Steering(task, jobs, self._models, rates) if _is_steered(task, jobs[0]) else None
        )
        # Without steering the kernel itself moves the models, by gradients that hold the rate.
        self._weights = self._shares if self._steering else self._shares * rates[:, None]

    def train(self) -> list[Result]:
        models = [torch.empty(0)] * len(self._steps)
        for begin, end in pairwise([0, *sorted(set(self._steps))]):
            active = sum(count >= end for count in self._steps)
            self._take_steps(range(begin, end), max(active, min(2, self._kernel.jobs_at_once)))
            for place, count in enumerate(self._steps):
                if count == end:
                    models[place] = self._models.vector(place)
        return [Result(*result) for result in zip(models, self._mean_losses(), strict=True)]

    def _take_steps(self, steps: range, active: int) -> None:
        x_train, steering = self._task.x_train, self._steering
        gradients = steering.gradients.first(active) if steering else None
        step = self._kernel.at_work(self._models.first(active), gradients, self._width)
        x = x_train.new_empty(active * self._width, *x_train.shape[1:])
        batch = x.view(active, self._width, *x_train.shape[1:])
        samples, truth, weights, losses = (
            tensor[:, :active]
            for tensor in (self._samples, self._truth, self._weights, self._losses)
        )
        for now in steps:
            torch.index_select(x_train, 0, samples[now].flatten(), out=x)
            losses[now] = step(batch, truth[now], weights[now])
            if steering:
                steering.move(active)

    def _mean_losses(self) -> list[float]:
        """Summed step by step: how many steps other jobs have must not matter."""
        sums = (self._losses * self._shares).sum(2, dtype=torch.float64).cumsum(0).tolist()
        return [sums[count - 1][place] / count for place, count in enumerate(self._steps)]


def _schedule(
    task: Task, jobs: Sequence[Job], steps: Sequence[int], width: int
) -> tuple[Tensor, Tensor]:
    """[steps, jobs, width]: numbers of the samples, and their shares in the step's mean loss.

    Fillers, and all samples of a job that is over, have no share.
    """
    samples = np.zeros((len(jobs), max(steps), width), np.int64)
    shares = np.zeros(samples.shape, np.float32)
    for job, count, numbers, share in zip(jobs, steps, samples, shares, strict=True):
        epoch_shares = _epoch_shares(len(task.parts[job.node]), width)
        starts = range(0, count, len(epoch_shares))
        for first, order in zip(starts, orders(task, job), strict=False):
            steps_left = count - first
            share[first:count][: len(epoch_shares)] = epoch_shares[:steps_left]
            flat = numbers[first:count][: len(epoch_shares)].reshape(-1)
            flat[: len(order)] = order[: len(flat)]
            flat[len(order) :] = order[0]
    in_steps = (torch.from_numpy(array).transpose(0, 1) for array in (samples, shares))
    numbers_of_steps, shares_of_steps = (array.contiguous() for array in in_steps)
    return numbers_of_steps, shares_of_steps


@lru_cache
def _epoch_shares(size: int, width: int) -> np.ndarray:
    """[steps, width] of one epoch of ``size`` samples."""
    real = np.arange(_round_up(size, width)).reshape(-1, width) < size
    shares: np.ndarray = (real / real.sum(1, keepdims=True)).astype(np.float32)
    return shares


def _rate(task: Task, job: Job) -> float:
    return task.training.learning_rate if job.learning_rate is None else job.learning_rate


def _is_steered(task: Task, job: Job) -> bool:
    training = task.training
    return bool(job.pull or job.shift is not None or training.momentum or training.clip_norm)


class _Steering:
    """Moves models along anything but their bare gradients, which a kernel writes here."""

    def __init__(self, task: Task, jobs: Sequence[Job], models: Models, rates: Tensor) -> None:
        slots, starts = models.slots, [job.start for job in jobs]
        self.gradients = Models(slots, starts)
        self._models, self._rates = models, rates
        self._momentum, self._clip_norm = task.training.momentum, task.training.clip_norm
        self._velocities = None
        if self._momentum:
            self._velocities = Models(slots, [torch.zeros_like(start) for start in starts])
        shifts = [job.shift for job in jobs if job.shift is not None]
        self._shifts = Models(slots, shifts) if shifts else None
        self._starts = Models(slots, starts) if jobs[0].pull else None
        self._pulls = torch.tensor([job.pull for job in jobs])

    def move(self, active: int) -> None:
        values, directions = self._models.first(active), self.gradients.first(active)
        if self._starts is not None:
            for direction, value, start in zip(
                directions, values, self._starts.first(active), strict=True
            ):
                direction.addcmul_(value - start, _beside(self._pulls, direction))
        if self._shifts is not None:
            for direction, shift in zip(directions, self._shifts.first(active), strict=True):
                direction.add_(shift)
        if self._clip_norm is not None:
            _clip(directions, self._clip_norm)
        if self._velocities is not None:
            velocities = self._velocities.first(active)
            for velocity, direction in zip(velocities, directions, strict=True):
                velocity.mul_(self._momentum).add_(direction)
            directions = velocities
        for value, direction in zip(values, directions, strict=True):
            value.addcmul_(direction, _beside(self._rates, direction), value=-1)


def _beside(numbers: Tensor, block: Tensor) -> Tensor:
    """A number for each copy in a block, to multiply with."""
    return numbers[: len(block)].view(-1, *[1] * (block.ndim - 1))


def _clip(directions: list[Tensor], most: float) -> None:
    norms = [torch.linalg.vector_norm(block.flatten(1), dim=1) for block in directions]
    whole = torch.linalg.vector_norm(torch.stack(norms, 1), dim=1)
    factors = (most / (whole + 1e-12)).clamp_(max=1.0)
    for block in directions:
        block.mul_(_beside(factors, block))
