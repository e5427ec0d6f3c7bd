"""Selectors that look at one figure of each device, or at none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from selection.ledger import Ledger
from selection.manager import SelectorSection
from simulator.kernel import Simulation
from simulator.rng import Stream
from simulator.units import NodeId


class SelectAllSection(SelectorSection):
    name: Literal["all"] = "all"


@dataclass
class SelectAll:
    """Every idle device, who has been idle longest first."""

    params: SelectAllSection
    uses_losses: ClassVar[bool] = False
    uses_gradients: ClassVar[bool] = False

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        return idle


class SelectRandomSection(SelectorSection):
    name: Literal["random"]
    fraction: float = Field(0.5, gt=0, le=1)
    """Share of a gateway's idle devices that train, rounded, at least one."""


@dataclass
class SelectRandom:
    """A fair draw without replacement."""

    params: SelectRandomSection
    uses_losses: ClassVar[bool] = False
    uses_gradients: ClassVar[bool] = False

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        count = max(1, round(self.params.fraction * len(idle)))
        rng = sim.rng(Stream.SELECTION, gateway)
        return [int(device) for device in rng.choice(idle, count, replace=False)]


class HighLossSection(SelectorSection):
    name: Literal["high-loss"]


@dataclass
class HighLoss:
    """Who had the highest loss when it last trained; before that, who has not trained yet.

    Async-HFL's baseline HL (Yu et al., IoTDI 2023, Section 6.3).
    """

    params: HighLossSection
    uses_losses: ClassVar[bool] = True
    uses_gradients: ClassVar[bool] = False

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        return sorted(idle, key=lambda d: -ledger.losses.get(d, float("inf")))


class ShortLatencySection(SelectorSection):
    name: Literal["short-latency"]


@dataclass
class ShortLatency:
    """Whose rounds with this gateway are shortest.

    Async-HFL's baseline ST (Yu et al., IoTDI 2023, Section 4).
    """

    params: ShortLatencySection
    uses_losses: ClassVar[bool] = False
    uses_gradients: ClassVar[bool] = False

    def rank(
        self, sim: Simulation, ledger: Ledger, gateway: NodeId, idle: list[NodeId]
    ) -> list[NodeId]:
        return sorted(idle, key=lambda d: ledger.latency_s(sim, gateway, d))
