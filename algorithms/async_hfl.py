"""Async-HFL: asynchronous at both tiers, staleness-aware.

Yu et al., *Async-HFL: Efficient and Robust Asynchronous Federated Learning in Hierarchical IoT
Networks*, IoTDI 2023, Algorithm 1; staleness functions: Xie et al., *Asynchronous Federated
Optimization*, 2019. Lines are counted over the whole listing, 1 to 27.

Devices never wait for each other, nor gateways. A gateway mixes each update into its model when
it arrives, and asks at once which idle devices train next (Section 5.4, Eq. (10), is
``[selection] name = "utility-ilp"``); after Z updates it sends its model up. The cloud mixes that
in and sends its new model to all gateways, or only back to the uploader; every so many epochs it
moves devices between gateways (Eq. (11) is ``[association] name = "utility-ilp"``). What the
listing leaves open, and what we do:

- A cloud model that comes in the middle of Z updates is kept, and taken when the gateway has
  uploaded; one that comes after an upload and before the next device's update, at once. With
  ``cloud_model = "at-once"`` every newer one is taken as it comes, and the count to Z goes on: if
  it began again, as printed, a gateway slower than the cloud would never upload.
- z counts on across uploads, else z - zeta would be negative for a device that trained meanwhile.
- As printed, h and z are the numbers of the epoch that the mixing makes: the freshest possible
  update has staleness 1, not 0; ``fresh_staleness = 0`` counts it as not stale.
- Line 19 sends to all devices; only those that are idle are asked, a busy one is left to finish,
  also when its gateway takes a newer cloud model. ``in_flight = "drop"`` gives busy devices up
  then, as the authors' program does.
- A device that is to move goes when it is idle: a busy one first comes back to the gateway that
  asked it.

A device whose transfer is lost, or that is later than its timeout, is idle again, and what it may
send later is ignored. Nothing else is sent again but a gateway's first model: a gateway whose
upload, or whose newer cloud model, is lost goes on from the model that it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from algorithms.migration import Decision, Migration, Move
from algorithms.rules import mix
from algorithms.staleness import PolynomialStaleness, Staleness
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Simulation
from simulator.section import LONGEST_S, SHORTEST_S, Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class AsyncHFLSection(Section):
    name: Literal["async-hfl"] = "async-hfl"
    alpha: float = Field(0.6, gt=0, le=1)
    """Weight of a gateway's model at the cloud, before staleness."""
    beta: float = Field(0.6, gt=0, le=1)
    """Weight of a device's model at its gateway, before staleness."""
    updates_per_upload: int = Field(20, ge=1)
    """Z: device updates that a gateway mixes in before it uploads."""
    proximal: float = Field(0.0, ge=0)
    """rho: pull of local training towards the downloaded model."""
    concurrency: int | None = Field(None, ge=1)
    """The most devices of a gateway under way at once; unset: all whom the selection asks for."""
    device_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A device that has not answered after this time is given up; unset: it is waited for."""
    cloud_sends_to: Literal["all", "uploader"] = "all"
    """Who gets a new cloud model: all gateways, as printed, or only the one that uploaded."""
    cloud_model: Literal["after-upload", "at-once"] = "after-upload"
    """When a gateway takes a newer cloud model that comes in the middle of its Z updates."""
    in_flight: Literal["keep", "drop"] = "keep"
    """Whether a gateway still wants its busy devices' updates when it takes a newer cloud model."""
    fresh_staleness: Literal[0, 1] = 1
    """The staleness of an update whose start nothing has been mixed into since."""
    staleness: Staleness = PolynomialStaleness()
    """s: how the weight of an update falls with the epochs since its start was downloaded."""


class CloudModel(NamedTuple):
    """Cloud to gateway: (w_h, h)."""

    epoch: int
    model: torch.Tensor


class GatewayUpdate(NamedTuple):
    """Gateway to cloud: (w_new, tau)."""

    epoch: int
    model: torch.Tensor


class Order(NamedTuple):
    """What a gateway asks of a device; comes back with the update, so that late ones are known."""

    gateway: NodeId
    number: int
    epoch: int
    """zeta: the gateway's epoch when it sent its model."""


class GatewayModel(NamedTuple):
    """Gateway to device: (w_z, z)."""

    order: Order
    model: torch.Tensor


class DeviceUpdate(NamedTuple):
    """Device to gateway: (w_new, zeta)."""

    order: Order
    update: Update


class Deadline(NamedTuple):
    """Alarm tag: the device is given up now, if it is still under way with this order."""

    device: NodeId
    order: Order


@dataclass
class Gateway:
    model: torch.Tensor
    cloud_epoch: int
    """tau: which cloud model this one started from."""
    idle: list[NodeId]
    """Who has been idle longest comes first."""
    under_way: dict[NodeId, Order] = field(default_factory=dict)
    newest: CloudModel | None = None
    """From the cloud, not taken yet."""
    epoch: int = 0
    """z."""
    mixed: int = 0
    """Updates since the last upload."""
    orders: int = 0


@dataclass
class AsyncHFL:
    params: AsyncHFLSection
    model: torch.Tensor | None = None
    epoch: int = 0
    """h."""
    gateways: dict[NodeId, Gateway] = field(default_factory=dict)
    started: dict[NodeId, Order] = field(default_factory=dict)
    """By device: the newest order that has reached it."""
    migration: Migration = field(default_factory=Migration)
    sent: dict[NodeId, int] = field(default_factory=dict)
    """By gateway: the epoch of the newest model on its way to it, or there."""

    def start(self, sim: Simulation) -> None:
        self.model = sim.model
        self._send_cloud_model(sim, _members(sim))  # Alg. 1 l.2

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(dst=gateway, message=CloudModel() as message):
                self._hear(sim, gateway, message)
            case Arrived(dst=device, message=GatewayModel(order=order, model=start)):
                self._train(sim, device, order, start)
            case Trained(update=Update(job=Job(node=device, tag=Order() as order)) as update):
                if not self.migration.has_left(sim, order.gateway, device):
                    extra = sim.manager.report_bytes(sim, device)
                    answer = DeviceUpdate(order, update)
                    sim.send(device, order.gateway, answer, extra_bytes=extra)  # Alg. 1 l.27
            case Arrived(src=device, message=DeviceUpdate(order=order, update=update)):
                if self._is_idle_again(sim, device, order, update):
                    self._mix_at_gateway(sim, order, update)
            case Arrived(src=gateway, message=GatewayUpdate() as message):
                self._mix_at_cloud(sim, gateway, message)
            case Lost(dst=gateway, message=CloudModel(epoch=epoch)):
                self._send_first_again(sim, gateway, epoch)
            case (
                Lost(dst=device, message=GatewayModel(order=order))
                | Lost(src=device, message=DeviceUpdate(order=order))
                | Alarm(tag=Deadline(device=device, order=order))
            ):
                if self._is_idle_again(sim, device, order, None):
                    self._ask_devices(sim, order.gateway)
            case Arrived(dst=gateway, message=Decision() as decision):
                self._send_away(sim, gateway, decision)
            case (
                Arrived(dst=device, message=Move(gateway=gateway))
                | Lost(src=gateway, dst=device, message=Move())
            ):
                self._join(sim, gateway, device)

    # The cloud

    def _mix_at_cloud(self, sim: Simulation, gateway: NodeId, message: GatewayUpdate) -> None:
        assert self.model is not None
        staleness = self.epoch - message.epoch + self.params.fresh_staleness
        self.epoch += 1
        weight = self.params.alpha * self.params.staleness.weight(staleness)  # Eq. (5a)
        self.model = mix(self.model, message.model, weight)  # Eq. (5b), Alg. 1 l.7
        sim.record(
            tier="upload", node=sim.topology.nodes[gateway].name,
            epoch=self.epoch, staleness=staleness,
        )  # fmt: skip
        sim.report(self.epoch, self.model)
        to_all = self.params.cloud_sends_to == "all"
        moves = sim.manager.reassociate(sim, self.epoch)
        receivers = _members(sim) if to_all else [gateway]
        receivers += sorted(set(moves.values()) - set(receivers) - set(self.gateways))
        self._send_cloud_model(sim, receivers)  # Alg. 1 l.8
        self.migration.decide(sim, moves)

    def _send_cloud_model(self, sim: Simulation, gateways: list[NodeId]) -> None:
        assert self.model is not None
        for gateway in gateways:
            self.sent[gateway] = self.epoch
            sim.send(sim.topology.cloud, gateway, CloudModel(self.epoch, self.model))

    def _send_first_again(self, sim: Simulation, gateway: NodeId, lost_epoch: int) -> None:
        """Unless the gateway has a model, or a newer one is on its way to it already."""
        if gateway not in self.gateways and self.sent[gateway] == lost_epoch:
            self._send_cloud_model(sim, [gateway])

    # A gateway

    def _hear(self, sim: Simulation, gateway: NodeId, message: CloudModel) -> None:
        state = self.gateways.get(gateway)
        if state is None:
            idle = self.migration.staying(sim, gateway)
            self.gateways[gateway] = Gateway(message.model, message.epoch, idle)
        elif message.epoch > max(state.cloud_epoch, state.newest.epoch if state.newest else 0):
            state.newest = message
            if state.mixed and self.params.cloud_model == "after-upload":
                return
            self._take_newest(sim, state)
        self._ask_devices(sim, gateway)  # Alg. 1 l.13

    def _mix_at_gateway(self, sim: Simulation, order: Order, update: Update) -> None:
        gateway, state = order.gateway, self.gateways[order.gateway]
        staleness = state.epoch - order.epoch + self.params.fresh_staleness
        state.epoch += 1
        state.mixed += 1
        weight = self.params.beta * self.params.staleness.weight(staleness)
        state.model = mix(state.model, update.model, weight)  # Alg. 1 l.18
        sim.record(
            tier="gateway", node=sim.topology.nodes[gateway].name,
            epoch=state.cloud_epoch, round=state.epoch, participants=1, staleness=staleness,
        )  # fmt: skip
        if state.mixed == self.params.updates_per_upload:
            answer = GatewayUpdate(state.cloud_epoch, state.model)
            extra = sim.manager.upload_bytes(sim, gateway)
            sim.send(gateway, sim.topology.cloud, answer, extra_bytes=extra)  # Alg. 1 l.20
            state.mixed = 0
            self._take_newest(sim, state)
        self._ask_devices(sim, gateway)  # Alg. 1 l.19

    def _ask_devices(self, sim: Simulation, gateway: NodeId) -> None:
        state, params = self.gateways[gateway], self.params
        limit = params.concurrency
        free = len(state.idle) if limit is None else limit - len(state.under_way)
        if not state.idle or free <= 0:
            return
        for device in sim.manager.select(sim, gateway, list(state.idle), free):
            state.orders += 1
            order = Order(gateway, state.orders, state.epoch)
            state.idle.remove(device)
            state.under_way[device] = order
            sim.manager.begin(sim, gateway, device)
            sim.send(gateway, device, GatewayModel(order, state.model))
            if params.device_timeout_s is not None:
                sim.after(params.device_timeout_s, Deadline(device, order))

    def _take_newest(self, sim: Simulation, state: Gateway) -> None:
        if state.newest is None:
            return
        state.cloud_epoch, state.model = state.newest  # Alg. 1 l.12
        state.newest = None
        if self.params.in_flight == "drop":
            for device, order in list(state.under_way.items()):
                sim.manager.drop(order.gateway, device)
                self._make_idle(sim, order.gateway, device)

    def _is_idle_again(
        self, sim: Simulation, device: NodeId, order: Order, update: Update | None
    ) -> bool:
        """False for an order that was given up before, or answered."""
        state = self.gateways[order.gateway]
        if state.under_way.get(device) != order:
            return False
        sim.manager.end(sim, order.gateway, device, update)
        self._make_idle(sim, order.gateway, device)
        return True

    def _make_idle(self, sim: Simulation, gateway: NodeId, device: NodeId) -> None:
        state = self.gateways[gateway]
        del state.under_way[device]
        if not self.migration.leaves(sim, gateway, device):
            state.idle.append(device)

    def _send_away(self, sim: Simulation, gateway: NodeId, decision: Decision) -> None:
        self.migration.learn(sim, gateway, decision)
        state = self.gateways.get(gateway)
        idle = state.idle if state else sim.devices_of(gateway)
        idle[:] = [device for device in idle if not self.migration.leaves(sim, gateway, device)]

    def _join(self, sim: Simulation, gateway: NodeId, device: NodeId) -> None:
        self.migration.arrive(sim, gateway, device)
        if gateway in self.gateways:  # else it has no model yet, and asks when it has
            self.gateways[gateway].idle.append(device)
            self._ask_devices(sim, gateway)

    # A device

    def _train(self, sim: Simulation, device: NodeId, order: Order, start: torch.Tensor) -> None:
        """Unless the device has a newer model of that gateway already."""
        before = self.started.get(device)
        if before and before.gateway == order.gateway and before.number >= order.number:
            return
        self.started[device] = order
        sim.train(Job(node=device, start=start, tag=order, pull=self.params.proximal))  # Eq. (4)


def _members(sim: Simulation) -> list[NodeId]:
    return [gateway for gateway in sim.topology.gateways if sim.devices_of(gateway)]
