"""Async-HFL's device selection and device-gateway association, by learning utility.

Yu et al., *Async-HFL*, IoTDI 2023, Section 5.4, Eq. (10) and (11); how they are read is told in
``selection.ilp``. A gateway's N of Eq. (9) are its own devices, the cloud's are all.

The cloud is taken to know what its gateways know when it decides: the bytes of what they tell it
with their uploads are counted, how old that is by then is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from selection.associators import Estimate, ReassociatorSection, first_association
from selection.groups import Grouped
from selection.ilp import Associated, Selected, associate, select_devices
from selection.ledger import Ledger
from selection.manager import SelectorSection
from selection.milp import Solver
from simulator.kernel import Simulation
from simulator.units import NodeId
from topologies import Topology


@dataclass
class Answers:
    """How often each solver has answered; why those before it did not, or nothing is proven."""

    by_solver: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def note(self, sim: Simulation, what: str, found: Selected | Associated | Grouped) -> None:
        self.by_solver[found.solver] = self.by_solver.get(found.solver, 0) + 1
        if found.reason:
            if found.reason not in self.reasons:
                sim.record(tier="solver", node=what, reason=found.reason)
            self.reasons[found.reason] = self.reasons.get(found.reason, 0) + 1

    def told(self) -> dict[str, dict[str, int]]:
        return {"answers": self.by_solver, "reasons": self.reasons}


class UtilitySelectionSection(SelectorSection):
    name: Literal["utility-ilp"]
    kappa: float = Field(0.5, ge=0, le=10)
    """Exponent of 1 / latency in Eq. (10)."""
    utility: Literal["scaled", "raw"] = "scaled"
    """Utilities from 0 to 1 over the candidates, as in the authors' program, or as they are."""
    solver: Solver = "auto"
    """auto: Gurobi where its licence allows the size, else HiGHS."""
    gap: float = Field(0.02, ge=0, lt=1)
    """How far from the best value, relatively, an answer may be."""


@dataclass
class UtilitySelection:
    """Most learning utility by latency within the budget: Async-HFL, Eq. (10)."""

    params: UtilitySelectionSection
    answers: Answers = field(default_factory=Answers)
    uses_losses: ClassVar[bool] = False
    uses_gradients: ClassVar[bool] = True

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        params = self.params
        members = list(dict.fromkeys([*idle, *sim.devices_of(gateway)]))
        latencies = np.array([ledger.latency_s(sim, gateway, d) for d in idle])
        rates = np.array([ledger.rate(sim, gateway, d) for d in idle])
        free = None if ledger.budget is None else ledger.free(gateway)
        utilities = ledger.gradients.utilities(members)[: len(idle)]
        found = select_devices(
            utilities, latencies, rates, free,
            kappa=params.kappa, scaled=params.utility == "scaled",
            solver=params.solver, gap=params.gap,
        )  # fmt: skip
        self.answers.note(sim, "selection", found)
        return [idle[place] for place in found.devices]


class UtilityAssociationSection(ReassociatorSection):
    name: Literal["utility-ilp"]
    phi: float = Field(0.1, ge=0)
    """Weight of the most loaded gateway against the least useful one in Eq. (11)."""
    utility: Literal["raw", "scaled"] = "raw"
    """As they are, as in the paper and the authors' program, or from 0 to 1 over all devices."""
    everyone: bool = True
    """Every device that can be reached belongs to a gateway; false: to at most one, as printed. A
    device that is left out is not moved: it stays with the gateway that it has."""
    solver: Solver = "auto"
    """auto: Gurobi where its licence allows the size, else HiGHS."""
    gap: float = Field(0.02, ge=0, lt=1)
    """How far from the best value, relatively, an answer may be."""


@dataclass
class UtilityAssociation:
    """Gateways of balanced learning utility and load: Async-HFL, Eq. (11)."""

    params: UtilityAssociationSection
    answers: Answers = field(default_factory=Answers)
    uses_gradients: ClassVar[bool] = True

    def associate(
        self, topology: Topology, estimate: Estimate, rng: np.random.Generator
    ) -> dict[NodeId, NodeId]:
        return first_association(self.params.first, topology, estimate, rng)

    def reassociate(self, sim: Simulation, ledger: Ledger) -> dict[NodeId, NodeId]:
        """Without links on which a device was silent; who has no other one stays where it is."""
        params, gateways = self.params, sim.topology.gateways
        links = {
            device: [
                g for g in sim.topology.reach(device) if g not in ledger.silent.get(device, {})
            ]
            for device in sorted(sim.association)
        }
        devices = [device for device, heard in links.items() if heard]
        if not devices:
            return {}
        reachable = np.zeros((len(devices), len(gateways)), dtype=bool)
        rates = np.zeros(reachable.shape)
        for row, device in enumerate(devices):
            for gateway in links[device]:
                column = gateways.index(gateway)
                reachable[row, column] = True
                rates[row, column] = ledger.rate(sim, gateway, device)
        found = associate(
            ledger.gradients.utilities(devices), rates, reachable, [ledger.budget] * len(gateways),
            phi=params.phi, everyone=params.everyone, scaled=params.utility == "scaled",
            solver=params.solver, gap=params.gap,
        )  # fmt: skip
        self.answers.note(sim, "association", found)
        placed = zip(devices, found.gateways, strict=True)
        return {device: gateways[column] for device, column in placed if column >= 0}
