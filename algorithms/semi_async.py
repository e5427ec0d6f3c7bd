"""Semi-asynchronous gateways under a synchronous cloud.

The baseline of Async-HFL (Yu et al., IoTDI 2023, Sections 4 and 6.3): gateways buffer updates as
in Nguyen et al., *Federated Learning with Buffered Asynchronous Aggregation* (FedBuff), AISTATS
2022, but for a period of time instead of a number of updates. At the end of each period the gateway
adds the mean of what has come, asks its idle devices again, and after R periods uploads. A device
that is still busy then is not waited for: its difference from the model that it began with counts
when it comes, less by its staleness in periods (FedBuff's 1 / sqrt(1 + staleness) by default).

A period in which nothing came leaves the model alone. While a gateway waits for the cloud, what
comes is buffered and nobody is asked.

The authors' program does otherwise, and ``absent = "repeat"`` follows it: at the end of a period
the gateway takes the mean, by samples, of models: those that have come, and of every device that is
still busy the model that it reported last, however old, once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from algorithms.migration import Decision, Migration, Move
from algorithms.rounds import GatewayUpdate
from algorithms.rules import weighted_mean
from algorithms.staleness import PolynomialStaleness, Staleness
from algorithms.sync_cloud import SyncCloud
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Simulation
from simulator.section import LONGEST_S, SHORTEST_S, Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class SemiAsyncSection(Section):
    name: Literal["semi-async"] = "semi-async"
    period_s: float = Field(100.0, ge=SHORTEST_S, le=LONGEST_S)
    """How long a gateway gathers updates before it takes their mean."""
    gateway_periods: int = Field(5, ge=1)
    """R: periods of a gateway per cloud round."""
    server_rate: float = Field(1.0, gt=0)
    """What the mean of the differences is multiplied by."""
    staleness: Staleness = PolynomialStaleness()
    """How the weight of a difference falls with the periods since its start was downloaded."""
    absent: Literal["left-out", "repeat"] = "left-out"
    """Whether busy devices count in a period's mean with the models that they reported last."""
    proximal: float = Field(0.0, ge=0)
    """rho: pull of local training towards the downloaded model."""
    device_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A device that has not answered after this time is given up; unset: it is waited for."""
    cloud_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """The cloud closes its round after this time with what has come; unset: it waits."""


class Order(NamedTuple):
    """What a gateway asks of a device; comes back with the update, so that late ones are known."""

    gateway: NodeId
    number: int
    period: int


class GatewayModel(NamedTuple):
    """Gateway to device."""

    order: Order
    model: torch.Tensor


class DeviceUpdate(NamedTuple):
    """Device to gateway."""

    order: Order
    update: Update


class DeviceDeadline(NamedTuple):
    """Alarm tag: the device is given up now, if it is still under way with this order."""

    device: NodeId
    order: Order


class PeriodEnd(NamedTuple):
    """Alarm tag."""

    gateway: NodeId
    period: int


@dataclass
class Gateway:
    model: torch.Tensor
    epoch: int
    """The cloud's."""
    period: int = 0
    """How many have ended."""
    periods_left: int = 0
    """0: it waits for the cloud."""
    under_way: dict[NodeId, Order] = field(default_factory=dict)
    buffer: list[DeviceUpdate] = field(default_factory=list)
    num_samples: int = 0
    orders: int = 0
    last: dict[NodeId, Update] = field(default_factory=dict)
    """By device what it reported last, if that is to be repeated."""


@dataclass
class GatewayPeriods:
    params: SemiAsyncSection
    gateways: dict[NodeId, Gateway] = field(default_factory=dict)
    started: dict[NodeId, Order] = field(default_factory=dict)
    """By device: the newest order that has reached it."""
    migration: Migration = field(default_factory=Migration)

    def enter(
        self, sim: Simulation, gateway: NodeId, epoch: int, model: torch.Tensor
    ) -> GatewayUpdate | None:
        state = self.gateways.setdefault(gateway, Gateway(model, -1))
        if state.epoch >= epoch:
            return None
        in_the_middle = state.periods_left > 0
        state.model, state.epoch, state.num_samples = model, epoch, 0
        state.periods_left = self.params.gateway_periods
        if not in_the_middle:
            sim.after(self.params.period_s, PeriodEnd(gateway, state.period))
        self._ask_devices(sim, gateway)
        return None

    def handle(self, sim: Simulation, event: Event) -> GatewayUpdate | None:
        match event:
            case Arrived(dst=device, message=GatewayModel(order=order, model=start)):
                self._train(sim, device, order, start)
            case Trained(update=Update(job=Job(node=device, tag=Order() as order)) as update):
                if not self.migration.has_left(sim, order.gateway, device):
                    extra = sim.manager.report_bytes(sim, device)
                    sim.send(device, order.gateway, DeviceUpdate(order, update), extra_bytes=extra)
            case Arrived(src=device, message=DeviceUpdate(order=order) as message):
                if self._is_idle_again(sim, device, order, message.update):
                    self.gateways[order.gateway].buffer.append(message)
            case (
                Lost(dst=device, message=GatewayModel(order=order))
                | Lost(src=device, message=DeviceUpdate(order=order))
                | Alarm(tag=DeviceDeadline(device=device, order=order))
            ):
                self._is_idle_again(sim, device, order, None)
            case Alarm(tag=PeriodEnd(gateway=gateway)):
                return self._end_period(sim, gateway)
            case Arrived(dst=gateway, message=Decision() as decision):
                self._send_away(sim, gateway, decision)
            case (
                Arrived(dst=device, message=Move(gateway=gateway))
                | Lost(src=gateway, dst=device, message=Move())
            ):
                self.migration.arrive(sim, gateway, device)
        return None

    def _ask_devices(self, sim: Simulation, gateway: NodeId) -> None:
        state, timeout = self.gateways[gateway], self.params.device_timeout_s
        idle = [d for d in self.migration.staying(sim, gateway) if d not in state.under_way]
        for device in sim.manager.select(sim, gateway, idle):
            state.orders += 1
            order = Order(gateway, state.orders, state.period)
            state.under_way[device] = order
            sim.manager.begin(sim, gateway, device)
            sim.send(gateway, device, GatewayModel(order, state.model))
            if timeout is not None:
                sim.after(timeout, DeviceDeadline(device, order))

    def _end_period(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        state = self.gateways[gateway]
        self._mix(sim, gateway, state)
        state.period += 1
        state.periods_left -= 1
        if not state.periods_left:
            return GatewayUpdate(gateway, state.epoch, state.model, state.num_samples)
        sim.after(self.params.period_s, PeriodEnd(gateway, state.period))
        self._ask_devices(sim, gateway)
        return None

    def _mix(self, sim: Simulation, gateway: NodeId, state: Gateway) -> None:
        buffer, state.buffer = state.buffer, []
        sim.record(
            tier="gateway", node=sim.topology.nodes[gateway].name,
            epoch=state.epoch, round=state.period + 1, participants=len(buffer),
        )  # fmt: skip
        sim.expect([message.update for message in buffer])
        state.num_samples += sum(message.update.num_samples for message in buffer)
        mean = self._mean_of_models if self.params.absent == "repeat" else self._mean_of_changes
        state.model = mean(state, buffer)

    def _mean_of_changes(self, state: Gateway, buffer: list[DeviceUpdate]) -> torch.Tensor:
        """FedBuff: w + eta_g * mean of the weighted differences."""
        model = state.model.clone()
        for order, update in buffer:
            weight = self.params.staleness.weight(state.period - order.period)
            rate = self.params.server_rate * weight / len(buffer)
            model.add_(update.model - update.job.start, alpha=rate)
        return model

    def _mean_of_models(self, state: Gateway, buffer: list[DeviceUpdate]) -> torch.Tensor:
        state.last |= {message.update.node: message.update for message in buffer}
        asked = {*state.under_way, *(message.update.node for message in buffer)}
        updates = [state.last[device] for device in sorted(asked & state.last.keys())]
        if not updates:
            return state.model
        weights = [update.num_samples for update in updates]
        return weighted_mean((update.model for update in updates), weights)

    def _is_idle_again(
        self, sim: Simulation, device: NodeId, order: Order, update: Update | None
    ) -> bool:
        """False for an order that was given up before, or answered."""
        state = self.gateways[order.gateway]
        if state.under_way.get(device) != order:
            return False
        del state.under_way[device]
        sim.manager.end(sim, order.gateway, device, update)
        self.migration.leaves(sim, order.gateway, device)
        return True

    def _train(self, sim: Simulation, device: NodeId, order: Order, start: torch.Tensor) -> None:
        """Unless the device has a newer model of that gateway already."""
        before = self.started.get(device)
        if before and before.gateway == order.gateway and before.number >= order.number:
            return
        self.started[device] = order
        sim.train(Job(node=device, start=start, tag=order, pull=self.params.proximal))

    def _send_away(self, sim: Simulation, gateway: NodeId, decision: Decision) -> None:
        self.migration.learn(sim, gateway, decision)
        state = self.gateways.get(gateway)
        busy = state.under_way if state else {}
        for device, _ in decision.moves:
            if device not in busy:
                self.migration.leaves(sim, gateway, device)


def semi_async(params: SemiAsyncSection) -> SyncCloud:
    return SyncCloud(GatewayPeriods(params), params.cloud_timeout_s)
