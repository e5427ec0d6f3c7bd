"""Live co-simulation: every transfer is packets in ns-3, which alone says when it ends.

Computations end in the same queue of events, so all times of a round come from one clock.
Left out: devices do not move; devices have no wires; a gateway without a wire of its own to the
cloud gets one, as fast as the slowest wire on its way and as long as all of them, and wires between
gateways are not used otherwise. A device that is
asked to talk to another gateway than before re-associates first, in ns-3, and that takes its
time; it must have no transfer under way with the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ns3_scenarios.modes import check_rate_manager
from ns3_scenarios.process import Ns3Process
from ns3_scenarios.section import BackgroundSection, Ns3Section
from simulator.device_classes import DeviceClass
from simulator.errors import UserError
from simulator.network import Completion, Energy
from simulator.networks.routes import Routes
from simulator.units import FlowId, NodeId, Time, to_ns, to_seconds
from topologies import Link, Tier, Topology
from topologies.geography import Position, boxes, distance_m, positions

LOST = {1: "deadline", 2: "connection refused or reset", 3: "incomplete (UDP)"}
_TIERS = {Tier.CLOUD: 0, Tier.GATEWAY: 1, Tier.DEVICE: 2}
QUEUE_PACKETS = {"fq-codel": 100, "fifo": 500}
"""In the Wi-Fi device itself: behind fair queues a short one, so that they do the queueing."""
_SEND, _ADVANCE, _COMPUTE, _CANCEL = range(4)


class Ns3Network:
    """Packets over Wi-Fi and Ethernet, simulated by ns-3 while the run goes on."""

    def __init__(
        self,
        topology: Topology,
        section: Ns3Section,
        seed: int,
        classes: Mapping[NodeId, DeviceClass] | None = None,
    ) -> None:
        """``classes`` tell what each device's processor draws; None: nobody knows."""
        self._topology = topology
        self._metered = section.energy
        self._powers_known = classes is not None
        self._deadline = to_ns(section.deadline_s)
        self._routes = Routes(topology)
        self._gateway = {d: topology.reach(d)[0] for d in topology.devices}
        self._under_way: dict[FlowId, tuple[NodeId, ...]] = {}
        self._next_flow = 0
        self._calls: list[tuple[int, int, int, int, int]] = []
        """All that was asked of ns-3, in order: replayed on resume."""
        self._completions: list[tuple[int, int, int]] = []
        scene = scene_of(topology, section, seed, self._gateway, classes)
        self._ns3 = Ns3Process()
        self._ns3.ask("build", *scene)

    def send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        self._calls.append((_SEND, now, src, dst, nbytes))
        return self._send(now, src, dst, nbytes)

    def compute(self, now: Time, node: NodeId, duration: Time) -> FlowId:
        self._calls.append((_COMPUTE, now, node, duration, 0))
        return self._compute(now, node, duration)

    def cancel(self, flow: FlowId) -> None:
        self._calls.append((_CANCEL, flow, 0, 0, 0))
        self._ns3.tell("cancel", flow)

    def advance(self, limit: Time) -> Completion | None:
        self._calls.append((_ADVANCE, limit, 0, 0, 0))
        return self._advance(limit)

    def energy(self, now: Time) -> dict[NodeId, Energy]:
        if not self._metered:
            return {}
        devices = list(self._topology.devices)
        used = self._ns3.ask("energy", now, devices)
        return {
            device: Energy(radio_j, processor_j if self._powers_known else None)
            for device, (radio_j, processor_j) in zip(devices, used, strict=True)
        }

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        route = self._routes.find(src, dst)
        return route.latency + to_ns(8 * nbytes / route.rate_bps)

    def save(self) -> dict[str, object]:
        return {
            "calls": np.array(self._calls, dtype=np.int64).reshape(-1, 5),
            "completions": np.array(self._completions, dtype=np.int64).reshape(-1, 3),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Ask ns-3 the same again; an answer that differs is an error."""
        expected = [tuple(row) for row in state["completions"].tolist()]
        self._calls = [tuple(row) for row in state["calls"].tolist()]
        for call in self._calls:
            self._repeat(call, expected)
        if len(self._completions) != len(expected):
            raise self._differs(f"{len(self._completions)} flows ended, not {len(expected)}")

    def close(self) -> None:
        self._ns3.close()

    def cpu_s(self) -> float:
        """CPU time that the ns-3 process has used."""
        return float(self._ns3.ask("cpu"))

    def _repeat(self, call: tuple[int, ...], expected: list[tuple[int, ...]]) -> None:
        match call:
            case (kind, now, src, dst, nbytes) if kind == _SEND:
                self._send(now, src, dst, nbytes)
            case (kind, now, node, duration, _) if kind == _COMPUTE:
                self._compute(now, node, duration)
            case (kind, flow, *_) if kind == _CANCEL:
                self._ns3.tell("cancel", flow)
            case (_, limit, *_) if self._advance(limit) is not None:
                self._compare(expected)

    def _number(self) -> FlowId:
        flow = self._next_flow
        self._next_flow += 1
        return flow

    def _compute(self, now: Time, node: NodeId, duration: Time) -> FlowId:
        flow = self._number()
        self._ns3.tell("compute", flow, now, node, duration)
        return flow

    def _send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        flow = self._number()
        self._meet(src, dst)
        self._under_way[flow] = (src, dst)
        self._ns3.tell("start", flow, now, src, dst, nbytes, self._deadline)
        return flow

    def _advance(self, limit: Time) -> Completion | None:
        done = self._ns3.ask("advance", limit)
        if done is None:
            return None
        flow, time, status, radio_j = done
        self._completions.append((flow, time, status))
        ends = self._under_way.pop(flow, ())
        metered = self._metered and any(end in self._gateway for end in ends)
        return Completion(flow, time, LOST.get(status, ""), radio_j if metered else None)

    def _meet(self, src: NodeId, dst: NodeId) -> None:
        """Bring the device to the gateway that it is to talk with."""
        for device, other in ((src, dst), (dst, src)):
            if device not in self._gateway:
                continue
            if other in self._topology.gateways and self._gateway[device] != other:
                self._associate(device, other)

    def _associate(self, device: NodeId, gateway: NodeId) -> None:
        names = self._topology.nodes
        if gateway not in self._topology.reach(device):
            raise UserError(
                f"device {names[device].name!r} cannot reach gateway {names[gateway].name!r}; "
                "associate it with one that it has a link to"
            )
        if any(device in ends for ends in self._under_way.values()):
            raise UserError(
                f"device {names[device].name!r} has a transfer under way and cannot change to "
                f"gateway {names[gateway].name!r} now; the algorithm must wait for it"
            )
        self._gateway[device] = gateway
        self._ns3.tell("associate", device, gateway)

    def _compare(self, expected: list[tuple[int, ...]]) -> None:
        place = len(self._completions) - 1
        if place >= len(expected) or self._completions[place] != expected[place]:
            was = expected[place] if place < len(expected) else "nothing"
            raise self._differs(f"flow {place}: {self._completions[place]}, was {was}")

    def _differs(self, what: str) -> UserError:
        return UserError(
            f"ns-3 does not repeat what it did before the checkpoint ({what}); was another ns3 "
            "version or another topology used? Delete the checkpoint to start afresh"
        )


def scene_of(
    topology: Topology,
    section: Ns3Section,
    seed: int,
    gateway: dict[NodeId, NodeId],
    classes: Mapping[NodeId, DeviceClass] | None = None,
) -> tuple[Any, ...]:
    """What the ns-3 process builds: options, nodes, backhaul links, buildings, associations."""
    radio = topology.radio
    if radio is None:
        raise UserError(
            f"topology {topology.name!r} has no radio profile, which ns-3 needs; use one that has, "
            "such as 'nycmesh-30', or add radios to the file"
        )
    check_rate_manager(section.rate_manager, radio)
    backhaul = [_backhaul(link, section) for link in _wires(topology)]
    places = positions(topology)
    wifi = [link for link in topology.links if link.kind == "wifi"]
    longest = max(distance_m(places[link.a], places[link.b]) for link in wifi)
    options = {
        "standard": radio.standard, "bandGhz": radio.band_ghz, "widthMhz": radio.width_mhz,
        "rateManager": section.rate_manager, "loss": section.loss,
        "lossExponent": section.loss_exponent, "fixedRssDbm": section.fixed_rss_dbm,
        "shadowingSigmaDb": section.shadowing_sigma_db, "transport": section.transport,
        "sensitivityDbm": section.sensitivity_dbm, "longestLinkM": longest, "seed": seed + 1,
        "queue": section.queue, "macQueuePackets": QUEUE_PACKETS[section.queue],
        "rtsBytes": section.rts_bytes,
        "energy": section.energy, **_udp(section), **_background(section.background),
    }  # fmt: skip
    nodes = [_node(topology, i, places.get(i)) for i in range(len(topology.nodes))]
    for device, own in (classes or {}).items():
        nodes[device] |= {"idleW": own.idle_w, "busyW": own.busy_w}
    gateways = [gateway.get(i, -1) for i in range(len(topology.nodes))]
    return options, nodes, backhaul, [list(box) for box in boxes(topology)], gateways


def _node(topology: Topology, number: NodeId, place: Position | None) -> dict[str, object]:
    node, radio = topology.nodes[number], topology.radio
    assert radio is not None
    x, y, z = place or (0.0, 0.0, 10.0)
    spec: dict[str, object] = {"tier": _TIERS[node.tier], "x": x, "y": y, "z": max(z, 1.0)}
    if node.tier is Tier.CLOUD:
        return spec
    device = node.tier is Tier.DEVICE
    own_gain, own_power = node.antenna_gain_dbi, node.tx_power_dbm
    gain = radio.device_gain_dbi if device else radio.gateway_gain_dbi
    spec["gainDbi"] = gain if own_gain is None else own_gain
    spec["txPowerDbm"] = radio.tx_power_dbm if own_power is None else own_power
    if device:
        spec["rateLimitBps"] = topology.rate_limit_bps(number) or 0.0
    elif node.channel is None:
        raise UserError(f"gateway {node.name!r} of topology {topology.name!r} has no channel")
    else:
        spec["channel"] = node.channel
    return spec


def _udp(section: Ns3Section) -> dict[str, object]:
    """Nothing for TCP: the keys of its profiles are made of all that ns-3 is told."""
    return {"udpRateBps": section.udp_rate_bps} if section.transport == "udp" else {}


def _background(section: BackgroundSection | None) -> dict[str, object]:
    if section is None:
        return {}
    return {
        "backgroundDownBps": section.down_bps,
        "backgroundUpBps": section.up_bps,
        "backgroundOnS": section.on_s,
        "backgroundOffS": section.off_s,
        "backgroundPacketBytes": section.packet_bytes,
    }


def _wires(topology: Topology) -> list[Link]:
    """One between the cloud and each gateway."""
    cloud, nodes = topology.cloud, topology.nodes
    wired = [link for link in topology.links if link.kind != "wifi"]
    for link in wired:
        for device in {link.a, link.b} & set(topology.devices):
            raise UserError(
                f"device {nodes[device].name!r} of topology {topology.name!r} has a link of kind "
                f"{link.kind!r}; on ns-3 devices have Wi-Fi only: change it, or use another network"
            )
    direct = {link.a + link.b - cloud: link for link in wired if cloud in (link.a, link.b)}
    routes = Routes(topology)
    found = []
    for gateway in topology.gateways:
        way = routes.find(cloud, gateway)
        far = Link(cloud, gateway, way.rate_bps, to_seconds(way.latency))
        found.append(direct.get(gateway, far))
    return found


def _backhaul(link: Link, section: Ns3Section) -> dict[str, object]:
    kind = "csma" if section.backhaul == "csma" else "p2p"
    return {
        "a": link.a,
        "b": link.b,
        "kind": kind,
        "rateBps": link.rate_bps,
        "latencyS": link.latency_s,
    }
