"""Training steps per second on one core, against a plain PyTorch loop in the same run.

Batch 20, 100 samples a device, random data of the shapes of Fashion-MNIST and Shakespeare.
    .venv/bin/python benchmarks/training.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from simulator.cohort import train_together
from simulator.events import Job
from simulator.kernels import kernel_for
from simulator.model_section import ModelSection
from simulator.models import build_model, flat_parameters
from simulator.task import Task
from simulator.trainer import train
from simulator.training import TrainingSection

DEVICES, SAMPLES, BATCH, RATE = 32, 100, 20, 0.05
IMAGE, CLASSES = (1, 28, 28), 10
TEXT, CHARACTERS = (80,), 80
ROUNDS = 5

MODELS = {
    "mlp 784-64-10": ModelSection(name="mlp"),
    "cnn-async-hfl": ModelSection(name="cnn-async-hfl"),
    "char-lstm, 1": ModelSection(name="char-lstm", layers=1),
    "char-lstm, 2": ModelSection(name="char-lstm", layers=2),
}


def make_task(section: ModelSection) -> Task:
    rng = np.random.default_rng(0)
    devices = DEVICES if section.name == "mlp" else DEVICES // 4
    count = devices * SAMPLES
    if section.name == "char-lstm":
        x, outputs = torch.from_numpy(rng.integers(0, CHARACTERS, (count, *TEXT))), CHARACTERS
    else:
        x, outputs = torch.from_numpy(rng.normal(size=(count, *IMAGE)).astype(np.float32)), CLASSES
    y = torch.from_numpy(rng.integers(0, outputs, count))
    parts = {d: np.arange(d * SAMPLES, (d + 1) * SAMPLES) for d in range(devices)}
    training = TrainingSection(learning_rate=RATE, batch_size=BATCH, epochs=1)
    return Task(x, y, x[:1], y[:1], outputs, False, parts, section, training, seed=0)


def plain_loop(task: Task, start: torch.Tensor) -> None:
    """What one would write by hand: load the model, SGD over the device's batches, read it out."""
    module = build_model(task.model, tuple(task.x_train.shape[1:]), task.outputs)
    for part in task.parts.values():
        nn.utils.vector_to_parameters(start.clone(), module.parameters())
        optimiser = torch.optim.SGD(module.parameters(), RATE)
        order = torch.randperm(SAMPLES) + int(part[0])
        for batch in order.split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(task.x_train[batch]), task.y_train[batch]).backward()
            optimiser.step()
        flat_parameters(module)


def one_by_one(task: Task, start: torch.Tensor) -> None:
    net = task.build()
    for device in task.parts:
        train(task, net, Job(node=device, start=start))


def together(task: Task, start: torch.Tensor) -> None:
    kernel = kernel_for(task.build().module, tuple(task.x_train.shape[1:]), task.regression)
    if kernel is None:
        one_by_one(task, start)
    else:
        train_together(task, kernel, [Job(node=device, start=start) for device in task.parts])


def seconds(work: Callable[[Task, torch.Tensor], None], task: Task, start: torch.Tensor) -> float:
    began = time.process_time()
    work(task, start)
    return time.process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    ways = (plain_loop, one_by_one, together)
    print(f"{'steps/s':16}{'parameters':>12}", *(f"{way.__name__:>12}" for way in ways), "  ratio")
    for name, section in MODELS.items():
        task = make_task(section)
        start = flat_parameters(task.build().module)
        steps = len(task.parts) * SAMPLES // BATCH
        best = [float("inf")] * len(ways)
        for _ in range(1 + ROUNDS):  # in turn: what else the machine does meets all alike
            best = [min(b, seconds(way, task, start)) for b, way in zip(best, ways, strict=True)]
        speeds = [f"{steps / b:12,.0f}" for b in best]
        print(f"{name:16}{len(start):12,}", *speeds, f"{best[0] / best[2]:7.2f}")


if __name__ == "__main__":
    main()
