"""Training steps per second on one core, against a plain PyTorch loop in the same run.

Batch 20, 5 or 25 steps a job, random data of the shapes of Fashion-MNIST and Shakespeare.
    .venv/bin/python benchmarks/training.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from simulator.events import Job
from simulator.model_section import ModelSection
from simulator.models import build_model, flat_parameters
from simulator.native import NativeTrainer
from simulator.task import Task
from simulator.trainer import train
from simulator.training import TrainingSection

BATCH, RATE = 20, 0.05
IMAGE, CLASSES = (1, 28, 28), 10
TEXT, CHARACTERS = (80,), 80
ROUNDS = 10

Work = Callable[[], object]

CASES = {  # model, devices, steps of a job
    "mlp 784-64-10": (ModelSection(name="mlp"), 32, 5),
    "mlp, long jobs": (ModelSection(name="mlp"), 32, 25),
    "cnn-async-hfl": (ModelSection(name="cnn-async-hfl"), 8, 5),
    "cnn-small": (ModelSection(name="cnn-small"), 8, 5),
    "char-lstm, 1": (ModelSection(name="char-lstm", layers=1), 8, 5),
    "char-lstm, 2": (ModelSection(name="char-lstm", layers=2), 8, 5),
}


def make_task(section: ModelSection, devices: int, steps: int) -> Task:
    rng = np.random.default_rng(0)
    size = steps * BATCH
    count = devices * size
    if section.name == "char-lstm":
        x, outputs = torch.from_numpy(rng.integers(0, CHARACTERS, (count, *TEXT))), CHARACTERS
    else:
        x, outputs = torch.from_numpy(rng.normal(size=(count, *IMAGE)).astype(np.float32)), CLASSES
    y = torch.from_numpy(rng.integers(0, outputs, count))
    parts = {d: np.arange(d * size, (d + 1) * size) for d in range(devices)}
    training = TrainingSection(learning_rate=RATE, batch_size=BATCH, epochs=1)
    return Task(x, y, x[:1], y[:1], outputs, False, parts, section, training, seed=0)


def plain_loop(task: Task, start: torch.Tensor) -> Work:
    """What one would write by hand: load the model, SGD over the device's batches, read it out."""
    module = build_model(task.model, tuple(task.x_train.shape[1:]), task.outputs)

    def work() -> None:
        for part in task.parts.values():
            nn.utils.vector_to_parameters(start.clone(), module.parameters())
            optimiser = torch.optim.SGD(module.parameters(), RATE)
            order = torch.randperm(len(part)) + int(part[0])
            for batch in order.split(BATCH):
                x, y = task.x_train[batch], task.y_train[batch]
                optimiser.zero_grad()
                nn.functional.cross_entropy(module(x), y).backward()
                optimiser.step()
            flat_parameters(module)

    return work


def one_by_one(task: Task, start: torch.Tensor) -> Work:
    net = task.build()

    def work() -> None:
        for device in task.parts:
            train(task, net, Job(node=device, start=start))

    return work


def native(task: Task, start: torch.Tensor) -> Work:
    trainer = NativeTrainer.make(task)
    assert trainer is not None
    jobs = [Job(node=device, start=start) for device in task.parts]
    return lambda: trainer.train(jobs)


def seconds(work: Work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    ways = (plain_loop, one_by_one, native)
    print(f"{'steps/s':16}{'parameters':>12}", *(f"{way.__name__:>12}" for way in ways), "  ratio")
    for name, (section, devices, steps) in CASES.items():
        task = make_task(section, devices, steps)
        start = flat_parameters(task.build().module)
        works = [way(task, start) for way in ways]
        best = [float("inf")] * len(ways)
        for _ in range(1 + ROUNDS):  # in turn: what else the machine does meets all alike
            best = [min(b, seconds(work)) for b, work in zip(best, works, strict=True)]
        speeds = [f"{devices * steps / b:12,.0f}" for b in best]
        print(f"{name:16}{len(start):12,}", *speeds, f"{best[0] / best[2]:7.2f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
