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
from simulator.networks.arrivals import Arrivals
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.routes import Route, Routes
from simulator.networks.sharing import SLACK_NS, Sharing, Transfer
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
        self._arrivals = Arrivals()
        self._sent = 0
        self._now: Time = 0
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
        if now > self._now:
            while self._end_next(now):
                pass
            self._now = now
        factor, lost = self._noise.draw() if self._noise.active else (1.0, False)
        flow = self._sent
        self._sent += 1
        if nbytes == 0:
            self._arrivals.push(now + route.latency, flow, lost)
        else:
            left = 8 * nbytes * SECOND * factor
            self._sharing.start(now, Transfer(flow, route, lost), left)
        return flow

    def advance(self, limit: Time) -> Completion | None:
        while self._end_next(self._arrivals.first(limit)):
            pass
        completion = self._arrivals.pop(limit)
        self._now = max(self._now, limit if completion is None else completion.time)
        return completion

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        route = self._route(src, dst)
        return route.latency + math.ceil(8 * nbytes * SECOND / route.rate_bps - SLACK_NS)

    def close(self) -> None:
        pass

    def save(self) -> dict[str, object]:
        return {
            "now": self._now,
            "sent": self._sent,
            "sharing": self._sharing.save(),
            "arrivals": self._arrivals.save(),
            "noise": self._noise.save(),
            "home": [list(pair) for pair in self._home.items()],
        }

    def load(self, state: dict[str, Any]) -> None:
        self._now = state["now"]
        self._sent = state["sent"]
        self._sharing = Sharing(self._routes.capacities)
        self._sharing.load(state["sharing"], self._routes)
        self._arrivals.load(state["arrivals"])
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

    def _end_next(self, limit: Time) -> bool:
        """Let the next transfer leave whose last byte leaves at or before ``limit``, if any."""
        if limit > self._now:
            # Not earlier, so that all that happens at one instant is shared out once.
            self._sharing.settle()
        end = self._sharing.next_end()
        if end is None or end > limit:
            return False
        for transfer in self._sharing.end_next():
            self._arrivals.push(end + transfer.route.latency, transfer.flow, transfer.lost)
        self._now = end
        return True
