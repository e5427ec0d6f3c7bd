"""DivFL: a subset whose gradients stand for all of them.

Balakrishnan et al., *Diverse Client Selection for Federated Learning via Submodular
Maximization*, ICLR 2022: choose S to minimise the sum over all devices k of the distance from k's
gradient to the nearest gradient in S, greedily. As in their variant without
extra communication, gradients are those of a device's last training, which the gateway has from
its model, or sketches of them. Devices of which there is none yet come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from selection.ledger import Ledger
from selection.manager import SelectorSection
from simulator.kernel import Simulation
from simulator.units import NodeId


class DivflSection(SelectorSection):
    name: Literal["divfl"]


@dataclass
class Divfl:
    """A subset whose gradients stand for all (DivFL)."""

    params: DivflSection
    uses_losses: ClassVar[bool] = False
    uses_gradients: ClassVar[bool] = True

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        gradients = ledger.gradients
        new = [d for d in idle if not gradients.knows(d)]
        known = [d for d in idle if gradients.knows(d)]
        others = [d for d in sim.devices_of(gateway) if gradients.knows(d) and d not in known]
        gram = gradients.gram_of([*known, *others])
        return new + [known[i] for i in greedy_cover(gram, len(known))]


def greedy_cover(gram: np.ndarray, candidates: int) -> list[int]:
    """The first ``candidates`` rows in the order in which each lessens the distances most."""
    squares = np.diag(gram)
    distance = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * gram, 0.0))
    nearest = np.full(len(gram), distance.max(initial=0.0) + 1.0)
    order: list[int] = []
    left = list(range(candidates))
    while left:
        costs = np.minimum(nearest[:, None], distance[:, left]).sum(0)
        best = left.pop(int(np.argmin(costs)))
        nearest = np.minimum(nearest, distance[:, best])
        order.append(best)
    return order
