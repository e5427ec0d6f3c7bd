"""Associators that need nothing but the topology and the network's estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from simulator.section import Section
from simulator.units import NodeId, Time
from topologies import Topology

Estimate = Callable[[NodeId, NodeId], Time]


class Associator(Protocol):
    """Which gateway each device belongs to. State, if any, lies in dataclass fields."""

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]: ...


class NearestSection(Section):
    name: Literal["nearest"] = "nearest"


@dataclass
class Nearest:
    """The gateway with the shortest estimated uplink; among equals the first."""

    params: NearestSection

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        return {
            device: min(topology.reach(device), key=lambda g: (estimate(device, g), g))
            for device in topology.devices
        }


class RandomSection(Section):
    name: Literal["random"]


@dataclass
class Random:
    """A fair draw among the gateways in reach."""

    params: RandomSection

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        return {device: int(rng.choice(topology.reach(device))) for device in topology.devices}
