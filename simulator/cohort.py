"""Local training of many jobs at once, each as if it were alone.

A job's result is the same to the bit whatever other jobs it is trained with, and in whichever
order: the samples of its batches are filled up to a number that follows from the job alone, and
only jobs whose steps are made of the same operations share a stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from simulator.events import Job, Result
from simulator.kernels import FEW_STEPS, Kernel, Models
from simulator.task import Task, orders, steps_of
from simulator.training import rate_of


def train_together(task: Task, kernel: Kernel, jobs: Sequence[Job]) -> list[Result]:
    """What ``trainer.train`` gives for each of the jobs, but for rounding."""
    steps = [steps_of(task, job)[0] for job in jobs]
    alike = defaultdict(list)
    for place in sorted(range(len(jobs)), key=lambda place: -steps[place]):
        job = jobs[place]
        is_short = steps[place] < FEW_STEPS
        alike[_width(task, job), is_short, _kind(task, job)].append(place)
    results: dict[int, Result] = {}
    for (width, is_short, *_), places in alike.items():
        chunks = _chunks(places, kernel.jobs_at_once)
        suited = (is_short and kernel.for_few_steps) or kernel
        stack = _Stack(task, suited, len(chunks[0]), width, jobs[places[0]])
        for chunk in chunks:
            results.update(zip(chunk, stack.train([jobs[p] for p in chunk]), strict=True))
    return [results[place] for place in range(len(jobs))]


def _width(task: Task, job: Job) -> int:
    """Samples per step, fillers included: few different numbers, so that jobs share stacks."""
    return min(task.training.batch_size, _round_up(len(task.parts[job.node]), 8))


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _chunks(places: list[int], most: int) -> list[list[int]]:
    return [chunk.tolist() for chunk in np.array_split(places, -(-len(places) // most))]


class _Stack:
    """Trains jobs whose steps are made of the same operations, in room that is used again."""

    def __init__(self, task: Task, kernel: Kernel, most_jobs: int, width: int, like: Job) -> None:
        self._task, self._kernel, self._width = task, kernel, width
        self._fewest = kernel.fewest_copies(width)
        self._models = Models(kernel.slots, max(most_jobs, self._fewest))
        self._steering = _Steering(task, self._models, like) if _is_steered(task) else None
        self._keep, pulled, shifted = _kind(task, like)
        drifts = (pulled or shifted) and not self._steering
        self._drift = Models(kernel.slots, len(self._models.blocks[0])) if drifts else None
        self._active = 0

    def train(self, jobs: list[Job]) -> list[Result]:
        """The jobs with most steps come first."""
        if len(jobs) < self._fewest:
            return self.train(jobs * self._fewest)[: len(jobs)]
        steps = [steps_of(self._task, job)[0] for job in jobs]
        plan = _plan(self._task, jobs, steps, self._width)
        self._models.load([job.start for job in jobs])
        if self._steering:
            self._steering.load(jobs)
        if self._drift:
            self._drift.load([_drift(self._task, job) for job in jobs])
        models = [torch.empty(0)] * len(jobs)
        for begin, end in pairwise([0, *sorted(set(steps))]):
            self._work_on(max(sum(count >= end for count in steps), self._fewest))
            for now in range(begin, end):
                self._take_step(plan, now)
            for place, count in enumerate(steps):
                if count == end:
                    models[place] = self._models.vector(place)
        losses = plan.mean_losses(steps)
        return [Result(*result) for result in zip(models, losses, strict=True)]

    def _work_on(self, active: int) -> None:
        """The first jobs; those after them are over."""
        if active == self._active:
            return
        self._active = active
        gradients = self._steering.gradients.first(active) if self._steering else None
        values = self._models.first(active)
        self._step = self._kernel.at_work(values, gradients, self._width, self._keep)
        self._x = self._task.x_train.new_empty(active, self._width, *self._task.x_train.shape[1:])

    def _take_step(self, plan: _Plan, now: int) -> None:
        here = now, slice(self._active)
        samples = plan.samples[here].flatten()
        torch.index_select(self._task.x_train, 0, samples, out=self._x.flatten(0, 1))
        plan.losses[here] = self._step(self._x, plan.truth[here], plan.weights[here])
        if self._steering:
            self._steering.move(self._active)
        if self._drift:
            pairs = zip(
                self._models.first(self._active), self._drift.first(self._active), strict=True
            )
            for value, drift in pairs:
                value.add_(drift)


@dataclass(frozen=True)
class _Plan:
    """[steps, jobs, width] each."""

    samples: Tensor
    """Their numbers. Fillers follow the samples of a step, and all steps of a job."""
    shares: Tensor
    """In the mean loss of the step; 0 for fillers."""
    weights: Tensor
    """In what the kernel takes for the loss."""
    truth: Tensor
    losses: Tensor
    """Found by training."""

    def mean_losses(self, steps: Sequence[int]) -> list[float]:
        """Summed step by step: how many steps other jobs have must not matter."""
        sums = (self.losses * self.shares).sum(2, dtype=torch.float64).cumsum(0).tolist()
        return [sums[count - 1][place] / count for place, count in enumerate(steps)]


def _plan(task: Task, jobs: Sequence[Job], steps: Sequence[int], width: int) -> _Plan:
    samples = np.zeros((len(jobs), max(steps), width), np.int64)
    shares = np.zeros(samples.shape, np.float32)
    for job, count, numbers, share in zip(jobs, steps, samples, shares, strict=True):
        epoch_shares = _epoch_shares(len(task.parts[job.node]), width)
        starts = range(0, count, len(epoch_shares))
        for first, order in zip(starts, orders(task, job), strict=False):
            share[first:count][: len(epoch_shares)] = epoch_shares[: count - first]
            flat = numbers[first:count][: len(epoch_shares)].reshape(-1)
            flat[: len(order)] = order[: len(flat)]
            flat[len(order) :] = order[0]
    by_step = torch.from_numpy(samples).transpose(0, 1).contiguous()
    share_by_step = torch.from_numpy(shares).transpose(0, 1).contiguous()
    weights = share_by_step
    if not _is_steered(task):  # then the kernel moves models by what it finds
        weights = share_by_step * torch.tensor([[rate_of(job, task.training)] for job in jobs])
    losses = torch.zeros_like(share_by_step)
    return _Plan(by_step, share_by_step, weights, task.y_train[by_step], losses)


@lru_cache
def _epoch_shares(size: int, width: int) -> np.ndarray:
    """[steps, width] of one epoch of ``size`` samples."""
    real = np.arange(_round_up(size, width)).reshape(-1, width) < size
    shares: np.ndarray = (real / real.sum(1, keepdims=True)).astype(np.float32)
    return shares


def _kind(task: Task, job: Job) -> tuple[float, bool, bool]:
    """Jobs of one kind can share a stack: ``keep``, and whether there are a pull and a shift.

    Without momentum and clipping, w - rate * (gradient + pull * (w - start) + shift) is
    ``keep * w + drift - rate * gradient``: one number, and a vector that stays the same over all
    steps of a job.
    """
    keep = 1.0 if _is_steered(task) else 1.0 - rate_of(job, task.training) * job.pull
    return keep, bool(job.pull), job.shift is not None


def _drift(task: Task, job: Job) -> Tensor:
    drift = (rate_of(job, task.training) * job.pull) * job.start
    return drift if job.shift is None else drift.sub_(job.shift, alpha=rate_of(job, task.training))


def _is_steered(task: Task) -> bool:
    return bool(task.training.momentum or task.training.clip_norm)


class _Steering:
    """Moves models with momentum or clipping, along gradients that a kernel writes here."""

    def __init__(self, task: Task, models: Models, like: Job) -> None:
        def room() -> Models:
            return Models(models.slots, len(models.blocks[0]))

        self._task, self._models, self.gradients = task, models, room()
        self._momentum, self._clip_norm = task.training.momentum, task.training.clip_norm
        self._starts = room() if like.pull else None
        self._shifts = room() if like.shift is not None else None
        self._velocities = room() if self._momentum else None
        self._pulls = self._rates = torch.empty(0)

    def load(self, jobs: Sequence[Job]) -> None:
        self._rates = torch.tensor([rate_of(job, self._task.training) for job in jobs])
        self._pulls = torch.tensor([job.pull for job in jobs])
        if self._starts:
            self._starts.load([job.start for job in jobs])
        if self._shifts:
            self._shifts.load([job.shift for job in jobs if job.shift is not None])
        if self._velocities:
            for block in self._velocities.blocks:
                block.zero_()

    def move(self, active: int) -> None:
        values, directions = self._models.first(active), self.gradients.first(active)
        if self._starts:
            for direction, value, start in zip(
                directions, values, self._starts.first(active), strict=True
            ):
                direction.addcmul_(value - start, _beside(self._pulls, direction))
        if self._shifts:
            for direction, shift in zip(directions, self._shifts.first(active), strict=True):
                direction.add_(shift)
        if self._clip_norm is not None:
            _clip(directions, self._clip_norm)
        if self._velocities:
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
