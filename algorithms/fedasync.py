"""FedAsync: two tiers, the cloud mixes each device's update when it comes.

Xie, Koyejo, Gupta, *Asynchronous Federated Optimization*, 2019: the scheduler
triggers devices, the updater mixes, in epoch t,

    alpha_t = alpha * s(t - tau),    x_t = (1 - alpha_t) x_{t-1} + alpha_t x_new

where tau is the time stamp of the model that the device trained from, with rho as proximal pull.
Cloud and devices talk end to end: gateways only forward, and who belongs to which gateway counts
only for the data. A transfer is one, of kind "up" or "down", however many hops the network takes.

What the paper leaves open, and what we do:

- Its text has s = 1 for a fresh model, t = tau; its listing counts t on before it mixes, so that
  nothing is fresher than 1. We take the text: staleness is how many updates have been mixed in
  since the model was sent, 0 for a fresh one. (Async-HFL, as printed, is one more.)
- Who is triggered, and when: as soon as a place is free, a device that is idle. The selector says
  who of the idle may; those take their turns, in random order or longest idle first, and the
  selector is asked again when all of them have been asked.
- A device whose transfer is lost, or that is later than its timeout, is idle again, and what it
  may send later is ignored.

An epoch is one update: evaluate after as many as suits you (``[record] evaluate_every_epochs``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from algorithms.rules import mix
from algorithms.staleness import PolynomialStaleness, Staleness
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Simulation
from simulator.rng import Stream
from simulator.section import LONGEST_S, SHORTEST_S, Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class FedAsyncSection(Section):
    name: Literal["fedasync"] = "fedasync"
    alpha: float = Field(0.6, gt=0, le=1)
    """Weight of a device's model, before staleness."""
    proximal: float = Field(0.0, ge=0)
    """rho: pull of local training towards the downloaded model."""
    concurrency: int | None = Field(None, ge=1)
    """The most devices under way at once; unset: all that the selector asks for."""
    turns: Literal["random", "longest-idle"] = "random"
    """In which order the devices that may train are asked, as places become free."""
    device_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A device that has not answered after this time is given up; unset: it is waited for."""
    staleness: Staleness = PolynomialStaleness()
    """s: how the weight falls with the updates mixed in since the device's model was sent."""


class Order(NamedTuple):
    """What the cloud asks of a device; comes back with the update, so that late ones are known."""

    number: int
    epoch: int
    """tau: the time stamp of the model."""


class CloudModel(NamedTuple):
    """Cloud to device: (x_t, t)."""

    order: Order
    model: torch.Tensor


class DeviceUpdate(NamedTuple):
    """Device to cloud: (x_new, tau)."""

    order: Order
    update: Update


class Deadline(NamedTuple):
    """Alarm tag: the device is given up now, if it is still under way with this order."""

    device: NodeId
    order: Order


@dataclass
class FedAsync:
    params: FedAsyncSection
    model: torch.Tensor | None = None
    epoch: int = 0
    """t."""
    idle: dict[NodeId, None] = field(default_factory=dict)
    """Who has been idle longest comes first."""
    waiting: list[NodeId] = field(default_factory=list)
    """Those of the idle who may train; whose turn is next comes last."""
    under_way: dict[NodeId, Order] = field(default_factory=dict)
    orders: int = 0
    started: dict[NodeId, Order] = field(default_factory=dict)
    """By device: the newest order that has reached it."""

    def start(self, sim: Simulation) -> None:
        self.model = sim.model
        self.idle = dict.fromkeys(d for d in sim.topology.devices if d in sim.association)
        self._ask_devices(sim)

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(dst=device, message=CloudModel(order=order, model=start)):
                self._train(sim, device, order, start)
            case Trained(update=Update(job=Job(node=device, tag=Order() as order)) as update):
                extra = sim.manager.report_bytes(sim, device)
                sim.send(device, sim.topology.cloud, DeviceUpdate(order, update), extra_bytes=extra)
            case Arrived(src=device, message=DeviceUpdate(order=order, update=update)):
                if self._is_idle_again(sim, device, order, update):
                    self._mix(sim, device, order, update)
                    self._ask_devices(sim)
            case (
                Lost(dst=device, message=CloudModel(order=order))
                | Lost(src=device, message=DeviceUpdate(order=order))
                | Alarm(tag=Deadline(device=device, order=order))
            ):
                if self._is_idle_again(sim, device, order, None):
                    self._ask_devices(sim)

    # The updater

    def _mix(self, sim: Simulation, device: NodeId, order: Order, update: Update) -> None:
        assert self.model is not None
        staleness = self.epoch - order.epoch
        self.epoch += 1
        weight = self.params.alpha * self.params.staleness.weight(staleness)  # alpha_t
        self.model = mix(self.model, update.model, weight)  # x_t
        sim.record(
            tier="update", node=sim.topology.nodes[device].name,
            epoch=self.epoch, staleness=staleness,
        )  # fmt: skip
        sim.report(self.epoch, self.model)

    # The scheduler

    def _ask_devices(self, sim: Simulation) -> None:
        limit = self.params.concurrency
        free = len(self.idle) if limit is None else limit - len(self.under_way)
        if free > 0 and self.idle and not self.waiting:
            self.waiting = self._choose(sim)
        for _ in range(min(free, len(self.waiting))):
            self._ask(sim, self.waiting.pop())
        if not self.idle:
            self.idle.clear()  # an emptied dict is still walked through at its full length

    def _choose(self, sim: Simulation) -> list[NodeId]:
        params, cloud = self.params, sim.topology.cloud
        selected = sim.manager.select(sim, cloud, list(self.idle))
        if params.concurrency is not None and params.turns == "random":
            return [int(d) for d in sim.rng(Stream.SELECTION, cloud).permutation(selected)]
        chosen = frozenset(selected)
        return [device for device in reversed(self.idle) if device in chosen]

    def _ask(self, sim: Simulation, device: NodeId) -> None:
        assert self.model is not None
        self.orders += 1
        order = Order(self.orders, self.epoch)
        del self.idle[device]
        self.under_way[device] = order
        sim.manager.begin(sim, sim.topology.cloud, device)
        sim.send(sim.topology.cloud, device, CloudModel(order, self.model))
        if self.params.device_timeout_s is not None:
            sim.after(self.params.device_timeout_s, Deadline(device, order))

    def _is_idle_again(
        self, sim: Simulation, device: NodeId, order: Order, update: Update | None
    ) -> bool:
        """False for an order that was given up before, or answered."""
        if self.under_way.get(device) != order:
            return False
        del self.under_way[device]
        sim.manager.end(sim, sim.topology.cloud, device, update)
        self.idle[device] = None
        return True

    # A device

    def _train(self, sim: Simulation, device: NodeId, order: Order, start: torch.Tensor) -> None:
        """Unless the device has a newer model already."""
        before = self.started.get(device)
        if before is None or before.number < order.number:
            self.started[device] = order
            sim.train(Job(node=device, start=start, tag=order, pull=self.params.proximal))
