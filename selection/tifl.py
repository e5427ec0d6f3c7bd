"""TiFL: tiers of similar latency, one of them a round.

Chai et al., *TiFL: A Tier-based Federated Learning System*, HPDC 2020, its adaptive tier
selection, as far as a gateway can follow it: a tier is chosen with a probability that grows with
its loss, and each choice costs one of its credits. TiFL takes the tiers' test accuracies for that
probability, on test data of the clients, which nobody has here; the mean of their last training
losses stands in. Within the tier, devices with the highest loss come first, until the budget is
full (Yu et al., IoTDI 2023, Section 6.3).

Devices that have no latency yet are profiled first, as TiFL does before its first round: while
there are any, they alone are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from selection.ledger import Ledger
from selection.manager import SelectorSection
from simulator.kernel import Simulation
from simulator.rng import Stream
from simulator.units import NodeId


class TiflSection(SelectorSection):
    name: Literal["tifl"]
    tiers: int = Field(5, ge=1)
    """How many groups of equal size a gateway's devices are divided into by latency."""
    credits: int = Field(100, ge=1)
    """How often each tier of a gateway may be chosen before all of them get as many again."""


@dataclass
class Tifl:
    """One tier of similar latency at a time, with credits; high losses first (TiFL)."""

    params: TiflSection
    left: dict[NodeId, list[int]] = field(default_factory=dict)
    """By gateway: each tier's credits."""
    uses_losses: ClassVar[bool] = True
    uses_gradients: ClassVar[bool] = False

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        new = [d for d in idle if ledger.is_new(gateway, d)]
        if new:
            return new
        tiers = self._tiers(sim, ledger, gateway, idle)
        tier = tiers[self._choose(sim, ledger, gateway, tiers)]
        return sorted(tier, key=lambda d: -ledger.losses.get(d, 0.0))

    def _tiers(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[list[NodeId]]:
        """Fastest first; divided over all devices of the gateway, then those who are idle."""
        known = [d for d in sim.devices_of(gateway) or idle if not ledger.is_new(gateway, d)]
        known = sorted(set(known) | set(idle), key=lambda d: (ledger.latency_s(sim, gateway, d), d))
        parts = np.array_split(known, self.params.tiers)
        here = frozenset(idle)
        return [[int(d) for d in part if int(d) in here] for part in parts]

    def _choose(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, tiers: list[list[NodeId]]
    ) -> int:
        left = self.left.setdefault(gateway, [self.params.credits] * len(tiers))
        able = [t for t, tier in enumerate(tiers) if tier and left[t] > 0]
        if not able:
            left[:] = [self.params.credits] * len(tiers)
            able = [t for t, tier in enumerate(tiers) if tier]
        losses = np.array([np.mean([ledger.losses.get(d, 0.0) for d in tiers[t]]) for t in able])
        total = losses.sum()
        chances = losses / total if np.isfinite(total) and total > 0 else None
        chosen = int(sim.rng(Stream.SELECTION, gateway).choice(able, p=chances))
        left[chosen] -= 1
        return chosen
