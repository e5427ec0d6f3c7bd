"""Delays looked up in a table.

Left out: a delay depends neither on the size of the transfer nor on other transfers, and nothing is
relayed: only pairs of the table can talk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from simulator.errors import UserError
from simulator.network import Completion
from simulator.networks.arrivals import Arrivals
from simulator.networks.noise import Noise, NoisySection
from simulator.units import FlowId, NodeId, Time, to_ns
from topologies import Topology
from topologies.replay import parse_delay, read_replay, read_rows

HEADER = ["src", "dst", "delay_s"]


class TableSection(NoisySection):
    """Delays between named nodes."""

    kind: Literal["table"] = "table"
    path: Path
    """csv with the header src,dst,delay_s; a pair given one way only has that delay both ways."""


class ReplaySection(NoisySection):
    """The Async-HFL authors' delay tables."""

    kind: Literal["replay"] = "replay"
    delays: Path
    """csv of round delays in seconds: a row per device, a column per gateway, 0 = no link."""
    cloud: Path
    """csv with one line: each gateway's round delay to the cloud in seconds."""
    downlink_share: float = Field(0.5, ge=0, le=1)
    """The downlink's part of a round delay; the authors' program has 0."""


Pair = tuple[NodeId, NodeId]


class TableNetwork:
    """Delays looked up in a table, the same for every size and load."""

    def __init__(
        self, topology: Topology, delays: Mapping[Pair, Time], noise: Noise, source: str
    ) -> None:
        """``delays`` holds every pair that can talk; ``source`` names the table in errors."""
        self._topology = topology
        self._delays = dict(delays)
        self._noise = noise
        self._source = source
        self._arrivals = Arrivals()
        self._sent = 0
        for device in topology.devices:
            for gateway in topology.reach(device):
                self._delay(device, gateway)
                self._delay(gateway, device)
        for gateway in topology.gateways:
            self._delay(gateway, topology.cloud)
            self._delay(topology.cloud, gateway)

    @classmethod
    def build(
        cls, section: TableSection | ReplaySection, topology: Topology, seed: int, base: Path
    ) -> TableNetwork:
        noise = Noise(section, seed)
        if isinstance(section, TableSection):
            path = base / section.path
            return cls(topology, links_table(path, topology), noise, str(path))
        path = base / section.delays
        delays = replay_table(path, base / section.cloud, section.downlink_share, topology)
        return cls(topology, delays, noise, str(path))

    def send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        try:
            delay = self._delays[src, dst]
        except KeyError:
            delay = self._delay(src, dst)
        flow = self._sent
        self._sent = flow + 1
        if self._noise.active:
            factor, lost = self._noise.draw()
            self._arrivals.push(now + round(delay * factor), flow, lost)
        else:
            self._arrivals.push(now + delay, flow)
        return flow

    def advance(self, limit: Time) -> Completion | None:
        return self._arrivals.pop(limit)

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        return self._delay(src, dst)

    def close(self) -> None:
        pass

    def save(self) -> dict[str, object]:
        return {
            "sent": self._sent,
            "arrivals": self._arrivals.save(),
            "noise": self._noise.save(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._sent = state["sent"]
        self._arrivals.load(state["arrivals"])
        self._noise.load(state["noise"])

    def _delay(self, src: NodeId, dst: NodeId) -> Time:
        if (delay := self._delays.get((src, dst))) is None:
            nodes = self._topology.nodes
            raise UserError(
                f"{self._source}: no delay from {nodes[src].name!r} to {nodes[dst].name!r}; "
                "add it, or use a topology without that link and an algorithm that never sends so"
            )
        return delay


def links_table(path: Path, topology: Topology) -> dict[Pair, Time]:
    header, *rows = read_rows(path)
    if header != HEADER:
        raise UserError(f"{path} row 1: the header is {header}; it must be {','.join(HEADER)}")
    delays: dict[Pair, Time] = {}
    for i, row in enumerate(rows, 2):
        if len(row) != len(HEADER):
            raise UserError(f"{path} row {i}: {len(row)} columns; there must be {len(HEADER)}")
        try:
            pair = topology.id_of(row[0]), topology.id_of(row[1])
        except UserError as error:
            raise UserError(f"{path} row {i}: {error}") from None
        if pair in delays:
            raise UserError(f"{path} row {i}: {row[0]!r} to {row[1]!r} is there twice; remove one")
        delays[pair] = to_ns(parse_delay(row[2], path, i, HEADER[2]))
    reverse = {(b, a): delay for (a, b), delay in delays.items()}
    return reverse | delays


def replay_table(
    delays_csv: Path, cloud_csv: Path, downlink_share: float, topology: Topology
) -> dict[Pair, Time]:
    """Both tiers' round delays, split: the downlink gets its share, the uplink the rest."""
    rows, cloud = read_replay(delays_csv, cloud_csv)
    devices, gateways = topology.devices, topology.gateways
    if (len(rows), len(cloud)) != (len(devices), len(gateways)):
        raise UserError(
            f"{delays_csv}: {len(rows)} rows x {len(cloud)} columns, but topology "
            f"{topology.name!r} has {len(devices)} devices and {len(gateways)} gateways; they must "
            "agree (kind = 'replay' makes the topology from the same files)"
        )
    rounds = {(topology.cloud, gateways[j]): delay_s for j, delay_s in enumerate(cloud)}
    for device, row in zip(devices, rows, strict=True):
        rounds |= {(gateways[j], device): delay_s for j, delay_s in enumerate(row) if delay_s > 0}
    delays: dict[Pair, Time] = {}
    for (parent, child), delay_s in rounds.items():
        down = to_ns(delay_s * downlink_share)
        delays[parent, child] = down
        delays[child, parent] = to_ns(delay_s) - down
    return delays
