"""Training steps per second of the learner, against a plain PyTorch loop in the same run.

One thread, batch 20, 100 samples a device, random data of Fashion-MNIST's shape.
    .venv/bin/python benchmarks/training.py
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import nn

from simulator.events import Job
from simulator.learner import SerialLearner, Task
from simulator.model_section import ModelSection
from simulator.models import build_model, flat_parameters
from simulator.training import TrainingSection

DEVICES, SAMPLES, BATCH, RATE = 20, 100, 20, 0.05
SHAPE, CLASSES = (1, 28, 28), 10
STEPS = DEVICES * SAMPLES // BATCH


def make_task(model: str) -> Task:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(DEVICES * SAMPLES, *SHAPE)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, CLASSES, DEVICES * SAMPLES))
    parts = {d: np.arange(d * SAMPLES, (d + 1) * SAMPLES) for d in range(DEVICES)}
    training = TrainingSection(learning_rate=RATE, batch_size=BATCH, epochs=1)
    section = ModelSection(name=model)
    return Task(x, y, x[:1], y[:1], CLASSES, False, parts, section, training, seed=0)


def plain_loop(task: Task, start: torch.Tensor) -> float:
    """What one would write by hand: load the model, SGD over the device's batches, read it out."""
    module = build_model(task.model, SHAPE, CLASSES)
    began = time.process_time()
    for part in task.parts.values():
        nn.utils.vector_to_parameters(start, module.parameters())
        optimiser = torch.optim.SGD(module.parameters(), RATE)
        order = torch.randperm(SAMPLES) + int(part[0])
        for batch in order.split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(task.x_train[batch]), task.y_train[batch]).backward()
            optimiser.step()
        flat_parameters(module)
    return STEPS / (time.process_time() - began)


def ours(task: Task, start: torch.Tensor) -> float:
    learner = SerialLearner(task)
    began = time.process_time()
    for device in task.parts:
        learner.train(Job(node=device, start=start)).result  # noqa: B018
    return STEPS / (time.process_time() - began)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':16}{'parameters':>12}{'plain steps/s':>15}{'ours steps/s':>14}{'ratio':>7}")
    for model in ("mlp", "cnn-async-hfl"):
        task = make_task(model)
        start = SerialLearner(task).initial_model()
        plain_loop(task, start), ours(task, start)
        plain = max(plain_loop(task, start) for _ in range(5))
        mine = max(ours(task, start) for _ in range(5))
        print(f"{model:16}{len(start):12,}{plain:15,.0f}{mine:14,.0f}{mine / plain:7.2f}")


if __name__ == "__main__":
    main()
