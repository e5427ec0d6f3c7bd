"""Oort: statistical utility times a penalty for slow devices, with exploration.

Lai et al., *Oort: Efficient Federated Learning via Guided Participant Selection*, OSDI 2021;
defaults are those of its program. What is different here:

- The loss of a device is the mean over its last local training, so the square root of the mean
  squared loss of its samples is taken to be that mean.
- As in the authors' program, statistical utilities are scaled to [0, 1] over the candidates before
  the bonus for not having been seen for long is added, else that bonus would be nothing.
- How many take part follows from the gateway's budget, not from a number K: the ranking is as
  long as the list of idle devices, and K, where the algorithm needs it, is how many of the best
  would fit.
- One pacer for each gateway; its rounds are that gateway's selections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from selection.ilp import known as scaled_to_1
from selection.ledger import Ledger
from selection.manager import SelectorSection
from simulator.kernel import Simulation
from simulator.rng import Stream
from simulator.units import NodeId


class OortSection(SelectorSection):
    name: Literal["oort"]
    exploration: float = Field(0.9, ge=0, le=1)
    """epsilon: share of places for devices that have not trained yet, at first."""
    exploration_decay: float = Field(0.98, gt=0, le=1)
    """What exploration is multiplied by after each selection."""
    exploration_least: float = Field(0.2, ge=0, le=1)
    """It does not fall below."""
    penalty: float = Field(2.0, ge=0)
    """alpha: exponent of (T / latency) for devices slower than the preferred duration T."""
    cut_off: float = Field(0.95, gt=0, le=1)
    """c: who has less than this share of the (1 - epsilon) K-th best utility is not exploited."""
    pacer_window: int = Field(20, ge=1)
    """W: selections over which gained utility is compared before T is relaxed."""
    preferred_share: float = Field(0.3, gt=0, le=1)
    """T is the latency that this share of the gateway's devices stays below, at first."""
    pacer_step: float = Field(0.05, gt=0, le=1)
    """Delta: what the pacer adds to that share when less utility is gained."""
    clip: float = Field(0.9, gt=0, le=1)
    """Utilities above this quantile are capped to it."""


@dataclass
class Pacer:
    share: float
    """T is this quantile of the latencies."""
    gained: list[float] = field(default_factory=list)
    """Utility exploited in each selection so far, of the last two windows."""


@dataclass
class Oort:
    """Loss and latency as a bandit, with exploration (Oort)."""

    params: OortSection
    pacers: dict[NodeId, Pacer] = field(default_factory=dict)
    uses_losses: ClassVar[bool] = True
    uses_gradients: ClassVar[bool] = False

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        rng = sim.rng(Stream.SELECTION, gateway)
        new = [d for d in idle if d not in ledger.losses]
        known = [d for d in idle if d in ledger.losses]
        share = self._exploration(ledger, gateway)
        explored = self._explore(sim, ledger, gateway, new, rng)
        exploited = self._exploit(sim, ledger, gateway, known, rng, 1 - share if new else 1.0)
        return _merged(explored, exploited, share)

    def _exploration(self, ledger: Ledger, gateway: NodeId) -> float:
        params, past = self.params, ledger.selections[gateway] - 1
        decayed = params.exploration * params.exploration_decay**past
        return max(params.exploration_least, decayed)

    def _explore(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, new: list[NodeId],
        rng: np.random.Generator,
    ) -> list[NodeId]:  # fmt: skip
        """By speed, the only thing that is known of them."""
        return _drawn(new, [1 / ledger.latency_s(sim, gateway, d) for d in new], rng)

    def _exploit(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, known: list[NodeId],
        rng: np.random.Generator, share: float,
    ) -> list[NodeId]:  # fmt: skip
        """``share`` of K places are theirs: 1 - epsilon while there is somebody to explore."""
        if not known:
            return []
        utilities = self._utilities(sim, ledger, gateway, known)
        by_utility = sorted(range(len(known)), key=lambda i: -utilities[i])
        free, count = ledger.free(gateway), 0
        for i in by_utility:  # K: so many of the best fit
            free -= ledger.rate(sim, gateway, known[i])
            count += free >= 0
        count = max(1, int(share * count))
        worst = utilities[by_utility[count - 1]]
        admitted = [i for i in by_utility if utilities[i] >= self.params.cut_off * worst]
        chosen = _drawn([known[i] for i in admitted], [utilities[i] for i in admitted], rng)
        gained = sum(utilities[known.index(d)] for d in chosen[:count])
        self._pacer(gateway).gained.append(float(gained))
        rest = [known[i] for i in by_utility if i not in frozenset(admitted)]
        return chosen + rest

    def _utilities(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, known: list[NodeId]
    ) -> np.ndarray:
        params, now = self.params, ledger.selections[gateway]
        statistical = np.array([ledger.num_samples[d] * ledger.losses[d] for d in known])
        capped = np.minimum(statistical, np.quantile(statistical, params.clip))
        statistical = scaled_to_1(capped, scaled=True)
        last = np.array([max(1, _last_round(ledger, gateway, d)) for d in known])
        statistical = statistical + np.sqrt(0.1 * math.log(now) / last)
        latency = np.array([ledger.latency_s(sim, gateway, d) for d in known])
        preferred = self._preferred_s(ledger, gateway, latency)
        slow = np.minimum(preferred / latency, 1.0) ** params.penalty
        return statistical * slow

    def _preferred_s(self, ledger: Ledger, gateway: NodeId, latency: np.ndarray) -> float:
        """T; relaxed when less utility is gained than in the window before."""
        pacer, window = self._pacer(gateway), self.params.pacer_window
        if len(pacer.gained) >= 2 * window:
            if sum(pacer.gained[:window]) > sum(pacer.gained[window:]):
                pacer.share = min(1.0, pacer.share + self.params.pacer_step)
            del pacer.gained[:window]
        seen = ledger.seen.get(gateway, {})
        known = [s.latency_s for s in seen.values()] or latency
        return float(np.quantile(known, pacer.share))

    def _pacer(self, gateway: NodeId) -> Pacer:
        return self.pacers.setdefault(gateway, Pacer(self.params.preferred_share))


def _last_round(ledger: Ledger, gateway: NodeId, device: NodeId) -> int:
    seen = ledger.seen.get(gateway, {}).get(device)
    return seen.last_round if seen else 1


def _drawn(devices: list[NodeId], weights: list[float], rng: np.random.Generator) -> list[NodeId]:
    """All of them, in the order of draws without replacement by weight."""
    if not devices:
        return []
    chances = np.maximum(np.nan_to_num(np.array(weights), posinf=0.0), 1e-12)
    keys = rng.exponential(size=len(devices)) / chances
    return [devices[i] for i in np.argsort(keys, kind="stable")]


def _merged(explored: list[NodeId], exploited: list[NodeId], share: float) -> list[NodeId]:
    """Of every beginning of the list, ``share`` are explored, as long as there are any."""
    merged: list[NodeId] = []
    explored, exploited = explored[::-1], exploited[::-1]
    taken = 0
    while explored or exploited:
        explore = explored and (not exploited or taken < share * (len(merged) + 1))
        merged.append(explored.pop() if explore else exploited.pop())
        taken += bool(explore)
    return merged
