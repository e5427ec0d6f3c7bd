"""A synchronous cloud over any lower tier: it sends its model to every gateway that has devices,
waits for all of them and takes the mean, by samples if nothing else is said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from algorithms.migration import Migration
from algorithms.rounds import GatewayUpdate, Gathering, Weights, mean_of
from simulator.events import Alarm, Arrived, Event, Lost
from simulator.kernel import Simulation
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class LowerTier(Protocol):
    """Gateways and their devices."""

    migration: Migration

    def enter(
        self, sim: Simulation, gateway: NodeId, epoch: int, model: torch.Tensor
    ) -> GatewayUpdate | None:
        """The gateway has the cloud's model of that epoch."""
        ...

    def handle(self, sim: Simulation, event: Event) -> GatewayUpdate | None: ...


class CloudModel(NamedTuple):
    """Cloud to gateway."""

    round: int
    model: torch.Tensor


class CloudDeadline(NamedTuple):
    """Alarm tag: the cloud's round is closed now, if it is still open."""

    round: int


@dataclass
class SyncCloud:
    lower: LowerTier
    timeout_s: float | None = None
    weights: Weights = "samples"
    model: torch.Tensor | None = None
    gathering: Gathering[GatewayUpdate] = field(default_factory=Gathering)

    def start(self, sim: Simulation) -> None:
        self.model = sim.model
        self._open(sim)

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(dst=gateway, message=CloudModel() as message):
                self._upload(sim, self.lower.enter(sim, gateway, message.round, message.model))
            case Arrived(src=gateway, message=GatewayUpdate() as message):
                if self.gathering.expects(message.epoch, gateway):
                    self.gathering.arrived[gateway] = message
                    self._no_longer_wait(sim, gateway)
            case Lost(dst=gateway, message=CloudModel(round=number)):
                if self.gathering.expects(number, gateway):
                    self._no_longer_wait(sim, gateway)
            case Lost(src=gateway, message=GatewayUpdate(epoch=number)):
                if self.gathering.expects(number, gateway):
                    self._no_longer_wait(sim, gateway)
            case Alarm(tag=CloudDeadline(round=number)):
                if self.gathering.round == number and self.gathering.waiting:
                    self.gathering.waiting = []
                    self._close(sim)
            case _:
                self._upload(sim, self.lower.handle(sim, event))

    def _open(self, sim: Simulation) -> None:
        members = [g for g in sim.topology.gateways if sim.devices_of(g)]
        self.gathering.open(members)
        assert self.model is not None
        for gateway in members:
            sim.send(sim.topology.cloud, gateway, CloudModel(self.gathering.round, self.model))
        if self.timeout_s is not None:
            sim.after(self.timeout_s, CloudDeadline(self.gathering.round))

    def _upload(self, sim: Simulation, update: GatewayUpdate | None) -> None:
        if update is not None:
            extra = sim.manager.upload_bytes(sim, update.gateway)
            sim.send(update.gateway, sim.topology.cloud, update, extra_bytes=extra)

    def _no_longer_wait(self, sim: Simulation, gateway: NodeId) -> None:
        self.gathering.waiting.remove(gateway)
        if not self.gathering.waiting:
            self._close(sim)

    def _close(self, sim: Simulation) -> None:
        uploads, epoch = self.gathering.take(), self.gathering.round
        if uploads:
            self.model = mean_of(uploads, self.weights)
        assert self.model is not None
        sim.report(epoch, self.model)
        self.lower.migration.decide(sim, sim.manager.reassociate(sim, epoch))
        self._open(sim)
