"""Transfers timed by what ns-3 has measured on this very network.

A profile (``meshfl network profile``) knows how long every link takes alone, each way, for a few
sizes, and how transfers share a channel. At run time a transfer's time follows from its size, its
link and who else is on the air, times a log-normal noise.

Left out: what queues and windows remember longer than a transfer, and losses, unless
``loss_probability`` says so. A transfer over several hops takes the time of its slowest channel,
plus the latencies of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from simulator.errors import UserError
from simulator.network import Completion
from simulator.networks.arrivals import LOST, SLACK_NS
from simulator.networks.cells import Channels, Contention, Link
from simulator.networks.noise import Noise
from simulator.units import SECOND, FlowId, NodeId, Time, to_ns
from topologies import Tier, Topology

Pair = tuple[NodeId, NodeId]
WINDOWS = (14_480, 43_440, 101_360)
"""Bytes after which TCP, while its pipe is not full, waits: 10, 30, 70 segments."""
WIRE = Contention(
    access_point=1.0,
    rate_fairness=1.0,
    uplink=1.0,
    downlink_cost=0.0,
    uplink_cost=0.0,
    round_trip_s=1e-6,
    downlink_queue_s=0.0,
    uplink_queue_s=0.0,
    window_growth=2.0,
)
"""A wire is shared equally, and grows as fast as one can look."""


@dataclass(frozen=True)
class Profile:
    """What was measured. Pairs are directed: device and gateway, gateway and cloud."""

    sizes: tuple[int, ...]
    """In bytes, ascending."""
    alone_s: dict[Pair, tuple[float, ...]]
    """By pair: how long each size takes alone."""
    channels: dict[NodeId, int]
    """By gateway: which contend with each other have the same number."""
    contention: Contention
    association_s: float
    """What a device's first transfer with a gateway takes longer."""
    noise_sigma: float
    """Log-normal, of repeated lone transfers of the largest size."""

    def seconds(self, pair: Pair, nbytes: int) -> float:
        """Alone; straight lines through the measured sizes, but for the steps of TCP's start."""
        sizes, times = self.sizes, self.alone_s[pair]
        right = next((i for i, size in enumerate(sizes) if i and nbytes <= size), len(sizes) - 1)
        left = right - 1
        rise, run = times[right] - times[left], sizes[right] - sizes[left]
        per_byte = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
        steps = [window for window in WINDOWS if sizes[left] < window < sizes[right]]
        if len(steps) == 1 and rise > per_byte * run and sizes[left] < nbytes:
            base = left if nbytes <= steps[0] else right
            return times[base] + per_byte * (nbytes - sizes[base])
        return max(times[left] + rise / run * (nbytes - sizes[left]), self.latency_s(pair))

    def latency_s(self, pair: Pair) -> float:
        """Of nothing at all: what the line through the two smallest sizes leaves, or a tenth."""
        (a, b), (s, t) = self.sizes[:2], self.alone_s[pair][:2]
        return max(s - (t - s) / (b - a) * a, s / 10)


class Leg(NamedTuple):
    """One hop: on which channel, and between whom."""

    channel: int
    pair: Pair
    link: Link


class Way(NamedTuple):
    """All that a transfer needs to know of its legs, where it shares the slowest channel."""

    channel: int
    link: Link
    work: float
    """In ns, alone."""
    latency: Time
    """Of the other channels."""
    pace: float
    associations: tuple[Pair, ...]
    """Device and gateway of each leg through the air."""


class ProfileNetwork:
    """Times measured by ns-3 beforehand, shared as ns-3 shares them."""

    def __init__(self, topology: Topology, profile: Profile, noise: Noise) -> None:
        self._topology = topology
        self._profile = profile
        self._noise = noise
        self._wires = {g: len(topology.nodes) + 2 * g for g in topology.gateways}
        """The channel towards the cloud; the next one is the way back."""
        self._gateway: dict[NodeId, NodeId] = {}
        """Of the devices that have associated."""
        wires = {wire + way: WIRE for wire in self._wires.values() for way in range(2)}
        air = dict.fromkeys(profile.channels.values(), profile.contention)
        self._channels = Channels(air | wires)
        self._lost: set[FlowId] = set()
        """Of those under way."""
        self._ways: dict[tuple[NodeId | None, ...], Way] = {}
        self._sent = 0

    def send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        way = self._way(src, dst, nbytes)
        flow = self._sent
        self._sent += 1
        factor, lost = self._noise.draw()
        work = way.work * factor
        if lost:
            self._lost.add(flow)
        begin = now + self._associate(way.associations)
        slope = work / max(nbytes, 1)
        self._channels.send(way.channel, begin, flow, way.link, work, slope, way.pace, way.latency)
        return flow

    def advance(self, limit: Time) -> Completion | None:
        arrived = self._channels.advance(limit)
        if arrived is None:
            return None
        time, flow = arrived
        if flow in self._lost:
            self._lost.remove(flow)
            return Completion(flow, time, LOST)
        return Completion(flow, time)

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        way = self._way(src, dst, nbytes)
        return way.latency + math.ceil(max(way.work, nbytes / way.pace) - SLACK_NS)

    def close(self) -> None:
        pass

    def save(self) -> dict[str, object]:
        return {
            "sent": self._sent,
            "gateway": [list(pair) for pair in self._gateway.items()],
            "lost": sorted(self._lost),
            **self._channels.save(),
            "noise": self._noise.save(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._sent = state["sent"]
        self._gateway = dict(state["gateway"])
        self._lost = set(state["lost"])
        self._channels.load(state)
        self._noise.load(state["noise"])

    def _way(self, src: NodeId, dst: NodeId, nbytes: int) -> Way:
        """A device is always found at the gateway that it has last associated with."""
        key = src, dst, nbytes, self._gateway.get(src), self._gateway.get(dst)
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = self._find_way(list(self._legs(src, dst)), nbytes)
        return way

    def _find_way(self, legs: list[Leg], nbytes: int) -> Way:
        channel, work, latency = self._slowest(legs, nbytes)
        link = next(leg.link for leg in legs if leg.channel == channel)
        nodes = len(self._topology.nodes)
        if channel >= nodes and len(legs) > 1:
            link = link._replace(device=legs[0].link.device)  # a pace is a device's, not a wire's
        pace = min(self._pace_of(leg.link.device) for leg in legs)
        air = (leg.link for leg in legs if leg.channel < nodes)
        associations = tuple((link.device, link.access_point) for link in air)
        return Way(channel, link, work, latency, pace, associations)

    def _slowest(self, legs: list[Leg], nbytes: int) -> tuple[int, float, Time]:
        """The channel with the most work, that work in ns, and the latency of all others."""
        work: dict[int, float] = {}
        for leg in legs:
            seconds = self._profile.seconds(leg.pair, nbytes)
            work[leg.channel] = work.get(leg.channel, 0.0) + seconds * SECOND
        channel = max(work, key=lambda c: work[c])
        others = [leg.pair for leg in legs if leg.channel != channel]
        return channel, work[channel], to_ns(sum(map(self._profile.latency_s, others)))

    def _legs(self, src: NodeId, dst: NodeId) -> Iterator[Leg]:
        """From device or gateway up to the cloud or the place where the ways meet, and down."""
        up = self._ascent(src, dst)
        down = self._ascent(dst, src)
        shared = next((node for node in up if node in down), None)
        if src == dst or shared is None:
            names = [self._topology.nodes[node].name for node in (src, dst)]
            raise UserError(
                f"no way from {names[0]!r} to {names[1]!r}; send between nodes that have a link"
            )
        rising = [*up[: up.index(shared)], shared]
        falling = [*down[: down.index(shared)], shared]
        for low, high in pairwise(rising):
            yield self._leg(low, high, True)
        for low, high in reversed(list(pairwise(falling))):
            yield self._leg(low, high, False)

    def _ascent(self, node: NodeId, towards: NodeId) -> list[NodeId]:
        """The node and what is above it; a device is with the gateway that it talks to."""
        topology = self._topology
        tier = topology.nodes[node].tier
        if tier is Tier.CLOUD:
            return [node]
        if tier is Tier.GATEWAY:
            return [node, topology.cloud]
        reach = topology.reach(node)
        if towards in topology.gateways:
            gateway = towards if towards in reach else -1
        else:
            gateway = self._gateway.get(node, reach[0])
        return [node] if gateway < 0 else [node, gateway, topology.cloud]

    def _leg(self, low: NodeId, high: NodeId, up: bool) -> Leg:
        pair = (low, high) if up else (high, low)
        if high == self._topology.cloud:
            return Leg(self._wires[low] + (not up), pair, Link(high, low, False))
        return Leg(self._profile.channels[high], pair, Link(high, low, up))

    def _associate(self, associations: tuple[Pair, ...]) -> Time:
        """A device that was elsewhere, or nowhere, associates first."""
        wait = 0
        for device, gateway in associations:
            if self._gateway.get(device) != gateway:
                self._gateway[device] = gateway
                wait = to_ns(self._profile.association_s)
        return wait

    def _pace_of(self, node: NodeId) -> float:
        limit = None
        if self._topology.nodes[node].tier is Tier.DEVICE:
            limit = self._topology.rate_limit_bps(node)
        return math.inf if limit is None else limit / 8 / SECOND
