"""Topologies made by a rule and a seed."""

from __future__ import annotations

import math

import numpy as np

from simulator.errors import UserError
from topologies.records import Link, Medium, Node, Tier
from topologies.topology import Topology

Bounds = tuple[float, float]


def tree(
    gateways: int,
    devices: int,
    *,
    device_rate_bps: float | Bounds,
    gateway_rate_bps: float | Bounds,
    backhaul_rate_bps: float | Bounds,
    device_latency_s: float,
    backhaul_latency_s: float,
    reach: int | tuple[int, int],
    rng: np.random.Generator,
    name: str = "tree",
) -> Topology:
    """A cloud, its gateways over Ethernet, their devices over one Wi-Fi channel a gateway.

    A rate given as (low, high) is drawn log-uniform between them, one per device, gateway (its
    channel) or backhaul link; a ``reach`` given so is uniform. Device i's first gateway is
    i % gateways, any further ones are drawn.
    """
    least, most = reach if isinstance(reach, tuple) else (reach, reach)
    if not 1 <= least <= most <= gateways:
        raise UserError(f"reach is {reach}; it must be within 1 and {gateways}, the gateways")
    nodes = [Node("cloud", Tier.CLOUD)]
    nodes += [Node(f"g{j}", Tier.GATEWAY) for j in range(gateways)]
    nodes += [Node(f"d{i}", Tier.DEVICE) for i in range(devices)]
    backhaul = _draw(backhaul_rate_bps, gateways, rng)
    links = [Link(0, 1 + j, backhaul[j], backhaul_latency_s) for j in range(gateways)]
    channel = _draw(gateway_rate_bps, gateways, rng)
    media = tuple(Medium(f"g{j}-wifi", channel[j]) for j in range(gateways))
    rate = _draw(device_rate_bps, devices, rng)
    counts = rng.integers(least, most, size=devices, endpoint=True)
    for i in range(devices):
        home = i % gateways
        # Drawn as steps from home, so that home itself cannot be drawn again.
        steps = 1 + rng.choice(gateways - 1, counts[i] - 1, replace=False) if counts[i] > 1 else []
        for j in (home, *((home + int(step)) % gateways for step in steps)):
            device = 1 + gateways + i
            links.append(Link(1 + j, device, rate[i], device_latency_s, "wifi", media[j].name))
    return Topology(name, tuple(nodes), tuple(links), media)


def _draw(rate_bps: float | Bounds, count: int, rng: np.random.Generator) -> list[float]:
    if not isinstance(rate_bps, tuple):
        return [float(rate_bps)] * count
    low, high = rate_bps
    drawn: list[float] = np.exp(rng.uniform(math.log(low), math.log(high), size=count)).tolist()
    return drawn
