"""Selection and association as an algorithm sees them: budgets, latencies, bytes of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import Field

from selection.associators import Associator, Questioner, Reassociator
from selection.ledger import Ledger
from selection.sketch import SKETCHES, Sketch, SketchBase
from simulator.section import Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch

    from simulator.events import Update
    from simulator.kernel import Simulation

_NUMBER_BYTES = 4


class SelectorSection(Section):
    """What every selector knows."""

    budget_bytes_per_s: float | None = Field(None, gt=0)
    """B: bound on the summed rates (model bytes by round latency) of a gateway's busy devices."""
    latency_weight: float = Field(0.5, gt=0, le=1)
    """Weight of the newest round latency in a pair's moving average."""


class Selector(Protocol):
    """State, if any, lies in dataclass fields."""

    params: SelectorSection
    uses_losses: ClassVar[bool]
    uses_gradients: ClassVar[bool]

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        """Who should train, the best first: as many of them as fit into the budget will."""
        ...


@dataclass
class DeviceManager:
    selector: Selector
    associator: Associator
    ledger: Ledger
    sketch_params: SketchBase | None = None
    """None: nobody looks at gradients."""
    learning_rate: float = 1.0
    """Of jobs that do not say otherwise."""
    sketch: Sketch | None = None
    """None: as above, or not fitted yet."""
    fitted: dict[str, int] = field(default_factory=dict)
    """To how many gradients the sketch was fitted, and how many components that gave."""
    equipped: dict[NodeId, None] = field(default_factory=dict)
    """Who can compute sketches of gradients, of those who must be told how."""
    untold: dict[NodeId, dict[NodeId, bool]] = field(default_factory=dict)
    """By gateway: whose latest latency the cloud does not know, and whether nor his sketch."""
    untold_bytes: dict[NodeId, int] = field(default_factory=dict)
    """By gateway: of what devices have told the associator, and the cloud does not know."""

    def select(
        self, sim: Simulation, gateway: NodeId, idle: list[NodeId], most: int | None = None
    ) -> list[NodeId]:
        ledger = self.ledger
        if not idle:
            return []
        ledger.selections[gateway] = ledger.selections.get(gateway, 0) + 1
        ranked = self.selector.rank(sim, ledger, gateway, idle)
        if ledger.budget is not None:
            rates = [ledger.rate(sim, gateway, device) for device in ranked]
            ranked = fitting(ranked, rates, ledger.free(gateway))
        chosen = frozenset(ranked[:most])
        return [device for device in idle if device in chosen]

    def begin(self, sim: Simulation, gateway: NodeId, device: NodeId) -> None:
        self.ledger.begin(sim, gateway, device)

    def drop(self, gateway: NodeId, device: NodeId) -> None:
        del self.ledger.under_way[gateway][device]

    def end(self, sim: Simulation, gateway: NodeId, device: NodeId, update: Update | None) -> None:
        self.ledger.end(sim, gateway, device, update is not None)
        self.untold.setdefault(gateway, {}).setdefault(device, False)
        if update is None:
            return
        self._pass_on(gateway, device)
        if self.selector.uses_losses:
            self.ledger.learn(update)
        sketch = self._sketch(sim)
        if sketch is not None and self._can_sketch(device if self.devices_sketch else gateway):
            self.ledger.gradients.update(device, sketch.sketch(self._gradient(update)))
            self.untold[gateway][device] = True

    @cached_property
    def _questioner(self) -> Questioner | None:
        """Kept, for asking whether it is one takes 20 microseconds."""
        return self.associator if isinstance(self.associator, Questioner) else None

    def _pass_on(self, gateway: NodeId, device: NodeId) -> None:
        if self._questioner is not None:
            told = self.untold_bytes.get(gateway, 0) + self._questioner.report_bytes(device)
            self.untold_bytes[gateway] = told
            self._questioner.learn(device)

    def report_bytes(self, sim: Simulation, device: NodeId) -> int:
        losses = _NUMBER_BYTES if self.selector.uses_losses else 0
        if self._questioner is not None:
            losses += self._questioner.report_bytes(device)
        sketch = self._sketch(sim)
        if sketch is None or not self.devices_sketch or not self._can_sketch(device):
            return losses
        return losses + sketch.sketch_bytes(sim.learner.model_bytes)

    def upload_bytes(self, sim: Simulation, gateway: NodeId) -> int:
        """Of each device that was asked since: its number, latency, and what it has reported."""
        untold = self.untold.pop(gateway, {})
        if not isinstance(self.associator, Reassociator):
            return 0
        nbytes = 2 * _NUMBER_BYTES * len(untold) + self.untold_bytes.pop(gateway, 0)
        if self.sketch is None or not self.associator.uses_gradients:
            return nbytes
        return nbytes + sum(untold.values()) * self.sketch.sketch_bytes(sim.learner.model_bytes)

    def reassociate(self, sim: Simulation, epoch: int) -> dict[NodeId, NodeId]:
        if not isinstance(self.associator, Reassociator):
            return {}
        if epoch % self.associator.params.every_epochs:
            return {}
        new = self.associator.reassociate(sim, self.ledger)
        return {d: g for d, g in new.items() if sim.association.get(d) != g}

    # Sketches of gradients

    def parameter_bytes(self, sim: Simulation) -> int:
        assert self.sketch is not None
        return self.sketch.parameter_bytes(sim.learner.model_bytes)

    @property
    def devices_sketch(self) -> bool:
        return self.sketch_params is not None and self.sketch_params.where == "device"

    def fit(self, sim: Simulation, updates: Sequence[Update]) -> None:
        gradients = [self._gradient(update) for update in updates]
        self._make_sketch(sim, gradients)
        assert self.sketch is not None
        sketches = [self.sketch.sketch(vector) for vector in gradients]
        for update, sketch in zip(updates, sketches, strict=True):
            self.ledger.gradients.update(update.node, sketch)
        length = len(sketches[0]) if sketches else 0
        self.fitted = {"gradients": len(updates), "components": length}
        sim.record(tier="sketch", participants=len(updates), components=length)

    def equip(self, node: NodeId) -> None:
        self.equipped[node] = None

    def _sketch(self, sim: Simulation) -> Sketch | None:
        """Made at once if it needs no warm-up."""
        params = self.sketch_params
        if self.sketch is None and params is not None and params.warm_up == "none":
            self._make_sketch(sim, [])
        return self.sketch

    def _make_sketch(self, sim: Simulation, gradients: list[torch.Tensor]) -> None:
        assert self.sketch_params is not None
        assert sim.model is not None
        kind: Any = SKETCHES[self.sketch_params.kind]
        self.sketch = kind.fit(
            self.sketch_params, length=len(sim.model), seed=sim.seed, gradients=gradients
        )

    def _can_sketch(self, node: NodeId) -> bool:
        assert self.sketch_params is not None
        return node in self.equipped or not self.sketch_params.has_parameters

    def _gradient(self, update: Update) -> torch.Tensor:
        rate = update.job.learning_rate
        return gradient(update, self.learning_rate if rate is None else rate)

    def told(self) -> dict[str, Any]:
        """For the run's summary."""
        parts = {"selection": self.selector, "association": self.associator}
        found = {name: getattr(part, "answers", None) for name, part in parts.items()}
        solvers = {f"{name}_solvers": a.told() for name, a in found.items() if a is not None}
        return solvers | ({"sketch": self.fitted} if self.fitted else {})


def fitting(ranked: Sequence[NodeId], rates: Sequence[float], free: float) -> list[NodeId]:
    """The best first; who does not fit into what is left is passed over."""
    chosen = []
    for device, rate in zip(ranked, rates, strict=True):
        if rate <= free:
            chosen.append(device)
            free -= rate
    return chosen


def gradient(update: Update, learning_rate: float = 1.0) -> torch.Tensor:
    """The mean of what the local steps went along."""
    return (update.job.start - update.model) / (learning_rate * update.num_steps)
