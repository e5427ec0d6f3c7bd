"""The warm-up that comes before an algorithm whose management looks at gradients.

Yu et al., *Async-HFL*, IoTDI 2023, Section 5.4: every device trains once from the first model and
reports its full gradient; the cloud fits a sketch to the gradients and sends its parameters to all
who compute sketches. Then the algorithm begins. All of this traffic is overhead. What the paper
leaves open, and what we do:

- Devices are asked as far as the gateways' budgets allow, and a gateway does not wait for its
  slowest: it passes on what it has when ``warm_up_share`` of its devices have answered, or none is
  left to be waited for. What comes to or from a device that was given up is ignored.
- Where the cloud then associates devices anew, its decisions travel like all others
  (``algorithms.migration``), and the algorithm begins when all who were told to go are there. That
  the cloud knows when costs nothing. Who has something on its way stays where it is.
- The algorithm does not wait for the parameters: a device that has none yet reports no sketch. What
  is lost of them is sent again, up to three times.

A free warm-up, with the association that follows it, costs neither time nor bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from algorithms.migration import Decision, Migration, Move
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Algorithm, Simulation
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch

_TRIES = 3


class FirstModel(NamedTuple):
    """Cloud to gateway, gateway to device."""

    model: torch.Tensor


class Gradient(NamedTuple):
    """Device to gateway: what it has trained, as a difference."""

    update: Update


class Gradients(NamedTuple):
    """Gateway to cloud."""

    updates: tuple[Update, ...]


class Parameters(NamedTuple):
    """Cloud to gateway, gateway to device."""

    tries: int


class Task(NamedTuple):
    """Job tag."""

    gateway: NodeId


class GivenUp(NamedTuple):
    """Alarm tag."""

    gateway: NodeId
    device: NodeId


@dataclass
class Gateway:
    model: torch.Tensor
    unasked: list[NodeId]
    needed: int
    under_way: dict[NodeId, None] = field(default_factory=dict)
    reports: list[Update] = field(default_factory=list)
    is_through: bool = False


@dataclass
class WarmUp:
    """Stands before ``algorithm`` and hands all events on that are not its own."""

    algorithm: Algorithm
    share: float
    timeout_s: float | None
    cost: Literal["network", "free"] = "network"
    gateways: dict[NodeId, Gateway] = field(default_factory=dict)
    reported: dict[NodeId, tuple[Update, ...]] = field(default_factory=dict)
    waiting: dict[NodeId, None] = field(default_factory=dict)
    """Gateways from which the cloud expects gradients."""
    migration: Migration = field(default_factory=Migration)
    telling: int = 0
    """Decisions and moves on their way; the algorithm begins when there are none left."""

    def start(self, sim: Simulation) -> None:
        assert sim.model is not None
        if self.cost == "free":
            self._learn_for_nothing(sim)
            return
        for gateway in sim.topology.gateways:
            if sim.devices_of(gateway):
                self.waiting[gateway] = None
                self._send(sim, sim.topology.cloud, gateway, FirstModel(sim.model))

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(src=src, dst=node, message=FirstModel(model=model)):
                if src == sim.topology.cloud:
                    self._begin(sim, node, model)
                elif node in self.gateways[src].under_way:  # else it was given up
                    sim.train(Job(node=node, start=model, tag=Task(src)))
            case Trained(update=Update(job=Job(node=device, tag=Task(gateway=gateway))) as update):
                if not self.migration.has_left(sim, gateway, device):
                    extra = sim.manager.report_bytes(sim, device)
                    self._send(sim, device, gateway, Gradient(update), extra_bytes=extra)
            case Arrived(src=device, dst=gateway, message=Gradient(update=update)):
                self._end(sim, gateway, device, update)
            case Lost(src=device, dst=gateway, message=Gradient()):
                self._end(sim, gateway, device, None)
            case Alarm(tag=GivenUp(gateway=gateway, device=device)):
                self._end(sim, gateway, device, None)
            case Lost(src=src, dst=dst, message=FirstModel() as message):
                if src == sim.topology.cloud:
                    self._send(sim, src, dst, message)
                else:
                    self._end(sim, src, dst, None)
            case Arrived(src=gateway, message=Gradients(updates=updates)):
                self._gather(sim, gateway, updates)
            case Lost(src=gateway, dst=cloud, message=Gradients(updates=updates) as message):
                self._send(sim, gateway, cloud, message, len(updates))
            case Arrived(dst=node, message=Parameters()):
                self._spread(sim, node)
            case Lost(src=src, dst=dst, message=Parameters(tries=tries)):
                if tries < _TRIES:
                    self._send_parameters(sim, src, dst, tries + 1)
            case Arrived(dst=gateway, message=Decision() as decision) if self.telling:
                self._told(sim, self._send_away(sim, gateway, decision))
            case Lost(message=Decision()) if self.telling:
                self._told(sim)
            case (
                Arrived(dst=device, message=Move(gateway=gateway))
                | Lost(src=gateway, dst=device, message=Move())
            ) if self.telling:
                self.migration.arrive(sim, gateway, device)
                self._told(sim)
            case _:
                self.algorithm.handle(sim, event)

    def _send(
        self, sim: Simulation, src: NodeId, dst: NodeId, message: object,
        models: int = 1, extra_bytes: int = 0,
    ) -> None:  # fmt: skip
        nbytes = models * sim.learner.model_bytes + extra_bytes
        sim.send(src, dst, message, nbytes, overhead=True)

    def _send_parameters(self, sim: Simulation, src: NodeId, dst: NodeId, tries: int) -> None:
        sim.send(src, dst, Parameters(tries), sim.manager.parameter_bytes(sim), overhead=True)

    # A gateway and its devices

    def _begin(self, sim: Simulation, gateway: NodeId, model: torch.Tensor) -> None:
        devices = sim.devices_of(gateway)
        needed = max(1, math.ceil(self.share * len(devices)))
        self.gateways[gateway] = Gateway(model, devices, needed)
        self._ask(sim, gateway)

    def _ask(self, sim: Simulation, gateway: NodeId) -> None:
        state = self.gateways[gateway]
        for device in sim.manager.select(sim, gateway, list(state.unasked)):
            state.unasked.remove(device)
            state.under_way[device] = None
            sim.manager.begin(sim, gateway, device)
            self._send(sim, gateway, device, FirstModel(state.model))
            if self.timeout_s is not None:
                sim.after(self.timeout_s, GivenUp(gateway, device))

    def _end(self, sim: Simulation, gateway: NodeId, device: NodeId, update: Update | None) -> None:
        state = self.gateways[gateway]
        if device not in state.under_way:
            return
        del state.under_way[device]
        sim.manager.end(sim, gateway, device, update)
        if update is not None:
            state.reports.append(update)
        if len(state.reports) < state.needed:
            self._ask(sim, gateway)
        if len(state.reports) >= state.needed or not state.under_way:
            self._report(sim, gateway, state)

    def _report(self, sim: Simulation, gateway: NodeId, state: Gateway) -> None:
        """Who is still busy is no longer waited for: the algorithm may ask it again."""
        state.is_through = True
        for device in state.under_way:
            sim.manager.drop(gateway, device)
        state.under_way = {}
        message = Gradients(tuple(state.reports))
        self._send(sim, gateway, sim.topology.cloud, message, len(state.reports))
        state.reports = []

    def _send_away(self, sim: Simulation, gateway: NodeId, decision: Decision) -> int:
        """How many devices are told to go."""
        self.migration.learn(sim, gateway, decision)
        return sum(self.migration.leaves(sim, gateway, device) for device, _ in decision.moves)

    # The cloud

    def _gather(self, sim: Simulation, gateway: NodeId, updates: tuple[Update, ...]) -> None:
        del self.waiting[gateway]
        self.reported[gateway] = updates
        if self.waiting:
            return
        everything = [update for g in sorted(self.reported) for update in self.reported[g]]
        sim.manager.fit(sim, everything)
        self.reported = {}
        moves = sim.manager.reassociate(sim, 0)
        self.migration.decide(sim, moves)
        self.telling = len({sim.association[device] for device in moves})
        if not moves:
            self._hand_over(sim)

    def _told(self, sim: Simulation, more: int = 0) -> None:
        self.telling += more - 1
        if not self.telling:
            self._hand_over(sim)

    def _hand_over(self, sim: Simulation) -> None:
        told = {*self.gateways, *sim.association.values()}
        for node in sorted(told) if sim.manager.parameter_bytes(sim) else ():
            self._send_parameters(sim, sim.topology.cloud, node, 1)
        self.algorithm.start(sim)

    def _learn_for_nothing(self, sim: Simulation) -> None:
        assert sim.model is not None
        jobs = [Job(node=device, start=sim.model) for device in sorted(sim.association)]
        updates = [sim.train_for_nothing(job) for job in jobs]
        sim.expect(updates)
        sim.manager.fit(sim, updates)
        sim.association.update(sim.manager.reassociate(sim, 0))
        for node in (*sim.topology.gateways, *sim.topology.devices):
            sim.manager.equip(node)
        self.algorithm.start(sim)

    def _spread(self, sim: Simulation, node: NodeId) -> None:
        sim.manager.equip(node)
        if sim.manager.devices_sketch and node in sim.topology.gateways:
            for device in sim.devices_of(node):
                self._send_parameters(sim, node, device, 1)
