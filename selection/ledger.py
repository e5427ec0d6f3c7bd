"""What gateways know of their devices: who is busy, how long rounds took, losses, gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from selection.utility import LearningUtility
from simulator.events import Update
from simulator.units import SECOND, NodeId, Time

if TYPE_CHECKING:
    from simulator.kernel import Simulation

_SHORTEST_S = 1e-9
"""No latency is less, where rounds take no time: rates and weights are made of its inverse."""


class Running(NamedTuple):
    """A device's round that is not over."""

    since: Time
    rate: float
    """What it holds of its gateway's budget, in bytes per second."""


class Seen(NamedTuple):
    """A pair's rounds so far."""

    latency_s: float
    """Moving average."""
    last_round: int
    """The gateway's how many-th selection the last one came of."""


@dataclass
class Ledger:
    gradients: LearningUtility
    budget: float | None = None
    """B_j of every gateway, in bytes per second."""
    newest: float = 0.5
    """Weight of the newest latency in the moving average."""
    seen: dict[NodeId, dict[NodeId, Seen]] = field(default_factory=dict)
    """By gateway and device; pairs that have had a round."""
    estimates_s: dict[NodeId, dict[NodeId, float]] = field(default_factory=dict)
    """Beliefs about rounds."""
    under_way: dict[NodeId, dict[NodeId, Running]] = field(default_factory=dict)
    selections: dict[NodeId, int] = field(default_factory=dict)
    losses: dict[NodeId, float] = field(default_factory=dict)
    num_samples: dict[NodeId, int] = field(default_factory=dict)
    silent: dict[NodeId, dict[NodeId, None]] = field(default_factory=dict)
    """By device: gateways that it did not answer, since it answered anybody last."""
    last_gateway: dict[NodeId, NodeId] = field(default_factory=dict)
    """With whom a device had its last round."""

    def latency_s(self, sim: Simulation, gateway: NodeId, device: NodeId) -> float:
        """tau_ij: as it was seen, else a belief.

        To it is added what rounds with the device's last gateway took longer than believed.
        """
        seen = self.seen.get(gateway, {}).get(device)
        latency_s = self._believed_s(sim, gateway, device) if seen is None else seen.latency_s
        return max(latency_s, _SHORTEST_S)

    def _believed_s(self, sim: Simulation, gateway: NodeId, device: NodeId) -> float:
        estimate_s = self._estimate_s(sim, gateway, device)
        last = self.last_gateway.get(device)
        if last is None:
            return estimate_s
        longer_s = self.seen[last][device].latency_s - self._estimate_s(sim, last, device)
        return estimate_s + max(0.0, longer_s)

    def _estimate_s(self, sim: Simulation, gateway: NodeId, device: NodeId) -> float:
        estimates = self.estimates_s.setdefault(gateway, {})
        if device not in estimates:
            estimates[device] = sim.estimate_round(gateway, device) / SECOND
        return estimates[device]

    def rate(self, sim: Simulation, gateway: NodeId, device: NodeId) -> float:
        """R_ij = M / tau_ij, at most the budget: a gateway can hold a lone device to that."""
        rate = sim.learner.model_bytes / self.latency_s(sim, gateway, device)
        return rate if self.budget is None else min(rate, self.budget)

    def free(self, gateway: NodeId) -> float:
        """What is left of the budget, in bytes per second."""
        if self.budget is None:
            return float("inf")
        return self.budget - sum(r.rate for r in self.under_way.get(gateway, {}).values())

    def begin(self, sim: Simulation, gateway: NodeId, device: NodeId) -> None:
        rate = 0.0 if self.budget is None else self.rate(sim, gateway, device)
        running = Running(sim.now, rate)
        self.under_way.setdefault(gateway, {})[device] = running

    def end(self, sim: Simulation, gateway: NodeId, device: NodeId, answered: bool) -> None:
        """A device that was given up is not faster than its average says."""
        since, _ = self.under_way[gateway].pop(device)
        taken_s = (sim.now - since) / SECOND
        seen = self.seen.setdefault(gateway, {})
        before = seen[device].latency_s if device in seen else None
        if answered:
            self.silent.pop(device, None)
        else:
            self.silent.setdefault(device, {})[gateway] = None
            taken_s = max(taken_s, self.latency_s(sim, gateway, device))
        average = taken_s if before is None else before + self.newest * (taken_s - before)
        seen[device] = Seen(average, self.selections.get(gateway, 0))
        self.last_gateway[device] = gateway

    def learn(self, update: Update) -> None:
        self.losses[update.node] = update.loss
        self.num_samples[update.node] = update.num_samples

    def is_new(self, gateway: NodeId, device: NodeId) -> bool:
        return device not in self.seen.get(gateway, {})
