"""Hierarchical FedAvg: synchronous at both tiers.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*,
AISTATS 2017; in three tiers: Liu et al., *Client-Edge-Cloud Hierarchical Federated Learning*,
ICC 2020. With ``proximal`` > 0 the devices run FedProx (Li et al., MLSys 2020).

Cloud round: the cloud sends its model to every gateway that has devices. Each gateway runs R
rounds (send to the selected devices, wait for all of them, mean by samples) and sends its
model up; the cloud waits for all of them and takes the mean by samples. What is lost on the
way, or later than its deadline, is left out of that mean; a model that arrives after its
round has been closed is ignored. A round in which nothing came back leaves the model alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from algorithms.rules import weighted_mean
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Selector, Simulation
from simulator.section import LONGEST_S, Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class FedAvgSection(Section):
    name: Literal["fedavg"] = "fedavg"
    gateway_rounds: int = Field(1, ge=1)
    """R: rounds inside a gateway per cloud round."""
    proximal: float = Field(0.0, ge=0)
    """mu of FedProx; 0 is FedAvg."""
    gateway_timeout_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """A gateway closes its round after this time with what has come; unset: it waits."""
    cloud_timeout_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """The same for the cloud's round."""


class CloudModel(NamedTuple):
    """Cloud to gateway."""

    round: int
    model: torch.Tensor


class GatewayModel(NamedTuple):
    """Gateway to device."""

    round: int
    model: torch.Tensor


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


class GatewayUpdate(NamedTuple):
    """Gateway to cloud; num_samples is what went into the model."""

    round: int
    model: torch.Tensor
    num_samples: int


class Order(NamedTuple):
    """Job tag: who asked for it, in which round."""

    gateway: NodeId
    round: int


class Deadline(NamedTuple):
    """Alarm tag: node's round is closed now, if it is still open."""

    node: NodeId
    round: int


@dataclass
class Gathering:
    """A node's open round: whom it waits for, and what has come."""

    round: int = 0
    waiting: list[NodeId] = field(default_factory=list)
    arrived: dict[NodeId, DeviceUpdate | GatewayUpdate] = field(default_factory=dict)

    def open(self, members: list[NodeId]) -> None:
        self.round, self.waiting, self.arrived = self.round + 1, list(members), {}

    def expects(self, number: int, member: NodeId) -> bool:
        return number == self.round and member in self.waiting

    def mean(self, otherwise: torch.Tensor) -> torch.Tensor:
        """By samples, in the order of node ids: arrival order leaves no trace."""
        nodes = [node for node in sorted(self.arrived) if self.arrived[node].num_samples]
        weights = [self.arrived[node].num_samples for node in nodes]
        models = (self.arrived.pop(node).model for node in nodes)
        return weighted_mean(models, weights) if nodes else otherwise


@dataclass
class Gateway:
    model: torch.Tensor
    cloud_round: int
    rounds_left: int
    gathering: Gathering
    num_samples: int = 0


@dataclass
class FedAvg:
    params: FedAvgSection
    selector: Selector
    model: torch.Tensor | None = None
    gathering: Gathering = field(default_factory=Gathering)
    gateways: dict[NodeId, Gateway] = field(default_factory=dict)
    orders: dict[NodeId, Order] = field(default_factory=dict)
    """By device: the newest that has reached it."""

    def start(self, sim: Simulation) -> None:
        self.model = sim.model
        self._open_cloud_round(sim)

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(dst=gateway, message=CloudModel() as message):
                if self._enter(gateway, message):
                    self._open_round(sim, gateway)
            case Arrived(src=gateway, dst=device, message=GatewayModel() as message):
                self._train(sim, device, Order(gateway, message.round), message.model)
            case Trained(update=Update(job=Job(node=device, tag=Order() as order)) as update):
                sim.send(device, order.gateway, DeviceUpdate(order.round, update))
            case Arrived(src=device, dst=gateway, message=DeviceUpdate() as message):
                gathering = self.gateways[gateway].gathering
                if gathering.expects(message.round, device):
                    gathering.arrived[device] = message
                    self._no_longer_wait(sim, gateway, device)
            case Arrived(src=gateway, message=GatewayUpdate() as message):
                if self.gathering.expects(message.round, gateway):
                    self.gathering.arrived[gateway] = message
                    self._no_longer_wait(sim, sim.topology.cloud, gateway)
            case Lost(src=parent, dst=child, message=CloudModel() | GatewayModel() as message):
                self._give_up(sim, parent, child, message.round)
            case Lost(src=child, dst=parent, message=DeviceUpdate() | GatewayUpdate() as message):
                self._give_up(sim, parent, child, message.round)
            case Alarm(tag=Deadline(node=node, round=number)):
                gathering = self._gathering(sim, node)
                if gathering.round == number and gathering.waiting:
                    gathering.waiting = []
                    self._close_round(sim, node)

    def _open_cloud_round(self, sim: Simulation) -> None:
        members = [g for g in sim.topology.gateways if sim.devices_of(g)]
        self.gathering.open(members)
        assert self.model is not None
        cloud = sim.topology.cloud
        for gateway in members:
            sim.send(cloud, gateway, CloudModel(self.gathering.round, self.model))
        if self.params.cloud_timeout_s is not None:
            sim.after(self.params.cloud_timeout_s, Deadline(cloud, self.gathering.round))

    def _enter(self, gateway: NodeId, message: CloudModel) -> bool:
        """Take the cloud's model up, unless the gateway has a newer one already."""
        before = self.gateways.get(gateway)
        if before and before.cloud_round >= message.round:
            return False
        gathering = before.gathering if before else Gathering()
        left = self.params.gateway_rounds
        self.gateways[gateway] = Gateway(message.model, message.round, left, gathering)
        return True

    def _train(self, sim: Simulation, device: NodeId, order: Order, start: torch.Tensor) -> None:
        """Unless the device has a newer model of that gateway already."""
        before = self.orders.get(device)
        if before and before.gateway == order.gateway and before.round >= order.round:
            return
        self.orders[device] = order
        sim.train(Job(node=device, start=start, tag=order, pull=self.params.proximal))

    def _open_round(self, sim: Simulation, gateway: NodeId) -> None:
        state = self.gateways[gateway]
        devices = self.selector.select(sim, gateway, sim.devices_of(gateway))
        state.gathering.open(devices)
        for device in devices:
            sim.send(gateway, device, GatewayModel(state.gathering.round, state.model))
        if self.params.gateway_timeout_s is not None:
            sim.after(self.params.gateway_timeout_s, Deadline(gateway, state.gathering.round))
        if not devices:
            self._close_round(sim, gateway)

    def _gathering(self, sim: Simulation, node: NodeId) -> Gathering:
        return self.gathering if node == sim.topology.cloud else self.gateways[node].gathering

    def _give_up(self, sim: Simulation, parent: NodeId, child: NodeId, number: int) -> None:
        if self._gathering(sim, parent).expects(number, child):
            self._no_longer_wait(sim, parent, child)

    def _no_longer_wait(self, sim: Simulation, parent: NodeId, child: NodeId) -> None:
        gathering = self._gathering(sim, parent)
        gathering.waiting.remove(child)
        if not gathering.waiting:
            self._close_round(sim, parent)

    def _close_round(self, sim: Simulation, node: NodeId) -> None:
        if node == sim.topology.cloud:
            assert self.model is not None
            self.model = self.gathering.mean(otherwise=self.model)
            sim.report(self.gathering.round, self.model)
            self._open_cloud_round(sim)
        else:
            self._close_gateway_round(sim, node)

    def _close_gateway_round(self, sim: Simulation, gateway: NodeId) -> None:
        state = self.gateways[gateway]
        arrived = state.gathering.arrived
        state.num_samples += sum(update.num_samples for update in arrived.values())
        sim.record(
            tier="gateway", node=sim.topology.nodes[gateway].name,
            epoch=state.cloud_round, round=state.gathering.round, participants=len(arrived),
        )  # fmt: skip
        sim.expect([m.update for _, m in sorted(arrived.items()) if isinstance(m, DeviceUpdate)])
        state.model = state.gathering.mean(otherwise=state.model)
        state.rounds_left -= 1
        if state.rounds_left:
            self._open_round(sim, gateway)
        else:
            answer = GatewayUpdate(state.cloud_round, state.model, state.num_samples)
            sim.send(gateway, sim.topology.cloud, answer)
