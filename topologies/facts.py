"""What is in a topology, in a few lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from simulator.units import NodeId
from topologies.geography import Position, distance_m, positions
from topologies.linkbudget import FAR_M, ROOF_M, SENSITIVITY_DBM, STREET_M, holds, rssi_dbm
from topologies.records import Link
from topologies.topology import Topology

_MOST_LISTED = 10


def facts(topology: Topology) -> dict[str, str]:
    tiers = Counter(node.tier for node in topology.nodes)
    kinds = Counter(link.kind for link in topology.links)
    reach = [topology.reach(device) for device in topology.devices]
    heard = Counter(gateway for gateways in reach for gateway in gateways)
    found = {
        "nodes": _counts(sorted(tiers.items())),
        "links": _counts(sorted(kinds.items())),
        "devices by gateways in reach": _counts(sorted(Counter(map(len, reach)).items())),
        "devices in reach of a gateway": _range([heard[g] for g in topology.gateways], ""),
        "radio profiles": ", ".join(radio.name for radio in topology.radios) or "none",
    }
    limits = [topology.rate_limit_bps(device) for device in topology.devices]
    paced = [limit / 1e3 for limit in limits if limit is not None]
    if paced:
        found["limits of applications"] = _range(paced, " kbit/s")
    found |= _geography(topology)
    return found


def _geography(topology: Topology) -> dict[str, str]:
    ends = [*topology.gateways, *topology.devices]
    if any(topology.nodes[i].latitude is None for i in ends):
        return {"places": "some gateways or devices have no coordinates: no map, no ns-3"}
    places = positions(topology)
    wifi = [link for link in topology.links if link.kind == "wifi"]
    found = {"heights": _range([place.z_m for place in places.values()], " m")}
    if wifi:
        lengths = [distance_m(places[x.a], places[x.b]) for x in wifi]
        found["lengths of Wi-Fi links"] = _range(lengths, " m")
    if wifi and topology.radio:
        power = [rssi_dbm(topology, places, x.a, x.b) for x in wifi]
        found[f"received power, {topology.radio.name}"] = _range(power, " dBm (estimate)")
    if topology.buildings:
        found["buildings"] = str(len(topology.buildings))
    return found


def warnings(topology: Topology) -> list[str]:
    """Wi-Fi links that ns-3 may hear far worse than the estimate says, or not at all."""
    ends = [*topology.gateways, *topology.devices]
    if topology.radio is None or any(topology.nodes[i].latitude is None for i in ends):
        return []
    places = positions(topology)
    wifi = [link for link in topology.links if link.kind == "wifi"]
    return [*_too_low(topology, places, wifi), *_too_weak(topology, places, wifi)]


def _too_low(topology: Topology, places: dict[NodeId, Position], wifi: list[Link]) -> list[str]:
    low = [x for x in wifi if not holds(places[x.a], places[x.b])]
    if not low:
        return []
    return [
        f"the received power of {len(low)} of {len(wifi)} Wi-Fi links may be tens of dB below the "
        f"estimate: they are longer than {STREET_M:g} m and both ends are lower than roofs "
        f"({ROOF_M:g} m), or one is and they are shorter than {FAR_M:g} m, so that ns-3's default "
        "loss model has houses in their way; raise height_m, or believe only [network] kind = "
        f"'ns3': {_names(topology, low)}"
    ]


def _too_weak(topology: Topology, places: dict[NodeId, Position], wifi: list[Link]) -> list[str]:
    weak = [x for x in wifi if rssi_dbm(topology, places, x.a, x.b) < SENSITIVITY_DBM]
    if not weak:
        return []
    return [
        f"{len(weak)} of {len(wifi)} Wi-Fi links are below ns-3's default sensitivity of "
        f"{SENSITIVITY_DBM:g} dBm by estimate, so nothing will arrive; give their ends more gain, "
        f"or remove them: {_names(topology, weak)}"
    ]


def _names(topology: Topology, links: list[Link]) -> str:
    nodes = topology.nodes
    shown = [f"{nodes[x.a].name}-{nodes[x.b].name}" for x in links[:_MOST_LISTED]]
    return ", ".join(shown) + (", ..." if len(links) > _MOST_LISTED else "")


def _counts(pairs: Iterable[tuple[object, int]]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in pairs)


def _range(values: list[float] | list[int], unit: str) -> str:
    low, middle, high = np.quantile(values, [0, 0.5, 1])
    return f"{low:.4g} to {high:.4g}{unit}, median {middle:.4g}"
