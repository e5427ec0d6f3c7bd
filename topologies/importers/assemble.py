"""From places and lines on a map to a topology.

Gateways are the sites marked so, or the ``gateways`` sites with the most lines. A device reaches
the gateways that it has a line to, that have a sector over it, or that are within ``reach_m``.
What lines cannot say is assumed and reported: rates, latencies, missing heights, the way to the
cloud.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from simulator.errors import UserError
from topologies.geography import middle, projection
from topologies.importers.report import ImportReport
from topologies.nycmesh import (
    BACKHAUL_BPS,
    CHANNELS,
    FIBRE_M_PER_S,
    LIGHT_M_PER_S,
    WIFI_S,
    Floats,
    spread_channels,
)
from topologies.records import Building, Link, Medium, Node, Tier
from topologies.styles import DIRECTIONAL
from topologies.topology import Topology

CLOUD_S = 0.005
"""From a gateway to a cloud that is not on the map."""
WIDEST_M = 5e6
"""A map that is wider holds a slip of the pen."""
HIGHEST_M = 10_000.0
"""Above the ground; beyond it are no antennas."""
BRIDGE_BPS = 200e6
"""Of a radio line between two gateways, which is a channel of its own."""

Kind = Literal["ethernet", "fibre", "wifi"]


@dataclass(frozen=True)
class Site:
    name: str
    latitude: float
    longitude: float
    altitude_m: float | None = None
    height_m: float | None = None
    tier: Tier | None = None
    """None: a gateway if it is among those with the most lines, else a device."""


@dataclass(frozen=True)
class Line:
    a: str
    b: str
    kind: Kind = "wifi"


@dataclass(frozen=True)
class Sector:
    """What an antenna covers."""

    site: str
    radius_m: float
    azimuth_deg: float
    width_deg: float


@dataclass(frozen=True)
class Choice:
    """What the one who imports decides."""

    gateways: int | None = None
    """This many sites with the most lines, instead of those marked in the file."""
    reach_m: float | None = None
    """Gateways within this distance are in reach, besides those with a line or a sector."""
    height_m: float = 10.0
    """Above the ground, of nodes with neither height nor altitude."""

    def __post_init__(self) -> None:
        if not 0 <= self.height_m <= HIGHEST_M:  # nan neither
            raise UserError(
                f"--height-m {self.height_m:g}: it must be 0 to {HIGHEST_M:g} m above the ground"
            )


@dataclass
class Map:
    sites: dict[str, Site]
    lines: list[Line]
    sectors: list[Sector]
    buildings: list[Building]
    gateway_mark: str = ""
    """What in the file makes a site a gateway."""


def assemble(name: str, found: Map, choice: Choice, report: ImportReport) -> Topology:
    tiers = _tiers(found, choice)
    sites = sorted(found.sites.values(), key=lambda s: list(Tier).index(tiers[s.name]))
    places = _places(sites)
    joined = _joined(found, tiers, choice, places, report)
    sites = [s for s in sites if tiers[s.name] is not Tier.DEVICE or s.name in joined]
    report.kept["nodes"] = len(sites)
    if not joined:
        raise UserError("no device reaches a gateway; choose more --gateways or a --reach-m")
    gateways = [s.name for s in sites if tiers[s.name] is Tier.GATEWAY]
    channels = spread_channels(np.array([places[g] for g in gateways]), CHANNELS[5.0])
    radio = replace(DIRECTIONAL[0], channels=dict(zip(gateways, channels, strict=True)))
    media = {g: Medium(f"{g}-wifi", radio.channel_rate_bps) for g in gateways}
    nodes = [_node(s, tiers[s.name], radio.channels, choice, report) for s in sites]
    if Tier.CLOUD not in tiers.values():
        free = "cloud"
        while free in found.sites:
            free = f"the {free}"
        nodes.insert(0, Node(free, Tier.CLOUD))
        report.assume("a cloud, as no site is marked so", free)
    ids = {node.name: i for i, node in enumerate(nodes)}
    links = [_link(line, ids, media, places) for line in _wires(found, tiers, report)]
    links += [
        _link(Line(gateway, device, kind), ids, media, places)
        for device, reach in joined.items()
        for gateway, kind in reach.items()
    ]
    links += _to_cloud(nodes, links, report)
    report.assume(
        f"rates: Wi-Fi {radio.channel_rate_bps / 1e6:g} Mbit/s a gateway, wires "
        f"{BACKHAUL_BPS / 1e9:g} Gbit/s, bridges {BRIDGE_BPS / 1e6:g} Mbit/s",
        "all links",
    )
    report.kept["buildings"] = len(found.buildings)
    return Topology(
        name, tuple(nodes), tuple(links), tuple(media.values()), (radio,), tuple(found.buildings)
    )


def _tiers(found: Map, choice: Choice) -> dict[str, Tier]:
    clouds = [s.name for s in found.sites.values() if s.tier is Tier.CLOUD]
    if len(clouds) > 1:
        raise UserError(f"{len(clouds)} sites are marked as cloud {clouds[:3]}; it must be one")
    tiers = {s.name: s.tier or Tier.DEVICE for s in found.sites.values()}
    if choice.gateways is not None:
        pairs = {frozenset((line.a, line.b)) for line in found.lines if line.a != line.b}
        degree = Counter(end for pair in pairs for end in pair)
        candidates = [name for name in tiers if name not in clouds]
        biggest = sorted(candidates, key=lambda name: -degree[name])[: choice.gateways]
        tiers |= dict.fromkeys(candidates, Tier.DEVICE) | dict.fromkeys(biggest, Tier.GATEWAY)
    if Tier.GATEWAY not in tiers.values():
        mark = f" ({found.gateway_mark})" if found.gateway_mark else ""
        raise UserError(
            f"no site is marked as a gateway{mark}; mark some, or choose some with --gateways N"
        )
    if Tier.DEVICE not in tiers.values():
        raise UserError("all sites are gateways, none is left as a device; choose less --gateways")
    return tiers


def _places(sites: list[Site]) -> dict[str, tuple[float, float]]:
    project = projection(*middle([s.latitude for s in sites], [s.longitude for s in sites]))
    places = {s.name: project(s.longitude, s.latitude) for s in sites}
    for name, place in places.items():
        if not np.hypot(*place) < WIDEST_M:
            raise UserError(
                f"site {name!r} is {np.hypot(*place) / 1000:,.0f} km from the middle of the map; "
                f"up to {WIDEST_M / 1000:,.0f} km can be: remove what lies far off"
            )
    return places


Joined = dict[str, dict[str, Kind]]
"""By device, the gateways that it reaches and how."""


def _joined(
    found: Map,
    tiers: dict[str, Tier],
    choice: Choice,
    places: dict[str, tuple[float, float]],
    report: ImportReport,
) -> Joined:
    gateways = {name: places[name] for name, tier in tiers.items() if tier is Tier.GATEWAY}
    lines: dict[str, dict[str, Kind]] = {n: {} for n, t in tiers.items() if t is Tier.DEVICE}
    for line in found.lines:
        for a, b in ((line.a, line.b), (line.b, line.a)):
            if a in lines and b in gateways:
                lines[a].setdefault(b, line.kind)
    report.kept["sectors"] = sum(sector.site in gateways for sector in found.sectors)
    for sector in found.sectors:
        if sector.site not in gateways:
            report.drop("sectors", "not at a gateway", sector)
    for device, reach in lines.items():
        for gateway in _covering(np.array(places[device]), found.sectors, gateways, choice):
            reach.setdefault(gateway, "wifi")
        if not reach:
            report.drop("nodes", "reaches no gateway", device)
    return {device: reach for device, reach in lines.items() if reach}


def _covering(
    place: Floats,
    sectors: list[Sector],
    gateways: dict[str, tuple[float, float]],
    choice: Choice,
) -> Iterator[str]:
    if choice.reach_m is not None:
        for gateway, at in gateways.items():
            if np.hypot(*(place - at)) <= choice.reach_m:
                yield gateway
    for sector in sectors:
        if sector.site in gateways:
            east, north = place - gateways[sector.site]
            off = (np.degrees(np.arctan2(east, north)) - sector.azimuth_deg + 180) % 360 - 180
            if np.hypot(east, north) <= sector.radius_m and abs(off) <= sector.width_deg / 2:
                yield sector.site


def _node(
    site: Site, tier: Tier, channels: dict[str, int], choice: Choice, report: ImportReport
) -> Node:
    height_m = site.height_m
    if height_m is None and site.altitude_m is None:
        height_m = choice.height_m
        report.assume(f"a height of {height_m:g} m above the ground", site.name)
    return Node(
        site.name, tier, site.latitude, site.longitude, height_m, site.altitude_m,
        channel=channels.get(site.name),
    )  # fmt: skip


def _wires(found: Map, tiers: dict[str, Tier], report: ImportReport) -> Iterator[Line]:
    """The lines between gateways and cloud, once each; the rest is counted."""
    seen: set[frozenset[str]] = set()
    for line in found.lines:
        ends = frozenset((line.a, line.b))
        of_devices = [tiers[end] for end in ends].count(Tier.DEVICE)
        if len(ends) == 1:
            report.drop("links", "joins a site to itself", line)
        elif ends in seen:
            report.drop("links", "joins the same sites as another", line)
        elif of_devices == 2:
            report.drop("links", "joins two devices", line)
        elif of_devices == 1 and Tier.CLOUD in (tiers[line.a], tiers[line.b]):
            report.drop("links", "joins a device to the cloud", line)
        else:
            seen.add(ends)
            report.kept["links"] += 1
            if of_devices == 0:
                yield line


def _link(
    line: Line,
    ids: dict[str, int],
    media: dict[str, Medium],
    places: dict[str, tuple[float, float]],
) -> Link:
    a, b = ids[line.a], ids[line.b]
    length_m = float(np.hypot(*np.subtract(places[line.a], places[line.b])))
    shared = media.get(line.a) if line.b not in media else None
    if line.kind != "wifi":
        return Link(a, b, BACKHAUL_BPS, round(length_m / FIBRE_M_PER_S + 1e-4, 6), line.kind)
    latency_s = round(WIFI_S + length_m / LIGHT_M_PER_S, 6)
    if shared is None:
        return Link(a, b, BRIDGE_BPS, latency_s, "wifi")
    return Link(a, b, shared.rate_bps, latency_s, "wifi", shared.name)


def _to_cloud(nodes: list[Node], links: list[Link], report: ImportReport) -> list[Link]:
    """For each gateway that no line joins to the cloud, directly or by other gateways."""
    cloud = next(i for i, node in enumerate(nodes) if node.tier is Tier.CLOUD)
    near: dict[int, list[int]] = {i: [] for i, n in enumerate(nodes) if n.tier is not Tier.DEVICE}
    for link in links:
        if link.a in near and link.b in near:
            near[link.a].append(link.b)
            near[link.b].append(link.a)
    joined = [cloud]
    for node in joined:
        joined += [other for other in near[node] if other not in joined]
    alone = [i for i in near if i not in joined]
    for gateway in alone:
        report.assume(f"backhaul to the cloud, {CLOUD_S * 1e3:g} ms", nodes[gateway].name)
    return [Link(cloud, gateway, BACKHAUL_BPS, CLOUD_S) for gateway in alone]
