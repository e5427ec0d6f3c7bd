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
- Groups of a top ring wait for each other. ``in_flight`` models may go round at a time, the first
  of them from the first group, the others from places evenly apart; a group that has one already
  lets further ones wait. When all have been everywhere, the cloud takes their mean: in nearly the
  same time as one, with as many times the bytes and the work, and no group has the last word.
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

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from algorithms.group_ring import GroupRing
from algorithms.ring_order import RingOrder, Way
from algorithms.rings import ClientRings, LocalSteps
from algorithms.rounds import GatewayRounds, Weights
from algorithms.star_ring_bounds import Shape, Tier, steps_along
from algorithms.sync_cloud import LowerTier, SyncCloud
from simulator.events import Event
from simulator.kernel import Simulation
from simulator.section import LONGEST_S, SHORTEST_S, Section

_WHERE = {
    "group_order": ("top", "ring"), "closing": ("top", "ring"), "cloud_timeout_s": ("top", "star"),
    "client_order": ("lower", "ring"), "device_timeout_s": ("lower", "ring"),
    "gateway_timeout_s": ("lower", "star"), "in_flight": ("top", "ring"),
}  # fmt: skip
"""Which keys are for which tier and shape."""
_EITHER: dict[str, Tier] = {"retries": "ring", "weights": "star"}
"""Which are for a shape at either tier."""


def _idle(top: Tier, lower: Tier) -> dict[str, str]:
    """The keys that do nothing in a topology, and what they are for."""
    there = {"top": top, "lower": lower}
    idle = {
        key: f"{tier} = {shape!r}" for key, (tier, shape) in _WHERE.items() if there[tier] != shape
    }
    return idle | {
        key: f"a {shape} at either tier" for key, shape in _EITHER.items()
        if shape not in there.values()
    }  # fmt: skip


class StarRingSection(Section):
    name: Literal["star-ring-hfl"] = "star-ring-hfl"
    top: Tier = "star"
    """Groups in parallel, then their mean; or each from the one before it."""
    lower: Tier = "star"
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
    in_flight: int = Field(1, ge=1)
    """Top ring: models that go round at a time, from places apart; their mean is the next one. No
    more than there are groups."""
    retries: int = Field(2, ge=0, le=100)
    """How often a lost hop of a ring is sent again before its end is passed over."""
    device_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """Lower ring: a client that has not passed the model on after this time is passed over."""
    gateway_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """Lower star: a gateway closes its round after this time with what has come."""
    cloud_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
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
        for key, where in _idle(self.top, self.lower).items():
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(
                    f"{key} = {getattr(self, key)!r} is for {where}; delete one of them"
                )
        return self

    @model_validator(mode="after")
    def _several_meet_at_the_cloud(self) -> Self:
        if self.in_flight > 1 and self.closing != "cloud":
            raise ValueError(
                f"in_flight = {self.in_flight}: somebody has to take the mean of so many models; "
                'give closing = "cloud"'
            )
        return self

    def shaped(self, top: Tier, lower: Tier) -> Self:
        """The same in another topology: what does not count there is left out.

        A lower tier's timeout is taken for the other's, so that nobody is waited for for ever. But
        a ring's is for one client, and a star's for all of a group, who may share a channel.
        """
        idle = set(_idle(top, lower))
        content = self.model_dump(exclude=idle | {"top", "lower"}) | {"top": top, "lower": lower}
        timeout_s = self.device_timeout_s or self.gateway_timeout_s
        key = "device_timeout_s" if lower == "ring" else "gateway_timeout_s"
        return type(self).model_validate(content | {key: timeout_s})


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
        order = RingOrder(params.group_order)
        return GroupRing(lower, order, params.closing, params.retries, params.in_flight)

    def _rate(self, sizes: list[int]) -> float | None:
        """eta, of eta~."""
        params = self.params
        if params.effective_rate is None:
            return None
        assert params.local_steps is not None
        mean = sum(sizes) / len(sizes)
        shape = Shape(len(sizes), mean, params.group_rounds, params.local_steps)
        return params.effective_rate / steps_along(shape, params.top, params.lower)  # Th. 1
