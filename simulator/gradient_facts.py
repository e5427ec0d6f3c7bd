"""L, G, sigma and the groups' dissimilarity, estimated where a scenario's training begins.

Every device computes the gradients of two mini-batches. From two one knows their noise, and the
products of means over different batches have none. Elsewhere than at the start gradients may be
larger, so bounds that are made of these numbers are estimates, not guarantees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from algorithms.sync_time_bounds import Constants
from simulator.build import build
from simulator.data.catalog import data_folder
from simulator.data.dataset import load
from simulator.events import Job
from simulator.parts import Learner
from simulator.scenario import Scenario
from simulator.smoothness import estimate_smoothness
from simulator.units import NodeId

_AT_ONCE = 64
"""Devices whose gradients are in memory."""

Pair = tuple[torch.Tensor, torch.Tensor]


def estimate_constants(scenario: Scenario, base: Path) -> tuple[Constants, dict[str, int]]:
    """And the sizes of the groups, by their gateways' names, in the topology's order."""
    world = build(scenario, base)
    try:
        groups = {
            world.topology.nodes[gateway].name: members
            for gateway in world.topology.gateways
            if (members := [d for d, g in world.association.items() if g == gateway])
        }
        learner, start = world.learner, world.learner.initial_model()
        loss = learner.evaluate(start).loss
        assert loss is not None
        dataset = load(scenario.data.name, data_folder())
        smoothness = estimate_smoothness(scenario, dataset)
        gradient, noise, apart = _moments(learner, start, list(groups.values()))
    finally:
        world.learner.close()
        world.network.close()
    constants = Constants(smoothness, gradient, noise, apart, loss_drop=loss)
    return constants, {name: len(members) for name, members in groups.items()}


def _moments(
    learner: Learner, start: torch.Tensor, groups: Sequence[Sequence[NodeId]]
) -> tuple[float, float, float]:
    """Root of the largest second moment and variance of any device; the groups' dissimilarity."""
    largest = noisiest = 0.0
    means: list[Pair] = []
    for group in groups:
        sums = (torch.zeros_like(start), torch.zeros_like(start))
        for first, second in _gradients(learner, start, group):
            largest = max(largest, float(first.dot(first) + second.dot(second)) / 2)
            apart = first - second
            noisiest = max(noisiest, float(apart.dot(apart)) / 2)
            for total, gradient in zip(sums, (first, second), strict=True):
                total.add_(gradient, alpha=1 / len(group))
        means.append(sums)
    weights = [len(group) for group in groups]
    return largest**0.5, noisiest**0.5, _dissimilarity(means, weights) ** 0.5


def _dissimilarity(means: Sequence[Pair], weights: Sequence[int]) -> float:
    """Of groups' gradients; not below 0, where noise may have taken it."""
    shares = [weight / sum(weights) for weight in weights]
    own = sum(share * float(a.dot(b)) for share, (a, b) in zip(shares, means, strict=True))
    first = sum(share * a for share, (a, _) in zip(shares, means, strict=True))
    second = sum(share * b for share, (_, b) in zip(shares, means, strict=True))
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    return max(0.0, own - float(first.dot(second)))


def _gradients(learner: Learner, start: torch.Tensor, group: Sequence[NodeId]) -> Iterator[Pair]:
    """Of two batches of each device: what a step of size 1 goes along."""
    for begin in range(0, len(group), _AT_ONCE):
        devices = group[begin : begin + _AT_ONCE]
        jobs = [Job(d, start, steps=1, learning_rate=1.0, count=c) for d in devices for c in (0, 1)]
        updates = [learner.train(job) for job in jobs]
        learner.expect(updates)
        found = [start - update.model for update in updates]
        yield from zip(found[::2], found[1::2], strict=True)
