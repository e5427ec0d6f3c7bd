"""Devices change their gateway: the cloud decides, the old gateway tells the device, it goes.

A decision travels from the cloud to the gateways that lose devices. A busy device is told when it
has come back to the gateway that asked it, and nobody asks it until it is there; a device whose
message is lost stays until the cloud decides again. One that was given up in the middle of its
training may go, and what it trains is lost.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.kernel import Simulation
from simulator.units import NodeId

_BYTES_PER_DEVICE = 8
"""Its number, and its gateway's."""


class Decision(NamedTuple):
    """Cloud to gateway."""

    moves: tuple[tuple[NodeId, NodeId], ...]
    """Device and new gateway."""


class Move(NamedTuple):
    """Gateway to device."""

    gateway: NodeId


@dataclass
class Migration:
    leaving: dict[NodeId, NodeId] = field(default_factory=dict)
    """By device, as its old gateway knows: where it is to go."""
    moving: dict[NodeId, None] = field(default_factory=dict)
    """Told to go, and not there yet."""

    def decide(self, sim: Simulation, moves: dict[NodeId, NodeId]) -> None:
        by_gateway = defaultdict(list)
        for device, target in sorted(moves.items()):
            by_gateway[sim.association[device]].append((device, target))
        for gateway, pairs in sorted(by_gateway.items()):
            nbytes = _BYTES_PER_DEVICE * len(pairs)
            message = Decision(tuple(pairs))
            sim.send(sim.topology.cloud, gateway, message, nbytes, overhead=True)

    def learn(self, sim: Simulation, gateway: NodeId, decision: Decision) -> None:
        """Of a device that has left since, or is about to, it is out of date."""
        for device, target in decision.moves:
            if sim.association[device] == gateway and device not in self.moving:
                self.leaving[device] = target

    def leaves(self, sim: Simulation, gateway: NodeId, device: NodeId) -> bool:
        """Whether the idle device is to go; then it is told now.

        Not while something that nobody waits for any more is on its way: radios finish that first.
        """
        if self.leaving.get(device, gateway) == gateway:
            self.leaving.pop(device, None)
            return False
        if sim.is_transferring(device):
            return False
        target = self.leaving.pop(device)
        self.moving[device] = None
        sim.send(gateway, device, Move(target), _BYTES_PER_DEVICE, overhead=True)
        return True

    def has_left(self, sim: Simulation, gateway: NodeId, device: NodeId) -> bool:
        """Or is about to: what it has trained for the gateway since does not reach it any more."""
        return device in self.moving or sim.association[device] != gateway

    def arrive(self, sim: Simulation, gateway: NodeId, device: NodeId) -> None:
        """At its new gateway; at its old one again, if it was never told."""
        del self.moving[device]
        sim.association[device] = gateway

    def staying(self, sim: Simulation, gateway: NodeId) -> list[NodeId]:
        """The gateway's devices, but for those that it has told to go."""
        return [device for device in sim.devices_of(gateway) if device not in self.moving]
