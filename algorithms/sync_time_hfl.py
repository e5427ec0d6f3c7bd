"""Delay-sensitive, sync-time HFL: local iterations by the clock.

Ali and Arafa, *Delay Sensitive Hierarchical Federated Learning With Stochastic Local Updates*,
IEEE TCCN 2025. A group is a gateway (LPS) with its devices. A local iteration: the gateway
broadcasts its model, each device makes one SGD step from it, the gateway takes the plain mean. It
lasts as the network says: one draw on ``linear``, else the slowest device's way down, step and way
up. Group i goes on until its iterations have taken the sync time S, t_i of them, at least one; it
uploads, and the cloud (GPS) waits for all groups. S = 0 is one iteration in each global round, S
>= T are groups that never meet. S and T are in simulated seconds.

Which step is meant (``normalise``): by (10) and (12) a global round moves the model by the MEAN of
its local steps, however many they were (``printed``); at equal step sizes, more of them then
hardly help. ``none`` takes the mean of the groups' whole differences, as FedAvg does; ``fednova``
that of the normalised ones, times the mean of t_i by clients (Wang et al., NeurIPS 2020, the
paper's [17]). With S = 0 all three are the same.

- Erratum: Algorithm 1, line 21 sets the elapsed time to that of the last round; it is added.
- Algorithm 1 goes on while elapsed times are <= S and <= T, (7) and (13) stop where they are >=.
  They differ in a tie alone; we do as (7) and (13).
- The clock of a group starts when the global model has come to its gateway. In the paper's delays
  the way there is part of tau_g, and all groups start at once.
- ``system_time_s``: T of (13); the round that goes past it is finished. [run] sim_time_s instead
  cuts that round off, so that nobody has more time than others: use it to compare at equal times.
- Remark 3 has a rate for each group by the t_i of a round that has not begun; we take its last
  round's t_i, 1 before the first. Groups with many iterations then count less in (12); the paper
  says nothing of it.
- A local iteration is one step, whatever [training] epochs says.

An iteration in which nobody answered is none: it takes time and is not counted in t_i. A group
whose model or upload is lost is left out of the global round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from algorithms.rounds import (
    GatewayRounds,
    GatewayUpdate,
    Gathering,
    Order,
    StatelessRule,
)
from algorithms.rules import weighted_mean
from algorithms.sync_cloud import CloudDeadline
from algorithms.sync_schedule import (
    AdaptiveSchedule,
    ConstantSchedule,
    PerGroupSchedule,
    SyncSchedule,
)
from simulator.errors import UserError
from simulator.events import Alarm, Arrived, Event, Job, Lost, Update
from simulator.kernel import Simulation
from simulator.section import LONGEST_S, SHORTEST_S, Section
from simulator.units import NodeId, to_ns

if TYPE_CHECKING:
    import torch

Normalise = Literal["printed", "none", "fednova"]
_NUMBER_BYTES = 8


class SyncTimeSection(Section):
    name: Literal["sync-time"] = "sync-time"
    sync_time_s: float = Field(ge=0, le=LONGEST_S)
    """S: how long groups iterate in a global round; an iteration that has begun is finished."""
    schedule: SyncSchedule = ConstantSchedule()
    """How S differs between rounds and groups."""
    system_time_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """T: the global round that goes past it is the last, and finished; unset: as [run] says."""
    normalise: Normalise = "printed"
    """Groups' differences count by their mean step, whole, or by mean step times mean t_i."""
    gradient_bound: float | None = Field(None, gt=0)
    """G of Remark 3, from which and t_i each group has its step size; unset: [training]'s."""
    gateway_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A gateway closes an iteration after this time with what has come; unset: it waits."""
    cloud_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """The same for the cloud's round."""

    @model_validator(mode="after")
    def _may_grow(self) -> Self:
        schedule = self.schedule
        if isinstance(schedule, AdaptiveSchedule) and not (self.sync_time_s or schedule.least_s):
            raise ValueError(
                "schedule.kind = 'adaptive' makes S longer by a factor, and sync_time_s = 0 stays "
                "0; give sync_time_s or schedule.least_s above 0"
            )
        return self


def mean_step(start: torch.Tensor, end: torch.Tensor, iterations: int) -> torch.Tensor:
    """What a group moved by in an iteration, in the mean."""
    return (end - start) / iterations  # Eq. (10)


def global_step(
    start: torch.Tensor,
    ends: Sequence[torch.Tensor],
    iterations: Sequence[int],
    clients: Sequence[int],
    normalise: Normalise,
) -> torch.Tensor:
    """The next global model, from what groups ended with."""
    if normalise == "none":
        return weighted_mean(ends, clients)
    steps = (mean_step(start, end, t) for end, t in zip(ends, iterations, strict=True))
    moved = weighted_mean(steps, clients)
    if normalise == "fednova":
        moved *= sum(n * t for n, t in zip(clients, iterations, strict=True)) / sum(clients)
    return start + moved  # Eq. (12)


def agreement(steps: Sequence[torch.Tensor], weights: Sequence[float]) -> float:
    """1 if all are alike, 0 if at right angles; 1 for one step alone or none at all."""
    together = float(weighted_mean(steps, weights).square().sum())
    apart = sum(w * float(step.square().sum()) for w, step in zip(weights, steps, strict=True))
    apart /= sum(weights)
    alone = sum(w * w for w in weights) / sum(weights) ** 2
    return (together / apart - alone) / (1 - alone) if apart and alone < 1 else 1.0


def remark_3_rate(iterations: int, groups: int, gradient_bound: float) -> float:
    """The step size that keeps Lemma 1's bound at 1, for a group of so many iterations."""
    return 1 / (gradient_bound * sqrt(2 * (iterations**2 + groups)))  # Remark 3


@dataclass
class OneStepMean(StatelessRule):
    """A local iteration: each device makes one step, the gateway takes the plain mean."""

    rates: dict[NodeId, float] = field(default_factory=dict)
    """By gateway: its devices' step size, if it is not [training]'s."""

    def job(
        self, device: NodeId, model: torch.Tensor, control: torch.Tensor | None, tag: Order
    ) -> Job:
        return Job(
            device, model, tag, steps=1, learning_rate=self.rates.get(tag.gateway)
        )  # Eq. (5)

    def merge(
        self, model: torch.Tensor, answers: deque[Update], devices: list[NodeId]
    ) -> torch.Tensor:
        count = len(answers)
        return weighted_mean(
            (answers.popleft().model for _ in range(count)), [1] * count
        )  # Eq. (6)


class GlobalModel(NamedTuple):
    """Cloud to gateway."""

    round: int
    """u."""
    model: torch.Tensor
    sync_time_s: float


@dataclass
class SyncTimeHFL:
    params: SyncTimeSection
    lower: GatewayRounds
    sync_time_s: float
    """S, as the schedule has it now."""
    model: torch.Tensor | None = None
    """x^u."""
    gathering: Gathering[GatewayUpdate] = field(default_factory=Gathering)
    """Its round is u."""

    def start(self, sim: Simulation) -> None:
        self._check_factors(sim)
        self.model = sim.model
        self._open(sim)

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(dst=gateway, message=GlobalModel() as message):
                self._iterate(sim, gateway, message)
            case Arrived(src=gateway, message=GatewayUpdate() as message):
                self._no_longer_wait(sim, gateway, message.epoch, message)
            case Lost(dst=gateway, message=GlobalModel(round=number)):
                self._no_longer_wait(sim, gateway, number, None)
            case Lost(src=gateway, message=GatewayUpdate(epoch=number)):
                self._no_longer_wait(sim, gateway, number, None)
            case Alarm(tag=CloudDeadline(round=number)):
                if self.gathering.round == number and self.gathering.waiting:
                    self.gathering.waiting = []
                    self._close(sim)
            case _:
                self._upload(sim, self.lower.handle(sim, event))

    # A group

    def _iterate(self, sim: Simulation, gateway: NodeId, message: GlobalModel) -> None:
        self._set_rate(sim, gateway)
        until = sim.now + to_ns(message.sync_time_s)  # Eq. (7)
        update = self.lower.enter(sim, gateway, message.round, message.model, until)
        self._upload(sim, update)

    def _set_rate(self, sim: Simulation, gateway: NodeId) -> None:
        bound, before = self.params.gradient_bound, self.lower.gateways.get(gateway)
        if bound is None:
            return
        assert isinstance(self.lower.rule, OneStepMean)
        iterations = max(1, before.rounds) if before else 1
        rate = remark_3_rate(iterations, len(_groups(sim)), bound)
        self.lower.rule.rates[gateway] = rate

    def _upload(self, sim: Simulation, update: GatewayUpdate | None) -> None:
        if update is None:
            return
        extra = sim.manager.upload_bytes(sim, update.gateway)
        extra += _NUMBER_BYTES * (self.params.normalise == "fednova")  # t_i
        sim.send(update.gateway, sim.topology.cloud, update, extra_bytes=extra)  # Alg. 1 l.17

    # The cloud

    def _open(self, sim: Simulation) -> None:
        members = _groups(sim)
        self.gathering.open(members)
        assert self.model is not None
        extra = _NUMBER_BYTES * isinstance(self.params.schedule, AdaptiveSchedule)  # S
        for gateway in members:
            time_s = self._sync_time_s(sim, gateway)
            message = GlobalModel(self.gathering.round, self.model, time_s)
            sim.send(sim.topology.cloud, gateway, message, extra_bytes=extra)  # Alg. 1 l.5
        if self.params.cloud_timeout_s is not None:
            sim.after(self.params.cloud_timeout_s, CloudDeadline(self.gathering.round))

    def _sync_time_s(self, sim: Simulation, gateway: NodeId) -> float:
        group = sim.topology.gateways.index(gateway)
        return self.params.schedule.sync_time_s(self.sync_time_s, self.gathering.round, group)

    def _no_longer_wait(
        self, sim: Simulation, gateway: NodeId, number: int, update: GatewayUpdate | None
    ) -> None:
        gathering = self.gathering
        if not gathering.expects(number, gateway):
            return
        gathering.waiting.remove(gateway)
        if update is not None:
            gathering.arrived[gateway] = update
        if not gathering.waiting:
            self._close(sim)  # Eq. (9)

    def _close(self, sim: Simulation) -> None:
        uploads, number = list(self.gathering.take()), self.gathering.round
        if uploads:
            self._step(sim, uploads)
        assert self.model is not None
        sim.report(number, self.model)
        end_s = self.params.system_time_s
        if end_s is not None and sim.now >= to_ns(end_s):  # Eq. (13)
            sim.stop("time")
            return
        self.lower.migration.decide(sim, sim.manager.reassociate(sim, number))
        self._open(sim)

    def _step(self, sim: Simulation, uploads: list[GatewayUpdate]) -> None:
        start = self.model
        assert start is not None
        ends = [upload.model for upload in uploads]
        iterations = [upload.rounds for upload in uploads]
        clients = [max(1, len(sim.devices_of(upload.gateway))) for upload in uploads]
        self.model = global_step(start, ends, iterations, clients, self.params.normalise)
        for upload in uploads:
            self._record(sim, upload, self.model)
        if isinstance(self.params.schedule, AdaptiveSchedule):
            steps = [mean_step(start, end, t) for end, t in zip(ends, iterations, strict=True)]
            agreed = agreement(steps, clients)
            self.sync_time_s = self.params.schedule.next_s(self.sync_time_s, agreed)

    def _record(self, sim: Simulation, upload: GatewayUpdate, model: torch.Tensor) -> None:
        """t_i, and what Lemma 1 bounds."""
        sim.record(
            tier="group", node=sim.topology.nodes[upload.gateway].name, epoch=upload.epoch,
            iterations=upload.rounds, sync_time_s=self._sync_time_s(sim, upload.gateway),
            deviation=float((model - upload.model).square().sum()),
        )  # fmt: skip

    def _check_factors(self, sim: Simulation) -> None:
        schedule, gateways = self.params.schedule, len(sim.topology.gateways)
        if isinstance(schedule, PerGroupSchedule) and len(schedule.factors) != gateways:
            raise UserError(
                f"algorithm.schedule.factors has {len(schedule.factors)} factors for {gateways} "
                "gateways; give one for each"
            )


def _groups(sim: Simulation) -> list[NodeId]:
    return [gateway for gateway in sim.topology.gateways if sim.devices_of(gateway)]


def sync_time_hfl(params: SyncTimeSection) -> SyncTimeHFL:
    lower = GatewayRounds(1, OneStepMean(), params.gateway_timeout_s)
    return SyncTimeHFL(params, lower, params.sync_time_s)
