"""What is learned, by whom and how, and which samples each local step reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from simulator.events import Job
from simulator.model_section import ModelSection
from simulator.models import FlatModule, build_model
from simulator.rng import Stream, generator
from simulator.training import TrainingSection, work_of
from simulator.units import NodeId


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


def orders(task: Task, job: Job) -> Iterator[np.ndarray]:
    """The device's sample numbers, shuffled anew for every epoch, without end."""
    rng = generator(task.seed, Stream.TRAIN, job.node, job.count)
    while True:
        yield rng.permutation(task.parts[job.node])


def batches(task: Task, job: Job, num_steps: int) -> Iterator[torch.Tensor]:
    """Sample numbers of each step: shuffled anew every time the device's data is used up."""
    size = task.training.batch_size
    per_epoch = -(-len(task.parts[job.node]) // size)
    epochs = orders(task, job)
    for step in range(num_steps):
        place = step % per_epoch
        if place == 0:
            order = torch.from_numpy(next(epochs))
        yield order[place * size : (place + 1) * size]
