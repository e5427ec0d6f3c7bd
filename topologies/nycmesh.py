"""Made-up community networks with the published statistics of NYCMesh, and relatives of it.

A city of hubs and buildings is drawn first: a building stands some distance from a hub, or beside
another building. The most popular hubs become gateways, a random choice of the buildings devices.
A device reaches a gateway at distance d with probability 1 / (1 + exp((d - half e^(g/2)) / fade)),
g ~ N(0, 1) being the luck of its site; one that would reach none reaches the nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from simulator.errors import UserError
from topologies.geography import projection
from topologies.records import Link, Medium, Node, Radio, Tier
from topologies.styles import NYCMESH, Style
from topologies.topology import Topology

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

BACKHAUL_BPS = 1e9
ETHERNET_M = 500.0
"""Backhaul up to this far is Ethernet, beyond it fibre."""
BACKHAUL_S, WIFI_S = 0.002, 0.002
"""What a hop takes besides the way: switches, queues, medium access."""
FIBRE_M_PER_S = 2e8 / 1.5
"""Light in glass, along streets that are half as long again as the straight line."""
LIGHT_M_PER_S = 3e8
LIMITS_BPS = (80e3, 2048e3)
"""Of the applications of iot devices: 1.6 MB take 160 to 6 s."""
CHANNELS = {2.4: (1, 6, 11), 5.0: (36, 40, 44, 48, 149, 153, 157, 161, 165)}
"""That do not overlap, 20 MHz wide."""


def nycmesh(
    devices: int = 184,
    gateways: int = 6,
    *,
    rng: np.random.Generator,
    name: str = "nycmesh",
    style: Style = NYCMESH,
) -> Topology:
    """A cloud, gateways on fibre, and devices that reach some of the gateways by Wi-Fi."""
    if devices < 1 or gateways < 1:
        raise UserError(f"{devices} devices and {gateways} gateways; there must be one of each")
    hubs, buildings = city(style, devices, gateways, rng)
    places = np.vstack([[0.0, 0.0], hubs[:gateways], rng.permutation(buildings)[:devices]])
    reach = _reach(style, places[1 + gateways :], places[1 : 1 + gateways], rng)
    radios = _radios(style, places[1 : 1 + gateways], devices, rng)
    nodes = _nodes(style, places, gateways, radios[0], rng)
    media = tuple(Medium(f"g{j}-wifi", radios[0].channel_rate_bps) for j in range(gateways))
    links = [_backhaul(1 + j, float(np.hypot(*places[1 + j]))) for j in range(gateways)]
    for i, j in zip(*np.nonzero(reach), strict=True):
        ends = 1 + int(j), 1 + gateways + int(i)
        length_m = float(np.hypot(*(places[ends[0]] - places[ends[1]])))
        latency_s = round(WIFI_S + length_m / LIGHT_M_PER_S, 6)
        links.append(Link(*ends, media[j].rate_bps, latency_s, "wifi", media[j].name))
    return Topology(name, nodes, tuple(links), media, radios)


def city(
    style: Style, devices: int, gateways: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Hubs, the most popular first, and buildings: metres east and north of the middle."""
    count = max(devices, style.least_buildings)
    hubs = max(gateways, round(count * style.hubs_per_building))
    middles = _inside(style, hubs, lambda n: rng.normal(size=(n, 2)) * style.spread_m)
    big = len(style.popularity) or gateways
    if hubs >= big > 1:
        # The shape of the city must not hang on the luck of a few draws.
        few = middles[:big] - middles[:big].mean(axis=0)
        middles[:big] = few / few.std(axis=0, ddof=1) * style.spread_m
    tail = np.linspace(style.others, 1, max(0, hubs - len(style.popularity)))
    weights = np.concatenate([style.popularity, tail])[:hubs]
    weights /= weights.sum()

    def around_hubs(n: int) -> Floats:
        steps = _away(style.away_m, n, rng)
        near: Bools = np.hypot(steps[:, 0], steps[:, 1]) <= style.longest_m
        places: Floats = middles[rng.choice(hubs, n, p=weights)] + steps
        return places[near]

    def beside(n: int) -> Floats:
        at_hub = rng.random(n) < style.beside_hub
        origin = middles[rng.choice(hubs, n, p=weights)]
        origin[~at_hub] = rng.choice(alone, int((~at_hub).sum()))
        return origin + _away(style.beside_m, n, rng)

    alone = _inside(style, count - round(style.beside * count), around_hubs)
    return middles, np.vstack([alone, _inside(style, count - len(alone), beside)])


def _away(law: tuple[float, float], n: int, rng: np.random.Generator) -> Floats:
    """Steps of lognormal length (median, sigma) in any direction."""
    median_m, sigma = law
    length = median_m * np.exp(sigma * rng.standard_normal(n))
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([length * np.cos(angle), length * np.sin(angle)])


def _inside(style: Style, count: int, draw: Callable[[int], Floats]) -> Floats:
    """Draw until ``count`` places are inside the style's box."""
    places = np.empty((0, 2))
    to_degrees = projection(*style.middle)
    while len(places) < count:
        drawn = draw(count)
        east, north = to_degrees(drawn[:, 0], drawn[:, 1], inverse=True)
        good = (style.west < east) & (east < style.east)
        good &= (style.south < north) & (north < style.north)
        places = np.vstack([places, drawn[good]])
    return places[:count]


def _reach(style: Style, devices: Floats, gateways: Floats, rng: np.random.Generator) -> Bools:
    distance = np.linalg.norm(devices[:, None] - gateways, axis=2)
    half_m = style.half_m * np.exp(rng.standard_normal(len(devices)) / 2)
    odds = 1 / (1 + np.exp((distance - half_m[:, None]) / style.fade_m))
    reach: Bools = (rng.random(odds.shape) < odds) & (distance <= style.longest_m)
    alone = ~reach.any(axis=1)
    reach[alone, distance[alone].argmin(axis=1)] = True
    return reach


def _radios(
    style: Style, gateways: Floats, devices: int, rng: np.random.Generator
) -> tuple[Radio, ...]:
    low, high = np.log(LIMITS_BPS)
    limits = np.round(np.exp(rng.uniform(low, high, devices)), -3).tolist()
    paced = {"iot": {f"d{i}": limit for i, limit in enumerate(limits)}}
    radios = []
    for radio in style.radios:
        channels = spread_channels(gateways, CHANNELS[radio.band_ghz])
        by_name = {f"g{j}": channel for j, channel in enumerate(channels)}
        limits_of = paced.get(radio.name, {})
        radios.append(replace(radio, channels=by_name, rate_limits_bps=limits_of))
    return tuple(radios)


def spread_channels(gateways: Floats, allowed: tuple[int, ...]) -> list[int]:
    """To each gateway in turn the channel whose nearest user is farthest away."""
    given: list[int] = []
    for place in gateways:
        distance = np.linalg.norm(gateways[: len(given)] - place, axis=1)
        free_m = [min(distance[np.array(given) == c], default=np.inf) for c in allowed]
        given.append(allowed[int(np.argmax(free_m))])
    return given


def _nodes(
    style: Style, places: Floats, gateways: int, radio: Radio, rng: np.random.Generator
) -> tuple[Node, ...]:
    devices = len(places) - 1 - gateways
    median_m, sigma = style.altitude_m
    altitude = np.concatenate([
        [style.ground_m + 10],
        rng.uniform(*style.gateway_altitude_m, gateways),
        median_m * np.exp(sigma * rng.standard_normal(devices)),
    ])  # fmt: skip
    altitude = np.round(np.maximum(altitude, style.ground_m + style.lowest_m), 1)
    height = np.round(altitude - style.ground_m, 1)
    east, north = projection(*style.middle)(places[:, 0], places[:, 1], inverse=True)
    columns = np.column_stack([np.round(north, 6), np.round(east, 6), height, altitude]).tolist()
    names = ["cloud", *(f"g{j}" for j in range(gateways)), *(f"d{i}" for i in range(devices))]
    tiers = [Tier.CLOUD, *[Tier.GATEWAY] * gateways, *[Tier.DEVICE] * devices]
    return tuple(
        Node(name, tier, lat, lon, height_m, altitude_m, channel=radio.channels.get(name))
        for name, tier, (lat, lon, height_m, altitude_m) in zip(names, tiers, columns, strict=True)
    )


def _backhaul(gateway: int, length_m: float) -> Link:
    kind: Literal["ethernet", "fibre"] = "ethernet" if length_m <= ETHERNET_M else "fibre"
    latency_s = round(BACKHAUL_S + length_m / FIBRE_M_PER_S, 6)
    return Link(0, gateway, BACKHAUL_BPS, latency_s, kind)
