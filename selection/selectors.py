"""Selectors that need no knowledge of the devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from simulator.kernel import Simulation
from simulator.rng import Stream
from simulator.section import Section
from simulator.units import NodeId


class SelectAllSection(Section):
    name: Literal["all"] = "all"


@dataclass
class SelectAll:
    """Every idle device."""

    params: SelectAllSection

    def select(self, sim: Simulation, gateway: NodeId, idle: list[NodeId]) -> list[NodeId]:
        return idle


class SelectRandomSection(Section):
    name: Literal["random"]
    fraction: float = Field(0.5, gt=0, le=1)
    """Share of a gateway's idle devices that train, rounded, at least one."""


@dataclass
class SelectRandom:
    """A fair draw without replacement."""

    params: SelectRandomSection

    def select(self, sim: Simulation, gateway: NodeId, idle: list[NodeId]) -> list[NodeId]:
        if not idle:
            return []
        count = max(1, round(self.params.fraction * len(idle)))
        rng = sim.rng(Stream.SELECTION, gateway)
        return sorted(int(d) for d in rng.choice(idle, count, replace=False))
