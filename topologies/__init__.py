"""Topologies: the type, the generators, the importers, and the files shipped in ``data/``."""

from __future__ import annotations

from pathlib import Path

from simulator.errors import unknown_name
from simulator.rng import Stream, generator
from topologies.generate import tree
from topologies.records import Building, Link, Medium, Node, Radio, Tier
from topologies.replay import topology_from_replay
from topologies.section import FileTopology, ReplayTopology, TopologySection, TreeTopology
from topologies.topology import Topology

__all__ = [
    "Building",
    "FileTopology",
    "Link",
    "Medium",
    "Node",
    "Radio",
    "ReplayTopology",
    "Tier",
    "Topology",
    "TopologySection",
    "TreeTopology",
    "find_topology",
    "load_topology",
    "shipped",
    "shipped_profiles",
    "topology_from_replay",
    "tree",
]


def shipped() -> dict[str, Path]:
    """The topologies that come with the program, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "data").glob("*.json"))}


def shipped_profiles() -> list[Path]:
    """What ns-3 has measured on them (``meshfl network profile``)."""
    return sorted((Path(__file__).parent / "data" / "profiles").glob("*.json"))


def find_topology(path: Path, base: Path = Path()) -> Topology:
    """A .json file, relative to ``base``; or a shipped topology by its name."""
    if path.suffix == ".json":
        return Topology.load(base / path)
    if str(path) not in shipped():
        raise unknown_name("shipped topology", str(path), shipped())
    return Topology.load(shipped()[str(path)])


def load_topology(section: TopologySection, seed: int, base: Path) -> Topology:
    """The topology a scenario asks for; its relative paths start at ``base``."""
    match section:
        case FileTopology(path=path, profile=profile):
            topology = find_topology(path, base)
            return topology if profile is None else topology.with_radio(profile)
        case TreeTopology():
            return tree(
                section.gateways,
                section.devices,
                device_rate_bps=section.device_rate_bps,
                gateway_rate_bps=section.gateway_rate_bps,
                backhaul_rate_bps=section.backhaul_rate_bps,
                device_latency_s=section.device_latency_s,
                backhaul_latency_s=section.backhaul_latency_s,
                reach=section.reach,
                rng=generator(seed, Stream.TOPOLOGY),
            )
        case ReplayTopology():
            return topology_from_replay(base / section.delays, base / section.cloud)
