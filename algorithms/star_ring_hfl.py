"""Star and ring HFL: both tiers in parallel or in sequence, four topologies from two switches.

*Unified Analyses for Hierarchical Federated Learning: Topology Selection under Data
Heterogeneity* (under review, authors unknown), Algorithms 1 to 4. G groups (gateways here) of M
clients (devices); a global round has P group rounds, in each of which every client makes K steps.
``lower = "star"``: clients begin with the group's model, its next one is their mean. ``"ring"``:
a client begins with what the client before it has made, the group's next model is the last one's.
``top`` says the same of groups in a global round.

What the paper leaves open, and what we do:

- Means are plain, 1/M and 1/G, as printed; ``weights = "samples"`` takes FedAvg's, with which
  star-star is hierarchical FedAvg, whoever has how much.
- Groups and clients are numbered, and rings go by the numbers (``"fixed"``). Analyses of
  sequential learning shuffle: ``"shuffled"`` draws an order for every ring, of groups anew in each
  global round, of clients in each group round. ``"shortest"`` goes by the network's estimates,
  which matters only where links differ by more than their ends: through one gateway every order
  takes the sum of all ways up and down.
- Who has the model between two global rounds of a top ring is not said. The last group sends it to
  the first (``closing = "direct"``): G hops a round, and the cloud sees nothing but the first
  model; or to the cloud, which sends it to the first (``"cloud"``), and has what people want it
  for.
- The group's model lies at the group's server after each group round (Algorithms 2 and 4, l.11),
  so a lower ring begins and ends at the gateway: M + 1 hops.
- eta~ (``effective_rate``) is P K eta, P M K eta, G P K eta or G P M K eta; of unequal groups, M is
  the mean. What is in use when the run begins stays, also if devices move.
- The bound on the norm of gradients is not given: ``[training] clip_norm``.

A hop from device to device is one transfer, which the network takes through their gateway, or
directly where it has a link for it. A gateway greets a device that it takes into a ring for the
first time: radios that are to hear from each other must be with the same access point. A hop that
is lost is sent again, ``retries`` times; then whoever has the model sends it to the one after. A
device that keeps a model longer than ``device_timeout_s`` is passed over too; it learns of that at
once, and the one before it, which has kept its own, goes on. A lower ring that cannot reach its
gateway again has been in vain; where the cloud cannot be reached, the last group goes on. Who is
passed over is in metrics.parquet (tier ``skip``).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from algorithms.migration import Decision, Migration, Move
from algorithms.ring_order import RingOrder, Way
from algorithms.rounds import GatewayRounds, GatewayUpdate, Weights, mean_of
from algorithms.star_ring_bounds import Shape, steps_along
from algorithms.sync_cloud import LowerTier, SyncCloud
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.kernel import Simulation
from simulator.section import LONGEST_S, Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch

_BYTES_PER_MEMBER = 4


class StarRingSection(Section):
    name: Literal["star-ring-hfl"] = "star-ring-hfl"
    top: Literal["star", "ring"] = "star"
    """Groups in parallel, then their mean; or each from the one before it."""
    lower: Literal["star", "ring"] = "star"
    """The same for the clients of a group."""
    group_rounds: int = Field(1, ge=1)
    """P: rounds inside a group per global round."""
    local_steps: int | None = Field(None, ge=1)
    """K: a client's steps per group round; unset: what [training] says."""
    effective_rate: float | None = Field(None, gt=0)
    """eta~: the step size times all steps that follow each other in a global round; needs K."""
    weights: Weights = "equal"
    """Of the models in a star's mean."""
    group_order: Way = "fixed"
    """Of a top ring."""
    client_order: Way = "fixed"
    """Of lower rings."""
    closing: Literal["direct", "cloud"] = "direct"
    """How a top ring's model comes from the last group to the next round's first."""
    retries: int = Field(2, ge=0, le=100)
    """How often a lost hop of a ring is sent again before its end is passed over."""
    device_timeout_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """Lower ring: a client that has not passed the model on after this time is passed over."""
    gateway_timeout_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """Lower star: a gateway closes its round after this time with what has come."""
    cloud_timeout_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """Top star: the cloud closes its round after this time with what has come."""

    @property
    def deadline_key(self) -> str:
        """What keeps a silent client from being waited for for ever."""
        return "device_timeout_s" if self.lower == "ring" else "gateway_timeout_s"

    @model_validator(mode="after")
    def _steps_of_a_rate(self) -> Self:
        if self.effective_rate is not None and self.local_steps is None:
            raise ValueError(
                f"effective_rate = {self.effective_rate:g} is divided by the steps of a round, "
                "which are not known; give local_steps"
            )
        return self

    @model_validator(mode="after")
    def _keys_where_they_count(self) -> Self:
        needed = {
            "group_order": ("top", "ring"), "closing": ("top", "ring"),
            "cloud_timeout_s": ("top", "star"), "client_order": ("lower", "ring"),
            "device_timeout_s": ("lower", "ring"), "gateway_timeout_s": ("lower", "star"),
        }  # fmt: skip
        for key, (tier, shape) in needed.items():
            default = type(self).model_fields[key].default
            if getattr(self, key) != default and getattr(self, tier) != shape:
                raise ValueError(
                    f"{key} = {getattr(self, key)!r} is for {tier} = {shape!r}; delete one of them"
                )
        return self


@dataclass
class LocalSteps:
    """A rule for rounds of a gateway: K plain steps, and the group's mean."""

    steps: int | None
    rate: float | None
    weights: Weights
    vectors: ClassVar[int] = 1

    def begin(self, devices: list[NodeId]) -> None:
        pass

    def control(self, model: torch.Tensor, devices: list[NodeId]) -> torch.Tensor | None:
        return None

    def job(
        self, device: NodeId, model: torch.Tensor, control: torch.Tensor | None, tag: object
    ) -> Job:
        return Job(device, model, tag, steps=self.steps, learning_rate=self.rate)  # Alg. 1 l.6-9

    def merge(
        self, model: torch.Tensor, answers: deque[Update], devices: list[NodeId]
    ) -> torch.Tensor:
        return mean_of(answers, self.weights)  # Alg. 1 l.11


class Greeting(NamedTuple):
    """Gateway to device: who is in the ring."""

    members: tuple[NodeId, ...]


class ClientModel(NamedTuple):
    """From gateway or device to the next of a lower ring, or back to the gateway."""

    gateway: NodeId
    hop: int
    made: torch.Tensor | Update

    @property
    def model(self) -> torch.Tensor:
        return self.made.model if isinstance(self.made, Update) else self.made


class Visit(NamedTuple):
    """Job tag."""

    gateway: NodeId
    hop: int


class Patience(NamedTuple):
    """Alarm tag: the client is passed over now, if it still has the model."""

    gateway: NodeId
    hop: int


@dataclass
class Ring:
    """A gateway's: where its model is, and who is still to come."""

    model: torch.Tensor
    """The group's, before this group round."""
    epoch: int
    rounds_left: int
    round: int = 0
    hop: int = 0
    """What belongs to an earlier one is out of date."""
    holder: NodeId = -1
    """Who has the newest model; the gateway at first."""
    made: torch.Tensor | Update | None = None
    """What the holder has."""
    end: NodeId = -1
    """Whom the hop goes to."""
    losses: int = 0
    """Of this hop."""
    rest: list[NodeId] = field(default_factory=list)
    participants: int = 0
    """Of this group round."""
    num_samples: int = 0
    waiting: list[NodeId] = field(default_factory=list)
    """The holder and the end of the hop, if they are devices."""
    greeted: dict[NodeId, None] = field(default_factory=dict)


@dataclass
class ClientRings:
    """The lower tier in sequence: P rings through a gateway's devices from each model it gets."""

    rounds: int
    """P."""
    rule: LocalSteps
    order: RingOrder
    retries: int
    timeout_s: float | None = None
    gateways: dict[NodeId, Ring] = field(default_factory=dict)
    migration: Migration = field(default_factory=Migration)

    def enter(
        self, sim: Simulation, gateway: NodeId, epoch: int, model: torch.Tensor
    ) -> GatewayUpdate | None:
        """Begin from this model, unless the gateway has a newer one, or is at work on it."""
        ring = self.gateways.get(gateway)
        if ring and (ring.epoch > epoch or (ring.epoch == epoch and ring.rounds_left)):
            return None
        if ring is None:
            ring = self.gateways[gateway] = Ring(model, epoch, self.rounds)
        for device in ring.waiting:
            sim.manager.drop(gateway, device)
        ring.model, ring.epoch, ring.rounds_left = model, epoch, self.rounds  # Alg. 2 l.3
        ring.num_samples, ring.waiting = 0, []
        return self._open(sim, gateway)

    def handle(self, sim: Simulation, event: Event) -> GatewayUpdate | None:
        match event:
            case Arrived(dst=end, message=ClientModel() as message):
                return self._take(sim, end, message)
            case Trained(update=Update(job=Job(tag=Visit() as visit)) as update):
                ring = self.gateways[visit.gateway]
                if ring.hop == visit.hop:
                    ring.holder, ring.made = update.node, update
                    return self._pass_on(sim, visit.gateway)
            case Lost(message=ClientModel(gateway=gateway, hop=hop)):
                return self._lose(sim, gateway, hop)
            case Alarm(tag=Patience(gateway=gateway, hop=hop)):
                if self.gateways[gateway].hop == hop:
                    return self._skip(sim, gateway, "silent")
            case Arrived(dst=gateway, message=Decision() as decision):
                self._send_away(sim, gateway, decision)
            case (
                Arrived(dst=device, message=Move(gateway=gateway))
                | Lost(src=gateway, dst=device, message=Move())
            ):
                self.migration.arrive(sim, gateway, device)
        return None

    def _open(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        ring = self.gateways[gateway]
        members = sim.manager.select(sim, gateway, self.migration.staying(sim, gateway))
        self._greet(sim, gateway, members)
        ring.rest = self.order.of(sim, gateway, members)
        ring.round += 1
        ring.holder, ring.made, ring.participants = gateway, ring.model, 0
        return self._pass_on(sim, gateway)

    def _greet(self, sim: Simulation, gateway: NodeId, members: list[NodeId]) -> None:
        greeted = self.gateways[gateway].greeted
        for device in members:
            if device not in greeted and len(members) > 1:
                nbytes = _BYTES_PER_MEMBER * len(members)
                sim.send(gateway, device, Greeting(tuple(members)), nbytes, overhead=True)
                greeted[device] = None

    def _pass_on(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        """To the next client, or, if there is none, to the gateway."""
        ring = self.gateways[gateway]
        ring.hop, ring.losses = ring.hop + 1, 0
        if not ring.rest:
            ring.end = gateway
            if ring.holder == gateway:
                return self._close(sim, gateway)
        else:
            ring.end = ring.rest.pop(0)
            ring.waiting.append(ring.end)
            sim.manager.begin(sim, gateway, ring.end)
            if self.timeout_s is not None:
                sim.after(self.timeout_s, Patience(gateway, ring.hop))
        self._send(sim, gateway, ring)
        return None

    def _send(self, sim: Simulation, gateway: NodeId, ring: Ring) -> None:
        assert ring.made is not None
        reports = 0 if ring.holder == gateway else sim.manager.report_bytes(sim, ring.holder)
        message = ClientModel(gateway, ring.hop, ring.made)
        sim.send(ring.holder, ring.end, message, extra_bytes=reports)

    def _take(self, sim: Simulation, end: NodeId, message: ClientModel) -> GatewayUpdate | None:
        gateway, ring = message.gateway, self.gateways[message.gateway]
        if message.hop != ring.hop:
            return None
        if isinstance(message.made, Update) and ring.holder in ring.waiting:
            ring.participants += 1
            ring.num_samples += message.made.num_samples
            self._give_back(sim, gateway, ring.holder, message.made)
        if end == gateway:
            ring.model = message.model  # Alg. 2 l.11
            return self._close(sim, gateway)
        sim.train(self.rule.job(end, message.model, None, Visit(gateway, ring.hop)))  # Alg. 2 l.6
        return None

    def _lose(self, sim: Simulation, gateway: NodeId, hop: int) -> GatewayUpdate | None:
        ring = self.gateways[gateway]
        if ring.hop != hop:
            return None
        ring.losses += 1
        if ring.losses > self.retries:
            return self._skip(sim, gateway, "lost")
        self._send(sim, gateway, ring)
        return None

    def _skip(self, sim: Simulation, gateway: NodeId, reason: str) -> GatewayUpdate | None:
        """The end of the hop is left out; if that is the gateway, the ring was in vain."""
        ring = self.gateways[gateway]
        record_skip(sim, ring.end, ring.epoch, ring.round, reason)
        if ring.end != gateway:
            self._give_back(sim, gateway, ring.end, None)
            return self._pass_on(sim, gateway)
        self._give_back(sim, gateway, ring.holder, None)
        ring.participants, ring.hop = 0, ring.hop + 1
        return self._close(sim, gateway)

    def _give_back(
        self, sim: Simulation, gateway: NodeId, device: NodeId, update: Update | None
    ) -> None:
        ring = self.gateways[gateway]
        if device in ring.waiting:
            ring.waiting.remove(device)
            sim.manager.end(sim, gateway, device, update)

    def _close(self, sim: Simulation, gateway: NodeId) -> GatewayUpdate | None:
        ring = self.gateways[gateway]
        sim.record(
            tier="gateway", node=sim.topology.nodes[gateway].name, epoch=ring.epoch,
            round=ring.round, participants=ring.participants,
        )  # fmt: skip
        ring.made = None
        ring.rounds_left -= 1
        self._let_go(sim, gateway)
        if ring.rounds_left:
            return self._open(sim, gateway)
        return GatewayUpdate(gateway, ring.epoch, ring.model, ring.num_samples)

    def _send_away(self, sim: Simulation, gateway: NodeId, decision: Decision) -> None:
        """Not out of a ring that is under way."""
        self.migration.learn(sim, gateway, decision)
        ring = self.gateways.get(gateway)
        if ring is None or not ring.rounds_left:
            self._let_go(sim, gateway)

    def _let_go(self, sim: Simulation, gateway: NodeId) -> None:
        for device in sim.devices_of(gateway):
            if device in self.migration.leaving:
                self.migration.leaves(sim, gateway, device)


class GroupModel(NamedTuple):
    """From the cloud or a gateway to the next of the top ring, or back to the cloud."""

    hop: int
    epoch: int
    model: torch.Tensor


class Report(NamedTuple):
    """Gateway to cloud: what it knows of its devices, for the sake of association."""


@dataclass
class GroupRing:
    """The top tier in sequence: a ring through the gateways that have devices, again and again."""

    lower: LowerTier
    order: RingOrder
    closing: Literal["direct", "cloud"]
    retries: int
    model: torch.Tensor | None = None
    epoch: int = 0
    """Of the round under way."""
    hop: int = 0
    holder: NodeId = -1
    end: NodeId = -1
    losses: int = 0
    rest: list[NodeId] = field(default_factory=list)

    def start(self, sim: Simulation) -> None:
        self.model, self.holder = sim.model, sim.topology.cloud
        self._open(sim)

    def handle(self, sim: Simulation, event: Event) -> None:
        match event:
            case Arrived(message=GroupModel(hop=hop, epoch=epoch, model=model)):
                if hop == self.hop:
                    self._arrive(sim, epoch, model)
            case Lost(message=GroupModel(hop=hop)):
                if hop == self.hop:
                    self._lose(sim)
            case _:
                self._go_on(sim, self.lower.handle(sim, event))

    def _open(self, sim: Simulation) -> None:
        self.epoch += 1
        members = [g for g in sim.topology.gateways if sim.devices_of(g)]
        start = sim.topology.cloud if self.closing == "cloud" else members[0]
        self.rest = self.order.of(sim, start, members)
        self._pass_on(sim)

    def _pass_on(self, sim: Simulation) -> None:
        """To the next group, or, if there is none, to where a round ends."""
        self.hop, self.losses = self.hop + 1, 0
        if self.rest:
            self.end = self.rest.pop(0)
        elif self.closing == "cloud":
            self.end = sim.topology.cloud
        else:
            self._close(sim)
            return
        if self.end != self.holder:
            self._send(sim)
        else:
            assert self.model is not None
            self._arrive(sim, self.epoch, self.model)

    def _send(self, sim: Simulation) -> None:
        assert self.model is not None
        sim.send(self.holder, self.end, GroupModel(self.hop, self.epoch, self.model))

    def _arrive(self, sim: Simulation, epoch: int, model: torch.Tensor) -> None:
        self.holder = self.end
        if self.end == sim.topology.cloud:
            self._close(sim)
        else:
            self._go_on(sim, self.lower.enter(sim, self.end, epoch, model))  # Alg. 3 l.3

    def _go_on(self, sim: Simulation, update: GatewayUpdate | None) -> None:
        """The group is through with its rounds."""
        if update is None or update.epoch != self.epoch:
            return
        self.model = update.model  # Alg. 3 l.14, if it is the last
        if nbytes := sim.manager.upload_bytes(sim, update.gateway):
            sim.send(update.gateway, sim.topology.cloud, Report(), nbytes, overhead=True)
        self._pass_on(sim)

    def _lose(self, sim: Simulation) -> None:
        self.losses += 1
        if self.losses <= self.retries:
            self._send(sim)
            return
        record_skip(sim, self.end, self.epoch, None, "lost")
        if self.end == sim.topology.cloud:
            self._close(sim)
        else:
            self._pass_on(sim)

    def _close(self, sim: Simulation) -> None:
        assert self.model is not None
        sim.report(self.epoch, self.model)
        self.lower.migration.decide(sim, sim.manager.reassociate(sim, self.epoch))
        self._open(sim)


def record_skip(sim: Simulation, node: NodeId, epoch: int, number: int | None, reason: str) -> None:
    name = sim.topology.nodes[node].name
    sim.record(tier="skip", node=name, epoch=epoch, round=number, reason=reason)


@dataclass
class StarRing:
    """The two tiers, put together when it is known how many groups and clients there are."""

    params: StarRingSection
    cloud: SyncCloud | GroupRing | None = None

    @property
    def lower(self) -> LowerTier:
        assert self.cloud is not None
        return self.cloud.lower

    def start(self, sim: Simulation) -> None:
        sizes = [len(sim.devices_of(gateway)) for gateway in sim.topology.gateways]
        self.cloud = self._cloud([size for size in sizes if size])
        self.cloud.start(sim)

    def handle(self, sim: Simulation, event: Event) -> None:
        assert self.cloud is not None
        self.cloud.handle(sim, event)

    def _cloud(self, sizes: list[int]) -> SyncCloud | GroupRing:
        params = self.params
        rule = LocalSteps(params.local_steps, self._rate(sizes), params.weights)
        lower: LowerTier
        if params.lower == "star":
            lower = GatewayRounds(params.group_rounds, rule, params.gateway_timeout_s)
        else:
            order = RingOrder(params.client_order)
            timeout_s = params.device_timeout_s
            lower = ClientRings(params.group_rounds, rule, order, params.retries, timeout_s)
        if params.top == "star":
            return SyncCloud(lower, params.cloud_timeout_s, params.weights)  # Alg. 1 l.14
        return GroupRing(lower, RingOrder(params.group_order), params.closing, params.retries)

    def _rate(self, sizes: list[int]) -> float | None:
        """eta, of eta~."""
        params = self.params
        if params.effective_rate is None:
            return None
        assert params.local_steps is not None
        mean = sum(sizes) / len(sizes)
        shape = Shape(len(sizes), mean, params.group_rounds, params.local_steps)
        return params.effective_rate / steps_along(shape, params.top, params.lower)  # Th. 1
