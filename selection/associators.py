"""Associators that need nothing but the topology and the network's estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from selection.groups import group
from selection.milp import Solver
from simulator.errors import UserError
from simulator.section import Section
from simulator.units import SECOND, NodeId, Time
from topologies import Topology

if TYPE_CHECKING:
    from selection.ledger import Ledger
    from simulator.kernel import Simulation

Estimate = Callable[[NodeId, NodeId], Time]
First = Literal["nearest", "random", "equal"]


class Associator(Protocol):
    """Which gateway each device belongs to at first. State, if any, lies in dataclass fields."""

    uses_gradients: ClassVar[bool]

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]: ...


class ReassociatorSection(Section):
    every_epochs: int = Field(10, ge=1)
    """Devices are assigned anew after every so many cloud epochs."""
    first: First = "random"
    """Who belongs where before that; equal: groups of equal size with the shortest uplinks."""


@runtime_checkable
class Reassociator(Associator, Protocol):
    """One that goes on looking."""

    params: ReassociatorSection

    def reassociate(self, sim: Simulation, ledger: Ledger) -> dict[NodeId, NodeId]:
        """By device the gateway it should have now; who is not named stays where it is."""
        ...


@runtime_checkable
class Questioner(Associator, Protocol):
    """One to whom devices tell something, each once."""

    def report_bytes(self, device: NodeId) -> int:
        """What the device has to tell still."""
        ...

    def learn(self, device: NodeId) -> None:
        """The device has told it."""
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


class SharesSection(Section):
    name: Literal["shares"]
    shares: tuple[PositiveFloat, ...] | None = Field(None, min_length=1)
    """Of all devices, one for each gateway in the topology's order; unset: equal ones."""
    together: Literal["in-turn", "by-delay", "nearest"] = "in-turn"
    """Gateways take devices in turn; or the fastest go to the first, the next to the second; or
    the shortest uplinks, with the sizes as far as reach allows."""
    solver: Solver = "auto"
    """Of nearest. auto: Gurobi where its licence allows the size, else HiGHS."""

    @model_validator(mode="after")
    def _solver_where_it_counts(self) -> Self:
        if self.solver != "auto" and self.together != "nearest":
            raise ValueError(
                f"solver = {self.solver!r} is for together = 'nearest'; delete one of them"
            )
        return self


@dataclass
class Shares:
    """Groups of given sizes: equal or unequal, mixed, of like delays, or near their gateways."""

    params: SharesSection
    uses_gradients: ClassVar[bool] = False

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        shares = self._shares(topology)
        if self.params.together == "nearest":
            return self._nearest(topology, estimate, shares)
        counts = divided(len(topology.devices), shares)
        sizes = dict(zip(topology.gateways, counts, strict=True))
        room, found = dict(sizes), {}
        for device in self._ordered(topology, estimate):
            open_ = [gateway for gateway in topology.reach(device) if room[gateway]]
            if not open_:
                raise UserError(
                    f"[association] shares: no room for {topology.nodes[device].name!r} at any "
                    f"gateway in its reach, with groups of {', '.join(map(str, sizes.values()))}; "
                    "use other shares, a larger topology.reach, together = 'nearest', or another "
                    "association"
                )
            found[device] = self._choose(sorted(open_), room, sizes)
            room[found[device]] -= 1
        return {device: found[device] for device in topology.devices}

    def _shares(self, topology: Topology) -> tuple[float, ...]:
        gateways = len(topology.gateways)
        shares = self.params.shares or (1.0,) * gateways
        if len(shares) != gateways:
            raise UserError(
                f"association.shares has {len(shares)} shares for {gateways} gateways; "
                "give one for each"
            )
        return shares

    def _nearest(
        self, topology: Topology, estimate: Estimate, shares: tuple[float, ...]
    ) -> dict[NodeId, NodeId]:
        gateways, devices = topology.gateways, topology.devices
        reachable, links_s = links_of(devices, gateways, topology.reach, estimate)
        alike = np.zeros((len(devices), 0))
        solver = self.params.solver
        found = group(alike, reachable, links_s, sizes=shares, solver=solver, gap=0.0)
        return {d: gateways[c] for d, c in zip(devices, found.gateways, strict=True)}

    def _ordered(self, topology: Topology, estimate: Estimate) -> list[NodeId]:
        """Who can go to few gateways chooses first, or who is fast."""
        if self.params.together == "in-turn":
            return sorted(topology.devices, key=lambda d: len(topology.reach(d)))
        fastest = {d: min(estimate(d, g) for g in topology.reach(d)) for d in topology.devices}
        return sorted(topology.devices, key=fastest.__getitem__)

    def _choose(
        self, gateways: list[NodeId], room: dict[NodeId, int], sizes: dict[NodeId, int]
    ) -> NodeId:
        if self.params.together == "by-delay":
            return gateways[0]
        return max(gateways, key=lambda gateway: room[gateway] / sizes[gateway])


def divided(count: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that are together ``count``; what is left goes to the largest remainders."""
    exact = [count * share / sum(shares) for share in shares]
    sizes = [int(number) for number in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: sizes[i] - exact[i])
    for i in by_remainder[: count - sum(sizes)]:
        sizes[i] += 1
    return sizes


def links_of(
    devices: Sequence[NodeId],
    gateways: Sequence[NodeId],
    reach: Callable[[NodeId], Sequence[NodeId]],
    estimate: Estimate,
) -> tuple[np.ndarray, np.ndarray]:
    """Devices x gateways: whether there is a link, and how long an uplink takes there."""
    reachable = np.zeros((len(devices), len(gateways)), dtype=bool)
    links_s = np.zeros(reachable.shape)
    for row, device in enumerate(devices):
        for gateway in reach(device):
            column = gateways.index(gateway)
            reachable[row, column] = True
            links_s[row, column] = estimate(device, gateway) / SECOND
    return reachable, links_s


def first_association(
    first: First, topology: Topology, estimate: Estimate, rng: np.random.Generator
) -> dict[NodeId, NodeId]:
    match first:
        case "nearest":
            return Nearest(NearestSection()).associate(topology, estimate, rng)
        case "random":
            return Random(RandomSection(name="random")).associate(topology, estimate, rng)
        case "equal":
            section = SharesSection(name="shares", together="nearest")
            return Shares(section).associate(topology, estimate, rng)
