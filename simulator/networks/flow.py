"""Transfers as fluid flows that share the topology's links and media, max-min fair.

A transfer's bytes leave from the moment it is sent, at a rate that changes whenever a competing
transfer starts or ends; the last byte arrives the path's latency after it has left. What devices
send each other goes through the gateways that they have talked with last, or over a link of their
own.

Left out: packets and their headers, acknowledgements, TCP's start-up and its bias against long
paths, collisions and rate adaptation of Wi-Fi, queues and what they drop.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from simulator.network import Completion
from simulator.networks.arrivals import LOST, SLACK_NS
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.routes import Route, Routes
from simulator.networks.sharing import Sharing
from simulator.units import SECOND, FlowId, NodeId, Time
from topologies import Tier, Topology


class FlowSection(NoisySection):
    """Fluid flows over the topology's links."""

    kind: Literal["flow"] = "flow"


class FlowNetwork:
    """Fluid flows that share the topology's links and media, max-min fair."""

    def __init__(self, topology: Topology, noise: Noise) -> None:
        self._routes = Routes(topology)
        self._noise = noise
        self._sharing = Sharing(self._routes.capacities)
        self._sent = 0
        self._lost: set[FlowId] = set()
        """Of those under way."""
        self._is_device = [node.tier is Tier.DEVICE for node in topology.nodes]
        self._home: dict[NodeId, NodeId] = {}
        """By device: the gateway that it has talked with last."""

    @classmethod
    def build(cls, section: FlowSection, topology: Topology, seed: int, base: Path) -> FlowNetwork:
        return cls(topology, Noise(section, seed))

    def send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        route = self._route(src, dst)
        if self._is_device[src] is not self._is_device[dst]:
            self._meet(src, dst)
        factor, lost = self._noise.draw() if self._noise.active else (1.0, False)
        flow = self._sent
        self._sent += 1
        if lost:
            self._lost.add(flow)
        self._sharing.send(now, flow, route, 8 * nbytes * SECOND * factor)
        return flow

    def advance(self, limit: Time) -> Completion | None:
        arrived = self._sharing.advance(limit)
        if arrived is None:
            return None
        time, flow = arrived
        if flow in self._lost:
            self._lost.remove(flow)
            return Completion(flow, time, LOST)
        return Completion(flow, time)

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        route = self._route(src, dst)
        return route.latency + math.ceil(8 * nbytes * SECOND / route.rate_bps - SLACK_NS)

    def close(self) -> None:
        pass

    def save(self) -> dict[str, object]:
        return {
            "sent": self._sent,
            "lost": sorted(self._lost),
            "sharing": self._sharing.save(),
            "noise": self._noise.save(),
            "home": [list(pair) for pair in self._home.items()],
        }

    def load(self, state: dict[str, Any]) -> None:
        self._sent = state["sent"]
        self._lost = set(state["lost"])
        self._sharing = Sharing(self._routes.capacities)
        self._sharing.load(state["sharing"], self._routes)
        self._noise.load(state["noise"])
        self._home = dict(state["home"])

    def _route(self, src: NodeId, dst: NodeId) -> Route:
        home, other = self._home.get(src), self._home.get(dst)
        if home is None or other is None or src == dst:
            return self._routes.find(src, dst)
        return self._routes.find(src, dst, (home, other))

    def _meet(self, src: NodeId, dst: NodeId) -> None:
        """A device and a node that is none."""
        if self._routes.has_link(src, dst):
            device, other = (src, dst) if self._is_device[src] else (dst, src)
            self._home[device] = other
