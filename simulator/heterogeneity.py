"""How much devices' losses differ, within groups and between them: the constants of bounds.

As the star/ring paper defines them (``algorithms.star_ring_bounds``), on the scenario's own data,
model and groups: zeta^2 (Assumption 3), zeta_g^2 (4), sigma^2 of a mini-batch (2), L (1). Groups
are gateways, all devices of a group and all groups count the same, as in Eq. (1). Assumptions hold
for every model; here they are looked at where training begins and after some steps of plain SGD on
all data, and the largest is taken. L is that of all data or of single devices, of which a few are
looked at. Of all samples of devices zeta^2 and zeta_g^2 are exact, and sigma^2 is what batches of
one pass over them show. Of some, zeta^2 and zeta_g^2 come out larger than they are, for what was
drawn differs, too; and sigma^2 smaller, for batches are a larger part of what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from algorithms.star_ring_bounds import Constants
from simulator.errors import UserError
from simulator.events import Job
from simulator.models import FlatModule, initial_model
from simulator.parts import World
from simulator.rng import Stream, generator
from simulator.scenario import Scenario
from simulator.smoothness import SAMPLES, largest_curvature
from simulator.task import Task
from simulator.trainer import train
from simulator.units import NodeId

STEPS = (0, 50, 200)
"""Of plain SGD, after which the model is looked at."""
MOST_SAMPLES = 300
"""Of a device."""
_LOOKED_AT = 4
"""Devices whose own L is estimated."""
_MOST_RATE = 0.1
_EVERYBODY: NodeId = 0


@dataclass(frozen=True)
class Heterogeneity:
    """Of one model."""

    steps: int
    """Of SGD from where training begins."""
    between: float
    """zeta^2."""
    within: dict[NodeId, float]
    """zeta_g^2, by gateway."""
    noise: float
    """sigma^2, the mean over devices."""
    most_noise: float
    """Of one device."""
    smoothness: float
    """L."""
    gradient: float
    """|gradient|^2 of the mean loss."""
    loss: float

    @property
    def mean_within(self) -> float:
        return float(np.mean(list(self.within.values())))


def constants_of(points: list[Heterogeneity]) -> Constants:
    """The largest of each; the least loss is taken to be 0."""
    return Constants(
        smoothness=max(point.smoothness for point in points),
        noise=max(point.noise for point in points),
        within=max(point.mean_within for point in points),
        between=max(point.between for point in points),
        gap=points[0].loss,
    )


def look_around(
    task: Task,
    association: Mapping[NodeId, NodeId],
    most_samples: int | None = MOST_SAMPLES,
    steps: tuple[int, ...] = STEPS,
) -> list[Heterogeneity]:
    """Where training begins, and further on."""
    small = _some_samples(task, most_samples)
    shape = tuple(task.x_train.shape[1:])
    model = initial_model(task.model, shape, task.outputs, generator(task.seed, Stream.MODEL))
    points = [look(small, association, model)]
    done = 0
    for number in steps[1:]:
        rate = min(_MOST_RATE, 1 / max(points[0].smoothness, 1e-9))
        model = _descend(small, model, number - done, rate)
        done = number
        points.append(replace(look(small, association, model), steps=number))
    return points


def look(task: Task, association: Mapping[NodeId, NodeId], model: torch.Tensor) -> Heterogeneity:
    """``task.parts`` are the samples to look at."""
    net = task.build()
    net.load(model)
    groups = sorted(set(association.values()))
    whole, within, noises, losses = torch.zeros(len(model), dtype=torch.float64), {}, [], []
    square_of_groups = 0.0
    for group in groups:
        mean, squares = torch.zeros_like(whole), 0.0
        members = [device for device in sorted(association) if association[device] == group]
        for device in members:
            gradient, noise, loss = _device(task, net, device)
            mean += gradient / len(members)
            squares += float(gradient @ gradient) / len(members)
            noises.append(noise)
            losses.append(loss / len(members) / len(groups))
        within[group] = max(squares - float(mean @ mean), 0.0)  # Eq. (4)
        whole += mean / len(groups)
        square_of_groups += float(mean @ mean) / len(groups)
    return Heterogeneity(
        steps=0,
        between=max(square_of_groups - float(whole @ whole), 0.0),  # Eq. (3)
        within=within,
        noise=float(np.mean(noises)),
        most_noise=max(noises),
        smoothness=_smoothness(task, net),
        gradient=float(whole @ whole),
        loss=sum(losses),
    )


def _device(task: Task, net: FlatModule, device: NodeId) -> tuple[torch.Tensor, float, float]:
    """Gradient, variance of a mini-batch's, and loss, from one pass over the device's samples."""
    mean = torch.zeros(len(net.values), dtype=torch.float64)
    squares, total, size = 0.0, 0.0, len(task.parts[device])
    for batch in _batches(task, device):
        net.zero_grad()
        loss = task.loss(net(task.x_train[batch]), task.y_train[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        share = len(batch) / size
        gradient = net.gradients.double()
        mean += share * gradient
        squares += share * float(gradient @ gradient)
        total += share * float(loss.detach())
    return mean, max(squares - float(mean @ mean), 0.0), total


def _batches(task: Task, device: NodeId) -> Iterator[torch.Tensor]:
    order = generator(task.seed, Stream.TRAIN, device).permutation(task.parts[device])
    size = task.training.batch_size
    for first in range(0, len(order), size):
        yield torch.from_numpy(order[first : first + size])


def _smoothness(task: Task, net: FlatModule) -> float:
    """The largest of everybody's together and some devices' own."""
    rng = generator(task.seed, Stream.DATA)
    devices = sorted(task.parts)
    some = devices[:: max(1, len(devices) // _LOOKED_AT)][:_LOOKED_AT]
    pooled = np.concatenate([task.parts[device] for device in devices])
    found = 0.0
    for samples in [pooled, *(task.parts[device] for device in some)]:
        chosen = torch.from_numpy(rng.permutation(samples)[:SAMPLES])
        loss = task.loss(net(task.x_train[chosen]), task.y_train[chosen])
        found = max(found, largest_curvature(loss, list(net.module.parameters())))
    return found


def _some_samples(task: Task, most: int | None) -> Task:
    if most is None:
        return task
    parts = {
        device: generator(task.seed, Stream.DATA, device).permutation(samples)[:most]
        for device, samples in task.parts.items()
    }
    return replace(task, parts=parts)


def _descend(task: Task, model: torch.Tensor, steps: int, rate: float) -> torch.Tensor:
    """Plain SGD on the samples of all devices together."""
    pooled = np.concatenate([task.parts[device] for device in sorted(task.parts)])
    everybody = replace(task, parts={_EVERYBODY: pooled})
    job = Job(_EVERYBODY, model, steps=steps, learning_rate=rate)
    return train(everybody, everybody.build(), job).model


def check_learning(scenario: Scenario) -> None:
    if scenario.run.learning == "none":
        raise UserError(
            'run.learning = "none": without learning there are no losses whose heterogeneity '
            'could be told; use learning = "sgd"'
        )


@contextmanager
def learning_world(scenario: Scenario, base: Path) -> Iterator[tuple[World, Task]]:
    """A scenario's parts, and what its devices train; closed when it is over."""
    from simulator.build import build
    from simulator.learner import DeferredLearner

    check_learning(scenario)
    world = build(scenario, base)
    try:
        assert isinstance(world.learner, DeferredLearner)
        yield world, world.learner.task
    finally:
        world.learner.close()
        world.network.close()


def measure(
    scenario: Scenario, base: Path, most_samples: int | None = MOST_SAMPLES
) -> list[Heterogeneity]:
    """Of a scenario's data, model and groups."""
    with learning_world(scenario, base) as (world, task):
        return look_around(task, world.association, most_samples)


def lines(points: list[Heterogeneity], batch: int, most_samples: int | None) -> list[str]:
    """A table for people."""
    amount = "all samples" if most_samples is None else f"at most {most_samples} samples"
    of_some = "with fewer than all, zeta^2 and zeta_g^2 come out too large, sigma^2 too small."
    rows: list[tuple[str, Sequence[float]]] = [
        ("steps", [point.steps for point in points]),
        ("zeta^2     between groups", [p.between for p in points]),
        ("zeta_g^2   within groups, mean", [p.mean_within for p in points]),
        ("           least", [min(p.within.values()) for p in points]),
        ("           most", [max(p.within.values()) for p in points]),
        (f"sigma^2    of {batch} samples, mean", [p.noise for p in points]),
        ("           most", [p.most_noise for p in points]),
        ("L", [p.smoothness for p in points]),
        ("|gradient|^2", [p.gradient for p in points]),
        ("loss", [p.loss for p in points]),
    ]
    table = [f"{name:<34}" + "".join(f"{cell:>12.4g}" for cell in row) for name, row in rows]
    title = f"Heterogeneity of {len(points[0].within)} groups, on {amount} of each device, where"
    when = "training begins and after some steps of SGD on all data:"
    return [title, when, *table, *([] if most_samples is None else [of_some])]
