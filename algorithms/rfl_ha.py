"""RFL-HA: synchronous gateways under an asynchronous cloud.

Wang et al., *Resource-Efficient Federated Learning with Hierarchical Aggregation in Edge
Computing*, INFOCOM 2021, as Async-HFL compares with it (Yu et al., IoTDI 2023, Section 6.3). A
gateway goes through R synchronous rounds with its devices and uploads; the cloud mixes that in,
weighted by its staleness as in Async-HFL, Eq. (5), and answers that gateway alone. Which devices
share a gateway is for its re-clustering heuristic, ``[association] name = "rfl-ha"``.

A gateway without devices rests, and gets the cloud's model when a device has come to it.

A model that is lost between cloud and gateway is sent again by the one who sent it. An upload into
which no device's training went (all were lost, or have moved away) is answered, not mixed in. As
in Async-HFL, the freshest possible upload has staleness 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from algorithms.migration import Move
from algorithms.rounds import GatewayRounds, GatewayUpdate
from algorithms.rules import mix
from algorithms.staleness import PolynomialStaleness, Staleness
from simulator.events import Arrived, Event, Lost
from simulator.kernel import Simulation
from simulator.section import LONGEST_S, Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class RflHaSection(Section):
    name: Literal["rfl-ha"] = "rfl-ha"
    alpha: float = Field(0.6, gt=0, le=1)
    """Weight of a gateway's model at the cloud, before staleness."""
    staleness: Staleness = PolynomialStaleness()
    """How the weight of an upload falls with the cloud epochs since its start was downloaded."""
    gateway_rounds: int = Field(5, ge=1)
    """R: rounds inside a gateway per upload."""
    proximal: float = Field(0.0, ge=0)
    """rho: pull of local training towards the downloaded model."""
    gateway_timeout_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """A gateway closes its round after this time with what has come; unset: it waits."""


class CloudModel(NamedTuple):
    """Cloud to gateway."""

    epoch: int
    model: torch.Tensor


@dataclass
class RflHa:
    params: RflHaSection
    lower: GatewayRounds
    model: torch.Tensor | None = None
    epoch: int = 0
    resting: dict[NodeId, None] = field(default_factory=dict)
    """Gateways without devices."""
    told: dict[NodeId, int] = field(default_factory=dict)
    """By gateway: bytes beside the model in its last upload."""

    def start(self, sim: Simulation) -> None:
        self.model = sim.model
        for gateway in sim.topology.gateways:
            self._answer(sim, gateway)

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(dst=gateway, message=CloudModel(epoch=epoch, model=model)):
                self._upload(sim, self.lower.enter(sim, gateway, epoch, model))
            case Arrived(src=gateway, message=GatewayUpdate() as message):
                if message.num_samples:
                    self._mix(sim, gateway, message)
                self._answer(sim, gateway)
            case Lost(dst=gateway, message=CloudModel()):
                self._send_model(sim, gateway)
            case Lost(src=gateway, message=GatewayUpdate() as message):
                self._send_up(sim, gateway, message)
            case Arrived(message=Move(gateway=gateway)):
                self._upload(sim, self.lower.handle(sim, event))
                if gateway in self.resting:
                    del self.resting[gateway]
                    self._send_model(sim, gateway)
            case _:
                self._upload(sim, self.lower.handle(sim, event))

    def _answer(self, sim: Simulation, gateway: NodeId) -> None:
        if sim.devices_of(gateway):
            self._send_model(sim, gateway)
        else:
            self.resting[gateway] = None

    def _send_model(self, sim: Simulation, gateway: NodeId) -> None:
        assert self.model is not None
        sim.send(sim.topology.cloud, gateway, CloudModel(self.epoch, self.model))

    def _upload(self, sim: Simulation, update: GatewayUpdate | None) -> None:
        if update is not None:
            self.told[update.gateway] = sim.manager.upload_bytes(sim, update.gateway)
            self._send_up(sim, update.gateway, update)

    def _send_up(self, sim: Simulation, gateway: NodeId, update: GatewayUpdate) -> None:
        sim.send(gateway, sim.topology.cloud, update, extra_bytes=self.told[gateway])

    def _mix(self, sim: Simulation, gateway: NodeId, message: GatewayUpdate) -> None:
        assert self.model is not None
        self.epoch += 1
        staleness = self.epoch - message.epoch
        weight = self.params.alpha * self.params.staleness.weight(staleness)
        self.model = mix(self.model, message.model, weight)
        sim.record(
            tier="upload", node=sim.topology.nodes[gateway].name,
            epoch=self.epoch, staleness=staleness,
        )  # fmt: skip
        sim.report(self.epoch, self.model)
        self.lower.migration.decide(sim, sim.manager.reassociate(sim, self.epoch))


def rfl_ha(params: RflHaSection) -> RflHa:
    lower = GatewayRounds(params.gateway_rounds, params.proximal, params.gateway_timeout_s)
    return RflHa(params, lower)
