"""Groups that look alike: devices are put together so that no group differs much from all.

The star/ring paper (*Unified Analyses for Hierarchical Federated Learning*, Section 2.4) finds that
heterogeneity between groups (zeta^2) slows learning down more than heterogeneity within them, and
asks for a clustering that keeps the first small. Its text also recommends to group "clients with
statistically similar data", which does the opposite; this is the reading that its bounds support.

``alike`` goes by shares of labels: a device tells them once, with its first update, 4 bytes a
label, and its gateway passes them on with its next upload. ``alike-gradients`` goes by the
sketches of gradients that devices report anyway (``[sketch]``). Both are asked again and again;
where nothing new is known, nobody moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from selection.associators import Estimate, ReassociatorSection, first_association, links_of
from selection.groups import group
from selection.ledger import Ledger
from selection.milp import Solver
from selection.utility_ilp import Answers
from simulator.kernel import Simulation
from simulator.units import NodeId
from topologies import Topology

_NUMBER_BYTES = 4


class _AlikeSection(ReassociatorSection):
    sizes: Literal["equal", "free"] = "equal"
    """Whether groups are to be of equal size (± 1), as far as reach allows."""
    solver: Solver = "auto"
    """auto: Gurobi where its licence allows the size, else HiGHS."""
    gap: float = Field(0.02, ge=0, lt=1)
    """How far from the best value, relatively, an answer may be."""


class AlikeSection(_AlikeSection):
    name: Literal["alike"]


class AlikeGradientsSection(_AlikeSection):
    name: Literal["alike-gradients"]


def regroup(
    params: _AlikeSection,
    answers: Answers,
    sim: Simulation,
    looks: Mapping[NodeId, np.ndarray],
) -> dict[NodeId, NodeId]:
    """By device its gateway; who is not known stays where he is, and is not counted."""
    devices, gateways = sorted(looks), sim.topology.gateways
    if len(devices) < 2:
        return {}
    reachable, links_s = links_of(devices, gateways, sim.topology.reach, sim.estimate)
    features = np.array([looks[device] for device in devices], dtype=float)
    found = group(
        features, reachable, links_s, sizes=params.sizes, solver=params.solver, gap=params.gap
    )
    answers.note(sim, "association", found)
    return {d: gateways[column] for d, column in zip(devices, found.gateways, strict=True)}


@dataclass
class Alike:
    """Groups that look alike by their labels, assigned when these are known."""

    params: AlikeSection
    answers: Answers = field(default_factory=Answers)
    shares: dict[NodeId, list[float]] = field(default_factory=dict)
    """By device its shares of labels, as it knows them itself."""
    told: dict[NodeId, None] = field(default_factory=dict)
    """Who has told them."""
    uses_gradients: ClassVar[bool] = False

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        return first_association(self.params.first, topology, estimate, rng)

    def report_bytes(self, device: NodeId) -> int:
        """What the device tells with an update, and its gateway with the next upload."""
        return 0 if device in self.told else _NUMBER_BYTES * len(self.shares[device])

    def learn(self, device: NodeId) -> None:
        self.told[device] = None

    def reassociate(self, sim: Simulation, ledger: Ledger) -> dict[NodeId, NodeId]:
        looks = {device: np.array(self.shares[device]) for device in self.told}
        return regroup(self.params, self.answers, sim, looks)


@dataclass
class AlikeGradients:
    """Groups that look alike by sketches of their gradients."""

    params: AlikeGradientsSection
    answers: Answers = field(default_factory=Answers)
    uses_gradients: ClassVar[bool] = True

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        return first_association(self.params.first, topology, estimate, rng)

    def reassociate(self, sim: Simulation, ledger: Ledger) -> dict[NodeId, NodeId]:
        known = ledger.gradients
        looks = {
            d: known.vectors[known.place[d]] for d in sorted(sim.association) if known.knows(d)
        }
        return regroup(self.params, self.answers, sim, looks)
