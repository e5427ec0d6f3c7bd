"""A wired network in node-link json (topohub, Topology Zoo, networkx) as backhaul.

The node with the most edges (of several the first) becomes the cloud, all others gateways, edges
fibre of 1 Gbit/s whose latency follows from ``dist`` (km) or from the places, ``pos`` being
[longitude, latitude]. Such files know no devices: these are drawn around the gateways, each in
reach of one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyproj

from simulator.errors import UserError
from topologies.geography import projection
from topologies.importers.report import ImportReport
from topologies.importers.values import degrees, number, read_json, text
from topologies.nycmesh import BACKHAUL_BPS, CHANNELS, FIBRE_M_PER_S, WIFI_S, spread_channels
from topologies.records import Link, Medium, Node, Tier
from topologies.styles import DIRECTIONAL, NYCMESH
from topologies.topology import Topology

HOP_S = 1e-4
LONGEST_KM = 40_000
"""Once around the Earth: no cable is longer."""
ROUTER_M, DEVICE_M = 30.0, 10.0
"""Heights above the ground, of which the files say nothing."""

Place = tuple[float, float] | None


def import_node_link(
    path: Path, devices: int, rng: np.random.Generator
) -> tuple[Topology, ImportReport]:
    raw = read_json(path)
    rows = raw.get("nodes") if isinstance(raw, dict) else None
    edges = raw.get("edges", raw.get("links")) if isinstance(raw, dict) else None
    if not isinstance(rows, list) or not isinstance(edges, list):
        raise UserError(f"{path}: no lists 'nodes' and 'edges' (or 'links'); not node-link json")
    report = ImportReport()
    routers = _routers(rows, report)
    lengths = _lengths(edges, routers, report)
    try:
        cloud, gateways = _tiers(routers, lengths, report)
        if devices < len(gateways):
            raise UserError(f"{devices} --devices for {len(gateways)} gateways; give each one")
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return _build(path.stem, routers, lengths, [cloud, *gateways], devices, rng, report), report


def _routers(rows: list[object], report: ImportReport) -> dict[str, tuple[str, Place]]:
    """By id, a name of its own and a place."""
    routers: dict[str, tuple[str, Place]] = {}
    names: set[str] = set()
    planar = any(_is_planar(row) for row in rows)
    for row in rows:
        key = text(row.get("id")) if isinstance(row, dict) else None
        if key is None or not isinstance(row, dict):
            report.drop("nodes", "no usable id", row)
        elif key in routers:
            report.drop("nodes", "id taken by another", row)
        else:
            where = None if planar else degrees(row.get("pos"))
            if where is None:
                report.assume("no place, as pos is no longitude and latitude", row)
            name = text(row.get("name")) or key
            while name in names:
                name = f"{name} ({key})"
            names.add(name)
            routers[key] = name, where[:2] if where else None
    return routers


def _is_planar(row: object) -> bool:
    """Whether ``pos`` is a pair of numbers that cannot be degrees: then no pos of the file is."""
    pos = row.get("pos") if isinstance(row, dict) else None
    if not isinstance(pos, list) or len(pos) < 2 or None in map(number, pos[:2]):
        return False
    return degrees(pos) is None


def _lengths(
    edges: list[object], routers: dict[str, tuple[str, Place]], report: ImportReport
) -> dict[tuple[str, str], float]:
    """In metres, by ends."""
    lengths: dict[tuple[str, str], float] = {}
    for row in edges:
        ends = [text(row.get(k)) for k in ("source", "target")] if isinstance(row, dict) else []
        a, b = ends or (None, None)
        if a not in routers or b not in routers or not isinstance(row, dict):
            report.drop("links", "an end is unknown", row)
            continue
        length_m = _length(number(row.get("dist")), routers[a][1], routers[b][1])
        if a == b:
            report.drop("links", "joins a node to itself", row)
        elif (a, b) in lengths or (b, a) in lengths:
            report.drop("links", "joins the same nodes as another", row)
        elif length_m is None:
            report.drop("links", "no usable dist, and an end has no place", row)
        else:
            lengths[a, b] = length_m
    return lengths


def _length(dist_km: float | None, a: Place, b: Place) -> float | None:
    if dist_km is not None and 0 <= dist_km <= LONGEST_KM:
        return dist_km * 1000
    if a is None or b is None:
        return None
    return float(pyproj.Geod(ellps="WGS84").inv(*a, *b)[2])


def _tiers(
    routers: dict[str, tuple[str, Place]],
    lengths: dict[tuple[str, str], float],
    report: ImportReport,
) -> tuple[str, list[str]]:
    """The cloud, and the gateways that have a path to it."""
    degree = Counter(end for ends in lengths for end in ends)
    if not degree:
        raise UserError("no edge joins two nodes, so there is no backhaul")
    cloud = max(routers, key=lambda key: degree[key])
    joined = [cloud]
    for node in joined:
        for a, b in lengths:
            other = b if a == node else a
            if node in (a, b) and other not in joined:
                joined.append(other)
    for key in routers:
        if key not in joined:
            report.drop("nodes", "no path to the cloud", routers[key][0])
    for ends in [ends for ends in lengths if ends[0] not in joined]:
        del lengths[ends]
        report.drop("links", "no path to the cloud", ends)
    return cloud, [key for key in routers if key in joined[1:]]


def _build(
    name: str,
    routers: dict[str, tuple[str, Place]],
    lengths: dict[tuple[str, str], float],
    kept: list[str],
    devices: int,
    rng: np.random.Generator,
    report: ImportReport,
) -> Topology:
    report.kept.update(nodes=len(kept), links=len(lengths))
    ids = {key: i for i, key in enumerate(kept)}
    names = [routers[key][0] for key in kept]
    channels = spread_channels(np.zeros((len(kept) - 1, 2)), CHANNELS[5.0])
    radio = replace(DIRECTIONAL[0], channels=dict(zip(names[1:], channels, strict=True)))
    nodes = [Node(names[0], Tier.CLOUD, *_degrees(routers[kept[0]][1]), height_m=ROUTER_M)]
    for key, channel in zip(kept[1:], channels, strict=True):
        where = _degrees(routers[key][1])
        nodes.append(
            Node(routers[key][0], Tier.GATEWAY, *where, height_m=ROUTER_M, channel=channel)
        )
    links = [
        Link(ids[a], ids[b], BACKHAUL_BPS, round(HOP_S + length_m / FIBRE_M_PER_S, 6), "fibre")
        for (a, b), length_m in lengths.items()
    ]
    media = [Medium(f"{n}-wifi", radio.channel_rate_bps) for n in names[1:]]
    width = len(str(devices - 1))
    for i in range(devices):
        home = i % len(media)
        where = _near(nodes[1 + home], rng)
        nodes.append(Node(f"device {i:0{width}}", Tier.DEVICE, *where, height_m=DEVICE_M))
        rate_bps, medium = radio.channel_rate_bps, media[home].name
        links.append(Link(1 + home, len(nodes) - 1, rate_bps, WIFI_S, "wifi", medium))
    report.assume(f"{devices} devices around the gateways", f"device {0:0{width}}")
    report.assume(f"heights of {ROUTER_M:g} m, devices {DEVICE_M:g} m", names[0])
    return Topology(name, tuple(nodes), tuple(links), tuple(media), (radio,))


def _degrees(place: Place) -> tuple[float | None, float | None]:
    return (place[1], place[0]) if place else (None, None)


def _near(gateway: Node, rng: np.random.Generator) -> tuple[float | None, float | None]:
    median_m, sigma = NYCMESH.away_m
    length_m, angle = median_m * np.exp(sigma * rng.standard_normal()), rng.uniform(0, 2 * np.pi)
    if gateway.latitude is None or gateway.longitude is None:
        return None, None
    to_degrees = projection(gateway.latitude, gateway.longitude)
    lon, lat = to_degrees(length_m * np.cos(angle), length_m * np.sin(angle), inverse=True)
    return round(float(lat), 6), round(float(lon), 6)
