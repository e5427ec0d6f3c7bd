"""Rings of clients: models that go from device to device in a group.

The lower sequential tier of ``algorithms.star_ring_hfl``, which says what it does and why.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from algorithms.migration import Decision, Migration, Move
from algorithms.ring_order import RingOrder
from algorithms.rounds import GatewayUpdate, StatelessRule, Weights, mean_of
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Simulation
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch

_BYTES_PER_MEMBER = 4


@dataclass
class LocalSteps(StatelessRule):
    """A rule for rounds of a gateway: K plain steps, and the group's mean."""

    steps: int | None
    rate: float | None
    weights: Weights

    def job(
        self, device: NodeId, model: torch.Tensor, control: torch.Tensor | None, tag: object
    ) -> Job:
        return Job(device, model, tag, steps=self.steps, learning_rate=self.rate)  # Alg. 1 l.6-9

    def merge(
        self, model: torch.Tensor, answers: deque[Update], devices: list[NodeId]
    ) -> torch.Tensor:
        return mean_of(answers, self.weights)  # Alg. 1 l.11


class Greeting(NamedTuple):
    """Gateway to device: who is in the ring."""

    members: tuple[NodeId, ...]


class ClientModel(NamedTuple):
    """From gateway or device to the next of a lower ring, or back to the gateway."""

    gateway: NodeId
    hop: int
    made: torch.Tensor | Update

    @property
    def model(self) -> torch.Tensor:
        return self.made.model if isinstance(self.made, Update) else self.made


class Visit(NamedTuple):
    """Job tag."""

    gateway: NodeId
    hop: int


class Patience(NamedTuple):
    """Alarm tag: the client is passed over now, if it still has the model."""

    gateway: NodeId
    hop: int


@dataclass
class Ring:
    """A gateway's: where its model is, and who is still to come."""

    model: torch.Tensor
    """The group's, before this group round."""
    epoch: int
    rounds_left: int
    round: int = 0
    hop: int = 0
    """What belongs to an earlier one is out of date."""
    holder: NodeId = -1
    """Who has the newest model; the gateway at first."""
    made: torch.Tensor | Update | None = None
    """What the holder has."""
    end: NodeId = -1
    """Whom the hop goes to."""
    losses: int = 0
    """Of this hop."""
    rest: list[NodeId] = field(default_factory=list)
    participants: int = 0
    """Of this group round."""
    samples: int = 0
    """Theirs."""
    num_samples: int = 0
    """What went into the model, over all group rounds."""
    waiting: list[NodeId] = field(default_factory=list)
    """The holder and the end of the hop, if they are devices."""
    greeted: dict[NodeId, None] = field(default_factory=dict)


@dataclass
class ClientRings:
    """The lower tier in sequence: P rings through a gateway's devices from each model it gets."""

    rounds: int
    """P."""
    rule: LocalSteps
    order: RingOrder
    retries: int
    timeout_s: float | None = None
    gateways: dict[NodeId, Ring] = field(default_factory=dict)
    migration: Migration = field(default_factory=Migration)

    def enter(
        self, sim: Simulation, gateway: NodeId, epoch: int, model: torch.Tensor
    ) -> GatewayUpdate | None:
        """Begin from this model, unless the gateway has a newer one, or is at work on it."""
        ring = self.gateways.get(gateway)
        if ring and (ring.epoch > epoch or (ring.epoch == epoch and ring.rounds_left)):
            return None
        if ring is None:
            ring = self.gateways[gateway] = Ring(model, epoch, self.rounds)
        for device in ring.waiting:
            sim.manager.drop(gateway, device)
        ring.model, ring.epoch, ring.rounds_left = model, epoch, self.rounds  # Alg. 2 l.3
        ring.num_samples, ring.waiting = 0, []
        return self._open(sim, gateway)

    def handle(self, sim: Simulation, event: Event) -> GatewayUpdate | None:
        match event:
            case Arrived(dst=end, message=ClientModel() as message):
                return self._take(sim, end, message)
            case Trained(update=Update(job=Job(tag=Visit() as visit)) as update):
                ring = self.gateways[visit.gateway]
                if ring.hop == visit.hop:
                    ring.holder, ring.made = update.node, update
                    return self._pass_on(sim, visit.gateway)
            case Lost(message=ClientModel(gateway=gateway, hop=hop)):
                return self._lose(sim, gateway, hop)
            case Alarm(tag=Patience(gateway=gateway, hop=hop)):
                if self.gateways[gateway].hop == hop:
                    return self._skip(sim, gateway, "silent")
            case Arrived(dst=gateway, message=Decision() as decision):
                self._send_away(sim, gateway, decision)
            case (
                Arrived(dst=device, message=Move(gateway=gateway))
                | Lost(src=gateway, dst=device, message=Move())
            ):
                self.migration.arrive(sim, gateway, device)
                for ring in self.gateways.values():
                    ring.greeted.pop(device, None)
        return None

    def _open(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        ring = self.gateways[gateway]
        members = sim.manager.select(sim, gateway, self.migration.staying(sim, gateway))
        self._greet(sim, gateway, members)
        ring.rest = self.order.of(sim, gateway, members)
        ring.round += 1
        ring.holder, ring.made, ring.participants, ring.samples = gateway, ring.model, 0, 0
        return self._pass_on(sim, gateway)

    def _greet(self, sim: Simulation, gateway: NodeId, members: list[NodeId]) -> None:
        greeted = self.gateways[gateway].greeted
        for device in members:
            if device not in greeted and len(members) > 1:
                nbytes = _BYTES_PER_MEMBER * len(members)
                sim.send(gateway, device, Greeting(tuple(members)), nbytes, overhead=True)
                greeted[device] = None

    def _pass_on(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        """To the next client, or, if there is none, to the gateway."""
        ring = self.gateways[gateway]
        ring.hop, ring.losses = ring.hop + 1, 0
        if not ring.rest:
            ring.end = gateway
            if ring.holder == gateway:
                return self._close(sim, gateway)
        else:
            ring.end = ring.rest.pop(0)
            ring.waiting.append(ring.end)
            sim.manager.begin(sim, gateway, ring.end)
            if self.timeout_s is not None:
                sim.after(self.timeout_s, Patience(gateway, ring.hop))
        self._send(sim, gateway, ring)
        return None

    def _send(self, sim: Simulation, gateway: NodeId, ring: Ring) -> None:
        assert ring.made is not None
        reports = 0 if ring.holder == gateway else sim.manager.report_bytes(sim, ring.holder)
        message = ClientModel(gateway, ring.hop, ring.made)
        sim.send(ring.holder, ring.end, message, extra_bytes=reports)

    def _take(self, sim: Simulation, end: NodeId, message: ClientModel) -> GatewayUpdate | None:
        gateway, ring = message.gateway, self.gateways[message.gateway]
        if message.hop != ring.hop:
            return None
        if isinstance(message.made, Update) and ring.holder in ring.waiting:
            ring.participants += 1
            ring.samples += message.made.num_samples
            self._give_back(sim, gateway, ring.holder, message.made)
        if end == gateway:
            ring.model = message.model  # Alg. 2 l.11
            ring.num_samples += ring.samples
            return self._close(sim, gateway)
        sim.train(self.rule.job(end, message.model, None, Visit(gateway, ring.hop)))  # Alg. 2 l.6
        return None

    def _lose(self, sim: Simulation, gateway: NodeId, hop: int) -> GatewayUpdate | None:
        ring = self.gateways[gateway]
        if ring.hop != hop:
            return None
        ring.losses += 1
        if ring.losses > self.retries:
            return self._skip(sim, gateway, "lost")
        self._send(sim, gateway, ring)
        return None

    def _skip(self, sim: Simulation, gateway: NodeId, reason: str) -> GatewayUpdate | None:
        """The end of the hop is left out; if that is the gateway, the ring was in vain."""
        ring = self.gateways[gateway]
        record_skip(sim, ring.end, ring.epoch, ring.round, reason)
        if ring.end != gateway:
            self._give_back(sim, gateway, ring.end, None)
            return self._pass_on(sim, gateway)
        self._give_back(sim, gateway, ring.holder, None)
        ring.participants, ring.hop = 0, ring.hop + 1
        return self._close(sim, gateway)

    def _give_back(
        self, sim: Simulation, gateway: NodeId, device: NodeId, update: Update | None
    ) -> None:
        ring = self.gateways[gateway]
        if device in ring.waiting:
            ring.waiting.remove(device)
            sim.manager.end(sim, gateway, device, update)

    def _close(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        ring = self.gateways[gateway]
        sim.record(
            tier="gateway", node=sim.topology.nodes[gateway].name, epoch=ring.epoch,
            round=ring.round, participants=ring.participants,
        )  # fmt: skip
        ring.made = None
        ring.rounds_left -= 1
        self._let_go(sim, gateway)
        if ring.rounds_left:
            return self._open(sim, gateway)
        return GatewayUpdate(gateway, ring.epoch, ring.model, ring.num_samples)

    def _send_away(self, sim: Simulation, gateway: NodeId, decision: Decision) -> None:
        """Not out of a ring that is under way."""
        self.migration.learn(sim, gateway, decision)
        ring = self.gateways.get(gateway)
        if ring is None or not ring.rounds_left:
            self._let_go(sim, gateway)

    def _let_go(self, sim: Simulation, gateway: NodeId) -> None:
        for device in sim.devices_of(gateway):
            if device in self.migration.leaving:
                self.migration.leaves(sim, gateway, device)


def record_skip(sim: Simulation, node: NodeId, epoch: int, number: int | None, reason: str) -> None:
    name = sim.topology.nodes[node].name
    sim.record(tier="skip", node=name, epoch=epoch, round=number, reason=reason)
