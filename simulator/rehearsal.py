"""Runs without learning, to see how long things take on a scenario's own network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from simulator.build import build
from simulator.events import Update
from simulator.kernel import Simulation
from simulator.parts import Recorder
from simulator.scenario import Scenario
from simulator.section import LONGEST_S
from simulator.units import FlowId, NodeId, Time


class Watch(Recorder, Protocol):
    """A recorder that stops the run when it has seen enough."""

    sim: Simulation | None


class Silent:
    """A recorder that writes nothing down."""

    def transfer(
        self, end: Time, status: str, flow: FlowId, src: NodeId, dst: NodeId,
        kind: str, nbytes: int, start: Time, reason: str, overhead_bytes: int,
        radio_j: float | None,
    ) -> None:  # fmt: skip
        pass

    def trained(self, time: Time, update: Update) -> None:
        pass

    def alarm(self, time: Time, tag: object) -> None:
        pass

    def row(self, time: Time, row: dict[str, Any]) -> None:
        pass


def rehearse(scenario: Scenario, base: Path, watch: Watch) -> str:
    """Why the run ended, if not because the watch stopped it."""
    changes = {
        "run": {"learning": "none", "target": None, "stop_at_target": False, "epochs": None,
                "sim_time_s": LONGEST_S},
        "record": {"evaluate_every_epochs": 1, "evaluate_every_s": None,
                   "evaluate_gateway_rounds": None},
    }  # fmt: skip
    parts = {
        name: getattr(scenario, name).model_copy(update=change) for name, change in changes.items()
    }
    world = build(scenario.model_copy(update=parts), base)
    try:
        watch.sim = Simulation(world, watch)
        watch.sim.start()
        watch.sim.run(lambda: 0.0)
    finally:
        world.network.close()
    return watch.sim.progress.stop_reason
