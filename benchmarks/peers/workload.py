"""What every framework trains: the same data, first model and local SGD.

Imported by the drivers in their own environments, so it needs nothing but torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import torch
from torch import nn

CLIENTS, SAMPLES, BATCH, RATE = 100, 100, 20, 0.1
SHAPE, CLASSES = (1, 28, 28), 10
SIGNAL = 0.5
"""Of the classes' random patterns in the noise: learned in part after a few rounds."""


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def cnn() -> nn.Module:
    """simulator.models.cnn_async_hfl, layer by layer: 431,080 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, CLASSES),
    )  # fmt: skip


MODELS = {"mlp": mlp, "cnn": cnn}


def first_model(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]()


@cache
def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Client k has the samples from k * SAMPLES on."""
    rng = torch.Generator().manual_seed(0)
    patterns = torch.randn(CLASSES, *SHAPE, generator=rng)
    y = torch.randint(CLASSES, (CLIENTS * SAMPLES,), generator=rng)
    x = torch.randn(CLIENTS * SAMPLES, *SHAPE, generator=rng)
    return x + SIGNAL * patterns[y], y


class Batches:
    """One epoch of a client, shuffled: cheaper than a DataLoader, which collates samples."""

    def __init__(self, client: int) -> None:
        self.first = client * SAMPLES

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        x, y = data()
        for batch in (torch.randperm(SAMPLES) + self.first).split(BATCH):
            yield x[batch], y[batch]


def train(module: nn.Module, client: int) -> None:
    optimiser = torch.optim.SGD(module.parameters(), RATE)
    for x, y in Batches(client):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimiser.step()


@torch.inference_mode()
def report(version: str, stamps: list[float], model: nn.Module) -> None:
    """From the times at which rounds ended; the first round, which warms up, began before."""
    x, y = data()
    output = model(x)
    answer = {
        "version": version,
        "updates_per_s": CLIENTS / min(b - a for a, b in pairwise(stamps)),
        "loss": float(nn.functional.cross_entropy(output, y)),
        "accuracy": float((output.argmax(1) == y).float().mean()),
    }
    print(json.dumps(answer), flush=True)
