"""Synchronous rounds: a node waits for all whom it has asked, and makes one model of theirs.

What is lost on the way, or later than its deadline, is left out; a model that arrives after its
round has been closed is ignored. A round in which nothing came back leaves the model alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from algorithms.migration import Decision, Migration, Move
from algorithms.rules import weighted_mean
from simulator.errors import UserError
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Simulation
from simulator.units import NodeId, Time, to_seconds

if TYPE_CHECKING:
    import torch


class Contribution(Protocol):
    @property
    def model(self) -> torch.Tensor: ...
    @property
    def num_samples(self) -> int: ...


C = TypeVar("C", bound=Contribution)


@dataclass
class Gathering(Generic[C]):
    """A node's open round: whom it waits for, and what has come."""

    round: int = 0
    waiting: list[NodeId] = field(default_factory=list)
    arrived: dict[NodeId, C] = field(default_factory=dict)

    def open(self, members: list[NodeId]) -> None:
        self.round, self.waiting, self.arrived = self.round + 1, list(members), {}

    def expects(self, number: int, member: NodeId) -> bool:
        return number == self.round and member in self.waiting

    def take(self) -> deque[C]:
        """What samples went into, in the order of node ids: arrival order leaves no trace."""
        arrived, self.arrived = sorted(self.arrived.items()), {}
        return deque(answer for _, answer in arrived if answer.num_samples)


Weights = Literal["samples", "equal"]


def mean_of(contributions: deque[C], by: Weights = "samples") -> torch.Tensor:
    """Empties the queue, so that no more models are held than need be."""
    weights = [contribution.num_samples if by == "samples" else 1 for contribution in contributions]
    return weighted_mean((contributions.popleft().model for _ in weights), weights)


class GatewayRule(Protocol):
    """What devices do with their gateway's model, and what the gateway makes of their answers.

    A dataclass; what it keeps for devices is saved with the algorithm. It learns of an answer when
    the answer counts in a round: one that is lost or late changes nothing.
    """

    @property
    def vectors(self) -> int:
        """As large as a model, in each message between gateway and device."""
        ...

    def begin(self, devices: list[NodeId]) -> None:
        """A model of the cloud's has come to the gateway of these devices."""
        ...

    def control(self, model: torch.Tensor, devices: list[NodeId]) -> torch.Tensor | None:
        """What goes to the devices along with the gateway's model."""
        ...

    def job(
        self, device: NodeId, model: torch.Tensor, control: torch.Tensor | None, tag: Order
    ) -> Job: ...

    def merge(
        self, model: torch.Tensor, answers: deque[Update], devices: list[NodeId]
    ) -> torch.Tensor:
        """The gateway's next model, from one answer or more, which are taken out of the queue.

        ``devices`` are all of the gateway's, ``model`` is what the answers began with.
        """
        ...


class StatelessRule:
    """Of a GatewayRule, what is the same for all that keep nothing and send the model alone."""

    vectors: ClassVar[int] = 1

    def begin(self, devices: list[NodeId]) -> None:
        pass

    def control(self, model: torch.Tensor, devices: list[NodeId]) -> torch.Tensor | None:
        return None


@dataclass
class SampleMean(StatelessRule):
    """FedAvg's mean by samples; with a pull, FedProx."""

    proximal: float = 0.0

    def job(
        self, device: NodeId, model: torch.Tensor, control: torch.Tensor | None, tag: object
    ) -> Job:
        return Job(node=device, start=model, tag=tag, pull=self.proximal)

    def merge(
        self, model: torch.Tensor, answers: deque[Update], devices: list[NodeId]
    ) -> torch.Tensor:
        return mean_of(answers)


class GatewayModel(NamedTuple):
    """Gateway to device."""

    round: int
    model: torch.Tensor
    control: torch.Tensor | None


class DeviceUpdate(NamedTuple):
    """Device to gateway."""

    round: int
    update: Update

    @property
    def model(self) -> torch.Tensor:
        return self.update.model

    @property
    def num_samples(self) -> int:
        return self.update.num_samples


class Order(NamedTuple):
    """Job tag: who asked for it, in which round."""

    gateway: NodeId
    round: int


class Deadline(NamedTuple):
    """Alarm tag: the gateway's round is closed now, if it is still open."""

    gateway: NodeId
    round: int


class GatewayUpdate(NamedTuple):
    """Gateway to cloud, when it has gone through its rounds."""

    gateway: NodeId
    epoch: int
    """The cloud's, of the model that it began with."""
    model: torch.Tensor
    num_samples: int
    """What went into the model, over all rounds."""
    rounds: int = 1
    """In which somebody answered."""


@dataclass
class Gateway:
    model: torch.Tensor
    epoch: int
    rounds_left: int
    gathering: Gathering[DeviceUpdate]
    until: Time = 0
    """Rounds that end before this time are followed by another, also when none are left."""
    num_samples: int = 0
    rounds: int = 0
    """In which somebody answered."""
    opened: Time = 0
    """When the open round began."""


@dataclass
class GatewayRounds:
    """The lower tier: R rounds between a gateway and its devices from each cloud model, and more
    until a time that ``enter`` may be given.

    ``handle`` takes all events below the cloud and says when a gateway is through.
    """

    rounds: int
    """R."""
    rule: GatewayRule
    timeout_s: float | None = None
    gateways: dict[NodeId, Gateway] = field(default_factory=dict)
    orders: dict[NodeId, Order] = field(default_factory=dict)
    """By device: the newest that has reached it."""
    migration: Migration = field(default_factory=Migration)

    def enter(
        self, sim: Simulation, gateway: NodeId, epoch: int, model: torch.Tensor, until: Time = 0
    ) -> GatewayUpdate | None:
        """Begin from the cloud's model, unless the gateway has a newer one, or is at work on it."""
        before = self.gateways.get(gateway)
        at_work = before is not None and before.gathering.waiting
        if before and (before.epoch > epoch or (before.epoch == epoch and at_work)):
            return None
        gathering = before.gathering if before else Gathering()
        for device in gathering.waiting:
            sim.manager.drop(gateway, device)
        self.gateways[gateway] = Gateway(model, epoch, self.rounds, gathering, until)
        self.rule.begin(sim.devices_of(gateway))
        return self._open(sim, gateway)

    def handle(self, sim: Simulation, event: Event) -> GatewayUpdate | None:
        match event:
            case Arrived(src=gateway, dst=device, message=GatewayModel() as message):
                self._train(sim, device, Order(gateway, message.round), message)
            case Trained(update=Update(job=Job(node=device, tag=Order() as order)) as update):
                if not self.migration.has_left(sim, order.gateway, device):
                    extra = sim.manager.report_bytes(sim, device)
                    self._send(sim, device, order.gateway, DeviceUpdate(order.round, update), extra)
            case Arrived(src=device, dst=gateway, message=DeviceUpdate() as message):
                return self._no_longer_wait(sim, gateway, device, message.round, message)
            case Lost(src=gateway, dst=device, message=GatewayModel(round=number)):
                return self._no_longer_wait(sim, gateway, device, number, None)
            case Lost(src=device, dst=gateway, message=DeviceUpdate(round=number)):
                return self._no_longer_wait(sim, gateway, device, number, None)
            case Alarm(tag=Deadline(gateway=gateway, round=number)):
                return self._time_out(sim, gateway, number)
            case Arrived(dst=gateway, message=Decision() as decision):
                self._send_away(sim, gateway, decision)
            case (
                Arrived(dst=device, message=Move(gateway=gateway))
                | Lost(src=gateway, dst=device, message=Move())
            ):
                self.migration.arrive(sim, gateway, device)
        return None

    def _open(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        state = self.gateways[gateway]
        devices = sim.manager.select(sim, gateway, self.migration.staying(sim, gateway))
        state.gathering.open(devices)
        state.opened = sim.now
        control = self.rule.control(state.model, sim.devices_of(gateway))
        message = GatewayModel(state.gathering.round, state.model, control)
        for device in devices:
            sim.manager.begin(sim, gateway, device)
            self._send(sim, gateway, device, message)
        if self.timeout_s is not None:
            sim.after(self.timeout_s, Deadline(gateway, state.gathering.round))
        if devices:
            return None
        state.until = 0  # nobody is there to use the time
        return self._close(sim, gateway)

    def _send(
        self, sim: Simulation, src: NodeId, dst: NodeId, message: object, extra_bytes: int = 0
    ) -> None:
        nbytes = self.rule.vectors * sim.learner.model_bytes
        sim.send(src, dst, message, nbytes, extra_bytes=extra_bytes)

    def _no_longer_wait(
        self, sim: Simulation, gateway: NodeId, device: NodeId, number: int,
        answer: DeviceUpdate | None,
    ) -> GatewayUpdate | None:  # fmt: skip
        gathering = self.gateways[gateway].gathering
        if not gathering.expects(number, device):
            return None
        if answer is not None:
            gathering.arrived[device] = answer
        self._give_back(sim, gateway, device, answer)
        return None if gathering.waiting else self._close(sim, gateway)

    def _time_out(self, sim: Simulation, gateway: NodeId, number: int) -> GatewayUpdate | None:
        gathering = self.gateways[gateway].gathering
        if gathering.round != number or not gathering.waiting:
            return None
        for device in list(gathering.waiting):
            self._give_back(sim, gateway, device, None)
        return self._close(sim, gateway)

    def _give_back(
        self, sim: Simulation, gateway: NodeId, device: NodeId, answer: DeviceUpdate | None
    ) -> None:
        self.gateways[gateway].gathering.waiting.remove(device)
        sim.manager.end(sim, gateway, device, answer and answer.update)
        self.migration.leaves(sim, gateway, device)

    def _close(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        state, participants = self.gateways[gateway], len(self.gateways[gateway].gathering.arrived)
        answers = deque(message.update for message in state.gathering.take())
        state.num_samples += sum(update.num_samples for update in answers)
        state.rounds += bool(answers)
        sim.expect(list(answers))
        if answers:
            state.model = self.rule.merge(state.model, answers, sim.devices_of(gateway))
        number, name = state.gathering.round, sim.topology.nodes[gateway].name
        sim.record(
            tier="gateway", node=name, epoch=state.epoch, round=number, participants=participants,
            **sim.gateway_scores(number, state.model),
        )  # fmt: skip
        state.rounds_left -= 1
        if state.rounds_left > 0 or self._has_time(sim, gateway):
            return self._open(sim, gateway)
        return GatewayUpdate(gateway, state.epoch, state.model, state.num_samples, state.rounds)

    def _has_time(self, sim: Simulation, gateway: NodeId) -> bool:
        state = self.gateways[gateway]
        if sim.now < state.until and sim.now == state.opened:
            raise UserError(
                f"a round of {sim.topology.nodes[gateway].name!r} with its devices took no time, "
                f"so the {to_seconds(state.until - sim.now):g} s that it has left never pass; use "
                "another network, or give [compute] a delay"
            )
        return sim.now < state.until

    def _train(self, sim: Simulation, device: NodeId, order: Order, message: GatewayModel) -> None:
        """Unless the device has a newer model of that gateway already."""
        before = self.orders.get(device)
        if before and before.gateway == order.gateway and before.round >= order.round:
            return
        self.orders[device] = order
        sim.train(self.rule.job(device, message.model, message.control, order))

    def _send_away(self, sim: Simulation, gateway: NodeId, decision: Decision) -> None:
        self.migration.learn(sim, gateway, decision)
        state = self.gateways.get(gateway)
        busy = state.gathering.waiting if state else []
        for device, _ in decision.moves:
            if device not in busy:
                self.migration.leaves(sim, gateway, device)
