"""Where the nodes of a run stand, on a map or, without coordinates, around their gateways."""

from __future__ import annotations

import numpy as np

from topologies import Tier, Topology
from topologies.geography import positions

Place = tuple[float, float]


def has_coordinates(topology: Topology) -> bool:
    return all(node.latitude is not None for node in topology.nodes if node.tier is not Tier.CLOUD)


def places_of(topology: Topology, gateway_of: dict[str, str]) -> dict[str, Place]:
    """By name, in kilometres, or in no unit: gateways in a circle, their devices around them."""
    if has_coordinates(topology):
        return _on_the_map(topology)
    return _around_gateways(topology, gateway_of)


def _on_the_map(topology: Topology) -> dict[str, Place]:
    places = {
        topology.nodes[node].name: (place.x_m / 1e3, place.y_m / 1e3)
        for node, place in positions(topology).items()
    }
    cloud = topology.nodes[topology.cloud].name
    if cloud not in places:
        all_places = np.array(list(places.values()))
        (left, bottom), (right, top) = all_places.min(axis=0), all_places.max(axis=0)
        places[cloud] = (float(left + right) / 2, float(top + 0.08 * max(top - bottom, 0.1)))
    return places


def _around_gateways(topology: Topology, gateway_of: dict[str, str]) -> dict[str, Place]:
    names = [node.name for node in topology.nodes]
    gateways = [names[node] for node in topology.gateways]
    members: dict[str, list[str]] = {gateway: [] for gateway in gateways}
    for node in topology.devices:
        reach = topology.reach(node)
        own = gateway_of.get(names[node], names[reach[0]] if reach else gateways[0])
        members.setdefault(own, []).append(names[node])
    places: dict[str, Place] = {names[topology.cloud]: (0.0, 0.0)}
    share = np.sqrt([len(members[gateway]) + 1.0 for gateway in gateways])
    ends = np.cumsum(share) / share.sum() * 2 * np.pi
    for gateway, end, part in zip(gateways, ends, share / share.sum() * 2 * np.pi, strict=True):
        angle = end - part / 2
        places[gateway] = (float(np.cos(angle)), float(np.sin(angle)))
        places |= _fan(members[gateway], angle, part)
    if (ours := members.get(names[topology.cloud])) is not None:
        places |= _fan(ours, 0.0, 2 * np.pi)
    return places


def _fan(devices: list[str], angle: float, width: float) -> dict[str, Place]:
    """Rows of an arc outside of the gateway, that grow with the number of devices."""
    rows = max(1, round(np.sqrt(len(devices) / 8)))
    places = {}
    for i, device in enumerate(devices):
        row, place = i % rows, (i + 0.5) / len(devices) - 0.5
        radius, at = 1.5 + 0.5 * row / rows, angle + 0.85 * width * place
        places[device] = (float(radius * np.cos(at)), float(radius * np.sin(at)))
    return places
