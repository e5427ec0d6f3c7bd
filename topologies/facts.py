"""What is in a topology, in a few lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from topologies.geography import distance_m, positions
from topologies.linkbudget import rssi_dbm
from topologies.topology import Topology


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


def _counts(pairs: Iterable[tuple[object, int]]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in pairs)


def _range(values: list[float] | list[int], unit: str) -> str:
    low, middle, high = np.quantile(values, [0, 0.5, 1])
    return f"{low:.4g} to {high:.4g}{unit}, median {middle:.4g}"
