"""HGA-FL, and any global rule over any sub-center rule: a cloud over synchronous sub-centers.

Xie, Xiong, Luo, *Hierarchical Global Asynchronous Federated Learning Across Multi-Center*, ACML
2024, and its supplement. A sub-center (a gateway here) goes through R synchronous rounds with its
devices, each as long as its slowest device takes, and uploads; it then waits in the cloud's buffer
(T_w) until K are there. The cloud makes a step of them and answers those K alone. How the step is
made says ``[algorithm.cloud]`` (``algorithms.global_rules``), what happens in a round
``[algorithm.gateway]`` (``algorithms.sub_center``). ``hga-fl`` is ``hga-g`` over ``s-dyn``, which
are the defaults.

- Erratum: after Algorithm 2 has set t_j to 1 it counts once more, so that every upload but the
  first would come after R - 1 rounds. R rounds for every upload are meant.
- An upload's row in metrics.parquet has Gamma_j, ``staleness``: the global steps since its start,
  0 if there were none; ``staleness_s``: the seconds since the cloud sent that; ``wait_s``: T_w; and
  zeta_j, ``cached_age`` and ``cached_age_s``: the same for the upload before it, which c_j was
  until now. The paper has no unit for seconds but the mean time of a mini-batch.

A model that is lost between cloud and sub-center is sent again by the one who sent it. An upload
into which no device's training went is answered, not counted. With ``cloud_timeout_s`` no upload
waits longer than that for others: the step is made of what is there. A sub-center that comes late
to a synchronous step is answered with the newest model. One without devices rests, and gets the
cloud's model when a device has come to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from algorithms.global_rules import GlobalRule, GlobalSection, HgaGSection, Upload, global_rule
from algorithms.migration import Move
from algorithms.rounds import GatewayRounds, GatewayUpdate
from algorithms.sub_center import SDynSection, SubCenterSection, sub_center_rule
from simulator.errors import UserError
from simulator.events import Alarm, Arrived, Event, Lost
from simulator.kernel import Simulation
from simulator.section import LONGEST_S, SHORTEST_S, Section
from simulator.units import NodeId, Time, to_seconds

if TYPE_CHECKING:
    import torch


class TwoLevelSection(Section):
    name: Literal["two-level", "hga-fl"] = "two-level"
    cloud: GlobalSection = HgaGSection()
    """What the cloud makes of uploads; hga-g where no name is given."""
    gateway: SubCenterSection = SDynSection()
    """What sub-centers and their devices do in a round; s-dyn where no name is given."""
    gateway_rounds: int = Field(8, ge=1)
    """R: rounds inside a sub-center per upload."""
    gateway_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A sub-center closes its round after this time with what has come; unset: it waits."""
    cloud_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """An upload waits at most so long in the cloud's buffer; unset: until K are there."""

    @model_validator(mode="before")
    @classmethod
    def _default_rules(cls, content: Any) -> Any:
        """A table without a name is of the default rule."""
        if not isinstance(content, dict):
            return content
        rules = {"cloud": "hga-g", "gateway": "s-dyn"}
        given = {key: content[key] for key in rules if isinstance(content.get(key), dict)}
        return content | {key: {"name": rules[key]} | table for key, table in given.items()}

    @model_validator(mode="after")
    def _is_what_it_says(self) -> Self:
        pair = self.cloud.name, self.gateway.name
        if self.name == "hga-fl" and pair != ("hga-g", "s-dyn"):
            raise ValueError(
                f'hga-fl is "hga-g" over "s-dyn", not {pair[0]!r} over {pair[1]!r}; '
                'use name = "two-level"'
            )
        return self


class CloudModel(NamedTuple):
    """Cloud to gateway."""

    epoch: int
    model: torch.Tensor


class BufferDeadline(NamedTuple):
    """Alarm tag: the global step of this epoch is made now, if it has not been yet."""

    epoch: int


class Start(NamedTuple):
    """What a sub-center begins with, and since when."""

    epoch: int
    time: Time
    model: torch.Tensor


class Age(NamedTuple):
    """When a cached difference began."""

    epoch: int
    time: Time


class Waiting(NamedTuple):
    """An upload in the buffer."""

    end: torch.Tensor
    since: Time


@dataclass
class TwoLevel:
    rule: GlobalRule
    lower: GatewayRounds
    timeout_s: float | None = None
    fresh_staleness: int = 0
    """Of an upload whose start is still the newest model."""
    model: torch.Tensor | None = None
    epoch: int = 0
    """t."""
    starts: dict[NodeId, Start] = field(default_factory=dict)
    """By sub-center: the newest model that it was sent."""
    buffer: dict[NodeId, Waiting] = field(default_factory=dict)
    """H."""
    cached: dict[NodeId, Age] = field(default_factory=dict)
    """By sub-center: its last upload that counted."""
    resting: dict[NodeId, None] = field(default_factory=dict)
    """Gateways without devices."""
    told: dict[NodeId, int] = field(default_factory=dict)
    """By gateway: bytes beside the model in its last upload."""

    def start(self, sim: Simulation) -> None:
        self.model = sim.model
        self._check_capacity(sim)
        for gateway in sim.topology.gateways:
            self._answer(sim, gateway)  # Alg. 1 l.2

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(dst=gateway, message=CloudModel(epoch=epoch, model=model)):
                self._upload(sim, self.lower.enter(sim, gateway, epoch, model))
            case Arrived(src=gateway, message=GatewayUpdate() as message):
                self._receive(sim, gateway, message)
            case Lost(dst=gateway, message=CloudModel()):
                self._send_model(sim, gateway)
            case Lost(src=gateway, message=GatewayUpdate() as message):
                self._send_up(sim, gateway, message)
            case Alarm(tag=BufferDeadline(epoch=epoch)):
                if epoch == self.epoch and self.buffer:
                    self._aggregate(sim)
            case Arrived(message=Move(gateway=gateway)):
                self._upload(sim, self.lower.handle(sim, event))
                if gateway in self.resting:
                    del self.resting[gateway]
                    self._send_model(sim, gateway)
            case _:
                self._upload(sim, self.lower.handle(sim, event))

    # The cloud

    def _receive(self, sim: Simulation, gateway: NodeId, message: GatewayUpdate) -> None:
        is_late = self.rule.is_synchronous and self.starts[gateway].epoch < self.epoch
        if is_late or not message.num_samples:
            self._answer(sim, gateway)
            return
        if not self.buffer and self.timeout_s is not None:
            sim.after(self.timeout_s, BufferDeadline(self.epoch))
        self.buffer[gateway] = Waiting(message.model, sim.now)
        self._aggregate_if_full(sim)

    def _aggregate_if_full(self, sim: Simulation) -> None:
        active = len(self.starts.keys() - self.resting.keys())
        if self.buffer and len(self.buffer) >= min(self.rule.capacity(active), active):
            self._aggregate(sim)  # Alg. 1 l.8

    def _aggregate(self, sim: Simulation) -> None:
        assert self.model is not None
        buffer, self.buffer = sorted(self.buffer.items()), {}
        fresh = self.epoch + self.fresh_staleness
        uploads = [
            Upload(gateway, self.starts[gateway].model, end, fresh - self.starts[gateway].epoch)
            for gateway, (end, _) in buffer
        ]
        self.model = self.rule.step(self.model, self.epoch, uploads, len(self.starts))
        self.epoch += 1
        for upload, (_, (_, since)) in zip(uploads, buffer, strict=True):
            self._record(sim, upload, since)
        sim.report(self.epoch, self.model)
        self.lower.migration.decide(sim, sim.manager.reassociate(sim, self.epoch))
        for gateway, _ in buffer:
            self._answer(sim, gateway)  # Alg. 1 l.14

    def _record(self, sim: Simulation, upload: Upload, since: Time) -> None:
        start, cached = self.starts[upload.gateway], self.cached.get(upload.gateway)
        age = {} if cached is None else {
            "cached_age": self.epoch - 1 - cached.epoch,
            "cached_age_s": to_seconds(sim.now - cached.time),
        }  # fmt: skip
        sim.record(
            tier="upload", node=sim.topology.nodes[upload.gateway].name, epoch=self.epoch,
            staleness=upload.staleness, staleness_s=to_seconds(sim.now - start.time),
            wait_s=to_seconds(sim.now - since), **age,
        )  # fmt: skip
        self.cached[upload.gateway] = Age(start.epoch, start.time)

    def _answer(self, sim: Simulation, gateway: NodeId) -> None:
        if sim.devices_of(gateway):
            self._send_model(sim, gateway)
        else:
            self.resting[gateway] = None
            self._aggregate_if_full(sim)

    def _send_model(self, sim: Simulation, gateway: NodeId) -> None:
        assert self.model is not None
        self.starts[gateway] = Start(self.epoch, sim.now, self.model)
        sim.send(sim.topology.cloud, gateway, CloudModel(self.epoch, self.model))

    def _check_capacity(self, sim: Simulation) -> None:
        sub_centers = sum(bool(sim.devices_of(gateway)) for gateway in sim.topology.gateways)
        capacity = self.rule.capacity(sub_centers)
        if capacity > sub_centers:
            raise UserError(
                f"algorithm.cloud.buffer = {capacity}: of the topology's gateways {sub_centers} "
                "have devices, and each waits in the buffer until it is full; "
                f"use at most {sub_centers}"
            )

    # A sub-center

    def _upload(self, sim: Simulation, update: GatewayUpdate | None) -> None:
        if update is not None:
            self.told[update.gateway] = sim.manager.upload_bytes(sim, update.gateway)
            self._send_up(sim, update.gateway, update)  # Alg. 2 l.19

    def _send_up(self, sim: Simulation, gateway: NodeId, update: GatewayUpdate) -> None:
        sim.send(gateway, sim.topology.cloud, update, extra_bytes=self.told[gateway])


def two_level(params: TwoLevelSection) -> TwoLevel:
    rule = sub_center_rule(params.gateway)
    lower = GatewayRounds(params.gateway_rounds, rule, params.gateway_timeout_s)
    return TwoLevel(global_rule(params.cloud), lower, params.cloud_timeout_s)
