"""A ring of groups: models that go from gateway to gateway.

The top sequential tier of ``algorithms.star_ring_hfl``, which says what it does and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from algorithms.ring_order import RingOrder
from algorithms.rings import record_skip
from algorithms.rounds import GatewayUpdate
from algorithms.rules import weighted_mean
from algorithms.sync_cloud import LowerTier
from simulator.events import Arrived, Event, Lost
from simulator.kernel import Simulation
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class GroupModel(NamedTuple):
    """From the cloud or a gateway to the next of the top ring, or back to the cloud."""

    hop: int
    model: torch.Tensor


class Report(NamedTuple):
    """Gateway to cloud: what it knows of its devices, for the sake of association."""


@dataclass
class Lap:
    """A model's way through all groups."""

    model: torch.Tensor
    holder: NodeId
    rest: list[NodeId]
    hop: int = 0
    """What belongs to an earlier one is out of date."""
    end: NodeId = -1
    losses: int = 0
    """Of this hop."""
    is_over: bool = False


@dataclass
class GroupRing:
    """The top tier in sequence: a ring through the gateways that have devices, again and again."""

    lower: LowerTier
    order: RingOrder
    closing: Literal["direct", "cloud"]
    retries: int
    in_flight: int = 1
    model: torch.Tensor | None = None
    epoch: int = 0
    """Of the round under way."""
    hop: int = 0
    """The newest of all laps."""
    holder: NodeId = -1
    """Who has the model between two rounds."""
    laps: list[Lap] = field(default_factory=list)
    at_work: dict[NodeId, int] = field(default_factory=dict)
    """By gateway: the hop that brought the model that it works on."""
    queues: dict[NodeId, list[int]] = field(default_factory=dict)
    """By gateway: those that brought further ones."""

    def start(self, sim: Simulation) -> None:
        self.model, self.holder = sim.model, sim.topology.cloud
        self._open(sim)

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(message=GroupModel(hop=hop)):
                if lap := self._lap(hop):
                    self._arrive(sim, lap)
            case Lost(message=GroupModel(hop=hop)):
                if lap := self._lap(hop):
                    self._lose(sim, lap)
            case _:
                self._go_on(sim, self.lower.handle(sim, event))

    def _lap(self, hop: int) -> Lap | None:
        return next((lap for lap in self.laps if lap.hop == hop), None)

    def _open(self, sim: Simulation) -> None:
        assert self.model is not None
        self.epoch += 1
        members = [g for g in sim.topology.gateways if sim.devices_of(g)]
        start = sim.topology.cloud if self.closing == "cloud" else members[0]
        order = self.order.of(sim, start, members)
        count = min(self.in_flight, len(order))
        firsts = [number * len(order) // count for number in range(count)]
        self.laps = [Lap(self.model, self.holder, order[i:] + order[:i]) for i in firsts]
        for lap in list(self.laps):
            self._pass_on(sim, lap)

    def _pass_on(self, sim: Simulation, lap: Lap) -> None:
        """To the next group, or, if there is none, to where a round ends."""
        self.hop += 1
        lap.hop, lap.losses = self.hop, 0
        if lap.rest:
            lap.end = lap.rest.pop(0)
        elif self.closing == "cloud":
            lap.end = sim.topology.cloud
        else:
            self._finish(sim, lap)
            return
        if lap.end != lap.holder:
            self._send(sim, lap)
        else:
            self._arrive(sim, lap)

    def _send(self, sim: Simulation, lap: Lap) -> None:
        sim.send(lap.holder, lap.end, GroupModel(lap.hop, lap.model))

    def _arrive(self, sim: Simulation, lap: Lap) -> None:
        lap.holder = lap.end
        if lap.end == sim.topology.cloud:
            self._finish(sim, lap)
        elif lap.end in self.at_work:
            self.queues.setdefault(lap.end, []).append(lap.hop)
        else:
            self._enter(sim, lap)

    def _enter(self, sim: Simulation, lap: Lap) -> None:
        self.at_work[lap.end] = lap.hop
        self._go_on(sim, self.lower.enter(sim, lap.end, self.epoch, lap.model))  # Alg. 3 l.3

    def _go_on(self, sim: Simulation, update: GatewayUpdate | None) -> None:
        """The group is through with its rounds."""
        if update is None or update.epoch != self.epoch:
            return
        gateway = update.gateway
        lap, queue = self._lap(self.at_work.pop(gateway)), self.queues.get(gateway, [])
        waiting = self._lap(queue.pop(0)) if queue else None
        assert lap is not None
        lap.model = update.model  # Alg. 3 l.14, if it is the last
        if nbytes := sim.manager.upload_bytes(sim, gateway):
            sim.send(gateway, sim.topology.cloud, Report(), nbytes, overhead=True)
        self._pass_on(sim, lap)
        if waiting is not None:
            self._enter(sim, waiting)

    def _lose(self, sim: Simulation, lap: Lap) -> None:
        lap.losses += 1
        if lap.losses <= self.retries:
            self._send(sim, lap)
            return
        record_skip(sim, lap.end, self.epoch, None, "lost")
        if lap.end == sim.topology.cloud:
            self._finish(sim, lap)
        else:
            self._pass_on(sim, lap)

    def _finish(self, sim: Simulation, lap: Lap) -> None:
        lap.is_over = True
        if all(lap.is_over for lap in self.laps):
            self._close(sim)

    def _close(self, sim: Simulation) -> None:
        """Of several models the cloud takes the mean of those that have reached it."""
        there = [lap.model for lap in self.laps if lap.holder == sim.topology.cloud]
        if len(self.laps) == 1:
            self.model, self.holder = self.laps[0].model, self.laps[0].holder
        elif there:
            self.model = weighted_mean(there, [1] * len(there))
        assert self.model is not None
        sim.report(self.epoch, self.model)
        self.lower.migration.decide(sim, sim.manager.reassociate(sim, self.epoch))
        self._open(sim)
