"""Associators that need nothing but the topology and the network's estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from simulator.section import Section
from simulator.units import NodeId, Time
from topologies import Topology

if TYPE_CHECKING:
    from selection.ledger import Ledger
    from simulator.kernel import Simulation

Estimate = Callable[[NodeId, NodeId], Time]


class Associator(Protocol):
    """Which gateway each device belongs to at first. State, if any, lies in dataclass fields."""

    uses_gradients: ClassVar[bool]

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]: ...


class ReassociatorSection(Section):
    every_epochs: int = Field(10, ge=1)
    """Devices are assigned anew after every so many cloud epochs."""
    first: Literal["nearest", "random"] = "random"
    """Who belongs where before that."""


@runtime_checkable
class Reassociator(Associator, Protocol):
    """One that goes on looking."""

    params: ReassociatorSection

    def reassociate(self, sim: Simulation, ledger: Ledger) -> dict[NodeId, NodeId]:
        """By device the gateway it should have now; who is not named stays where it is."""
        ...


class NearestSection(Section):
    name: Literal["nearest"] = "nearest"


@dataclass
class Nearest:
    """The gateway with the shortest estimated uplink; among equals the first."""

    params: NearestSection
    uses_gradients: ClassVar[bool] = False

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
    uses_gradients: ClassVar[bool] = False

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        return {device: int(rng.choice(topology.reach(device))) for device in topology.devices}


def first_association(
    first: Literal["nearest", "random"],
    topology: Topology,
    estimate: Estimate,
    rng: np.random.Generator,
) -> dict[NodeId, NodeId]:
    if first == "nearest":
        return Nearest(NearestSection()).associate(topology, estimate, rng)
    return Random(RandomSection(name="random")).associate(topology, estimate, rng)
