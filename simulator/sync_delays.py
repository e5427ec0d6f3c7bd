"""How long local iterations and global rounds take on a scenario's network, and what S makes of it.

Measured on the network itself, whichever it is, by two runs without learning: one in which groups
never meet, for the iterations, and one with S = 0, for what a global round takes besides. Then
global rounds are drawn from the measured times, which is thousands of times cheaper. What is left
out: that an iteration may take another time when others end, and that groups begin apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from algorithms.sync_schedule import ConstantSchedule
from algorithms.sync_time_hfl import SyncTimeSection
from simulator.errors import UserError
from simulator.kernel import Simulation
from simulator.rehearsal import Silent, rehearse
from simulator.scenario import Scenario
from simulator.section import LONGEST_S
from simulator.units import FlowId, NodeId, Time, to_seconds

_FEW = 6
"""Iterations of a group that is much slower than others are enough."""
_SHARE_OF_ROUNDS = 5
"""Of so many iterations that are measured, one is a global round."""


@dataclass(frozen=True)
class Delays:
    local_s: tuple[np.ndarray, ...]
    """tau_i: of each group, in the order of the topology's gateways that have devices."""
    global_s: np.ndarray
    """tau_g: what rounds took besides the longest of their iterations."""


class Course(NamedTuple):
    """Global rounds until T."""

    iterations: list[list[int]]
    """t_i^u: a row for each round."""
    waiting: float
    """Share of the groups' time in which they wait for slower ones."""


def measure_delays(scenario: Scenario, base: Path, samples: int) -> Delays:
    """``samples`` iterations of a group in the mean, and a fifth as many global rounds."""
    alone, together = _Watch(least=samples + 1), _Watch(rounds=max(3, samples // _SHARE_OF_ROUNDS))
    _play(scenario, base, LONGEST_S, alone)
    _play(scenario, base, 0.0, together)
    assert alone.sim is not None
    topology = alone.sim.topology
    names = [topology.nodes[gateway].name for gateway in topology.gateways]
    local = [np.diff(alone.ends[name]) / 1e9 for name in names if name in alone.ends]
    return Delays(tuple(local), np.array(together.besides_s))


@dataclass
class _Watch(Silent):
    """A recorder that stops the run when it has seen enough."""

    least: int = 0
    """Iterations of a group in the mean; or so many global rounds."""
    rounds: int | None = None
    sim: Simulation | None = None
    ends: dict[str, list[Time]] = field(default_factory=dict)
    """By gateway: when its iterations ended."""
    entered: dict[str, Time] = field(default_factory=dict)
    """By gateway: when the global model came."""
    longest: Time = 0
    """Of the iterations of this round."""
    began: Time = 0
    besides_s: list[float] = field(default_factory=list)

    def transfer(
        self, end: Time, status: str, flow: FlowId, src: NodeId, dst: NodeId,
        kind: str, nbytes: int, start: Time, reason: str, overhead_bytes: int,
        radio_j: float | None,
    ) -> None:  # fmt: skip
        assert self.sim is not None
        if kind == "backhaul" and src == self.sim.topology.cloud:
            self.entered[self.sim.topology.nodes[dst].name] = end

    def row(self, time: Time, row: dict[str, Any]) -> None:
        assert self.sim is not None
        if row["tier"] == "gateway":
            self.ends.setdefault(row["node"], []).append(time)
            self.longest = max(self.longest, time - self.entered[row["node"]])
        elif row["tier"] == "cloud" and row["epoch"]:
            self.besides_s.append(to_seconds(time - self.began - self.longest))
            self.began, self.longest = time, 0
        if self._has_enough(len(set(self.sim.association.values()))):
            self.sim.stop("enough")

    def _has_enough(self, groups: int) -> bool:
        if self.rounds is not None:
            return len(self.besides_s) >= self.rounds
        seen = [len(times) for times in self.ends.values()]
        enough = len(seen) == groups and sum(seen) >= self.least * groups
        return enough and min(seen) >= min(self.least, _FEW)


def _play(scenario: Scenario, base: Path, sync_time_s: float, watch: _Watch) -> None:
    section = scenario.algorithm
    assert isinstance(section, SyncTimeSection)
    plain = {
        "sync_time_s": sync_time_s, "schedule": ConstantSchedule(), "system_time_s": None,
    }  # fmt: skip
    timed = scenario.model_copy(update={"algorithm": section.model_copy(update=plain)})
    if rehearse(timed, base, watch) != "enough":
        raise UserError(
            "delays cannot be measured: a group waits for ever for a device or a transfer that is "
            "lost; set algorithm.gateway_timeout_s and cloud_timeout_s"
        )


def draw_path(
    delays: Delays,
    sync_time_s: float,
    system_time_s: float,
    rng: np.random.Generator,
    cut_off: bool = False,
) -> Course:
    """Equations (7), (9) and (13), with measured times; what is ``cut_off`` at T does not count."""
    iterations, elapsed, worked, available = [], 0.0, 0.0, 0.0
    while elapsed < system_time_s:
        rounds = [_until(times, sync_time_s, rng) for times in delays.local_s]
        longest = max(spent for _, spent in rounds)
        iterations.append([count for count, _ in rounds])
        worked += sum(spent for _, spent in rounds)
        available += longest * len(rounds)
        elapsed += longest + float(rng.choice(delays.global_s))
    if cut_off and elapsed > system_time_s:
        iterations.pop()
    return Course(iterations, 1 - worked / available)


def _until(times: np.ndarray, sync_time_s: float, rng: np.random.Generator) -> tuple[int, float]:
    """t_i, and the time that so many iterations take."""
    drawn = np.zeros(0)
    while True:
        more = rng.choice(times, int(1.2 * sync_time_s / times.mean()) + 4)
        drawn = np.concatenate([drawn, more])
        total = np.cumsum(drawn)
        if total[-1] >= sync_time_s:
            last = int(np.searchsorted(total, sync_time_s))
            return last + 1, float(total[last])
