"""RFL-HA's re-clustering: devices of similar speed share a gateway.

Wang et al., *Resource-Efficient Federated Learning with Hierarchical Aggregation in Edge
Computing*, INFOCOM 2021: in a cluster that waits for its slowest member, members should be about
equally fast, so nodes that have become much slower or faster than their cluster are put into
another one. Its text is not at hand; this is the heuristic as Async-HFL describes it (Yu et al.,
IoTDI 2023, Section 6.3), with our reading of "re-clustering":

A device whose round latency is off its gateway's median by more than ``tolerance`` of that median
moves to the gateway in reach whose median is nearest to what its latency would be there. Medians
are those before the moves, and a gateway never loses its last device.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from selection.associators import Estimate, ReassociatorSection, first_association
from selection.ledger import Ledger
from simulator.kernel import Simulation
from simulator.units import NodeId
from topologies import Topology


class RflHaSection(ReassociatorSection):
    name: Literal["rfl-ha"]
    tolerance: float = Field(0.5, ge=0)
    """How far a device may be off its gateway's median latency, as a part of that."""


@dataclass
class RflHa:
    """Devices of similar speed share a gateway; assigned anew now and then (RFL-HA)."""

    params: RflHaSection
    uses_gradients: ClassVar[bool] = False

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        return first_association(self.params.first, topology, estimate, rng)

    def reassociate(self, sim: Simulation, ledger: Ledger) -> dict[NodeId, NodeId]:
        medians = {
            gateway: median(ledger.latency_s(sim, gateway, device) for device in members)
            for gateway in sim.topology.gateways
            if (members := sim.devices_of(gateway))
        }
        left = Counter(sim.association.values())
        moves = {}
        for device, gateway in sorted(sim.association.items()):
            off = abs(ledger.latency_s(sim, gateway, device) - medians[gateway])
            if off <= self.params.tolerance * medians[gateway] or left[gateway] == 1:
                continue
            choices = [g for g in sim.topology.reach(device) if g in medians]
            best = min(choices, key=lambda g: _gap(sim, ledger, device, g, medians[g]))
            if best != gateway:
                moves[device] = best
                left[gateway] -= 1
        return moves


def _gap(
    sim: Simulation, ledger: Ledger, device: NodeId, gateway: NodeId, typical_s: float
) -> tuple[float, NodeId]:
    return abs(ledger.latency_s(sim, gateway, device) - typical_s), gateway
