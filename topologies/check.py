"""What must hold for a topology beyond each record by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.errors import UserError, did_you_mean
from simulator.units import NodeId
from topologies.channels import CHANNELS, layouts

if TYPE_CHECKING:
    from topologies.records import Radio
    from topologies.topology import Topology


def check(topology: Topology) -> None:
    """Raise a ``UserError`` that names the first record that cannot stand."""
    check_names("nodes", (node.name for node in topology.nodes))
    check_names("media", (medium.name for medium in topology.media))
    check_names("radios", (radio.name for radio in topology.radios))
    _check_places(topology)
    _check_tiers(topology)
    _check_links(topology)
    _check_reach(topology)
    _check_radios(topology)
    _check_buildings(topology)


def check_names(key: str, names: Iterable[str]) -> None:
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if (first := seen.setdefault(name, i)) != i:
            raise UserError(
                f"{key}[{i}]: the name {name!r} is taken by {key}[{first}]; give each its own"
            )


def _check_places(topology: Topology) -> None:
    for i, node in enumerate(topology.nodes):
        if (node.latitude is None) != (node.longitude is None):
            raise UserError(
                f"nodes[{i}] {node.name!r}: latitude is {node.latitude} and longitude is "
                f"{node.longitude}; give both or none"
            )


def _check_tiers(topology: Topology) -> None:
    clouds = [node.name for node in topology.nodes if node.tier == "cloud"]
    if len(clouds) != 1:
        raise UserError(f"exactly one node must be of tier 'cloud', not {len(clouds)} {clouds}")
    for tier, found in (("gateway", topology.gateways), ("device", topology.devices)):
        if not found:
            raise UserError(f"no node is of tier {tier!r}; at least one must be")


def _check_links(topology: Topology) -> None:
    media = {medium.name for medium in topology.media}
    seen: dict[frozenset[NodeId], int] = {}
    for i, link in enumerate(topology.links):
        for end in (link.a, link.b):
            if not 0 <= end < len(topology.nodes):
                raise UserError(
                    f"links[{i}]: node id {end} is outside 0..{len(topology.nodes) - 1}"
                )
        place = f"links[{i}] {topology.nodes[link.a].name!r}-{topology.nodes[link.b].name!r}"
        if link.a == link.b:
            raise UserError(f"{place}: a link joins two different nodes; remove it")
        if (first := seen.setdefault(frozenset((link.a, link.b)), i)) != i:
            raise UserError(f"{place}: links[{first}] joins the same nodes; remove one")
        if link.medium is not None and link.medium not in media:
            raise UserError(
                f"{place}: unknown medium {link.medium!r}; {did_you_mean(link.medium, media)}"
            )


def _check_reach(topology: Topology) -> None:
    nodes = topology.nodes
    for device in topology.devices:
        if not topology.reach(device):
            raise UserError(
                f"device {nodes[device].name!r} has no link to any gateway; "
                "add a link or remove the device"
            )
    found = {topology.cloud}
    queue = [topology.cloud]
    while queue:
        for other in topology.neighbours[queue.pop()]:
            if other not in found and nodes[other].tier == "gateway":
                found.add(other)
                queue.append(other)
    for gateway in topology.gateways:
        if gateway not in found:
            raise UserError(
                f"gateway {nodes[gateway].name!r} has no path to the cloud "
                f"{nodes[topology.cloud].name!r}; add a link to it or to another gateway"
            )


def _check_radios(topology: Topology) -> None:
    names = [node.name for node in topology.nodes]
    gateways = [names[g] for g in topology.gateways]
    devices = [names[d] for d in topology.devices]
    for i, radio in enumerate(topology.radios):
        for key, tier, named, known in (
            ("channels", "gateway", list(radio.channels), gateways),
            ("rate_limits_bps", "device", list(radio.rate_limits_bps), devices),
        ):
            for name in sorted(set(named) - set(known)):
                raise UserError(
                    f"radios[{i}] {radio.name!r}: {key} names no {tier}: {name!r}; "
                    f"{did_you_mean(name, known)}"
                )
        _check_channels(f"radios[{i}] {radio.name!r}", radio, radio.channels)
    if topology.radio is not None:
        _check_radio_in_use(topology, topology.radio)


def _check_channels(place: str, radio: Radio, channels: dict[str, int]) -> None:
    """``channels``: those of gateways under this radio, by name."""
    allowed = CHANNELS.get((radio.standard, radio.band_ghz, radio.width_mhz))
    if allowed is None:
        raise UserError(
            f"{place}: 802.11{radio.standard} has no channels at {radio.band_ghz:g} GHz with "
            f"width_mhz {radio.width_mhz}; it has: {layouts(radio.standard)}"
        )
    for name, channel in channels.items():
        if channel not in allowed:
            raise UserError(
                f"{place}: gateway {name!r} has channel {channel}, which does not exist for "
                f"802.11{radio.standard} at {radio.band_ghz:g} GHz with width_mhz "
                f"{radio.width_mhz}; allowed: {', '.join(map(str, allowed))}"
            )


def _check_radio_in_use(topology: Topology, radio: Radio) -> None:
    wifi = {link.medium for link in topology.links if link.kind == "wifi"}
    for i, medium in enumerate(topology.media):
        if medium.name in wifi and medium.rate_bps != radio.channel_rate_bps:
            raise UserError(
                f"media[{i}] {medium.name!r}: rate_bps is {medium.rate_bps:g}, but the first radio "
                f"{radio.name!r} has channel_rate_bps {radio.channel_rate_bps:g}; make them equal"
            )
    for i, node in enumerate(topology.nodes):
        if node.channel != radio.channels.get(node.name, node.channel):
            raise UserError(
                f"nodes[{i}] {node.name!r}: channel is {node.channel}, but the first radio "
                f"{radio.name!r} gives it {radio.channels[node.name]}; make them equal"
            )
    gateways = [topology.nodes[gateway] for gateway in topology.gateways]
    own = {node.name: node.channel for node in gateways if node.channel is not None}
    _check_channels(f"radios[0] {radio.name!r}", radio, own)


def _check_buildings(topology: Topology) -> None:
    for i, box in enumerate(topology.buildings):
        for low, high in (("south", "north"), ("west", "east")):
            if getattr(box, low) >= getattr(box, high):
                raise UserError(
                    f"buildings[{i}]: {low} {getattr(box, low)} is not below {high} "
                    f"{getattr(box, high)}; swap them"
                )
