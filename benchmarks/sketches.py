"""How often sketches of gradients pick the devices that full gradients would pick.

Runs a variant of a study that selects by utility-ilp on sketches, with each seed; at every
selection in which not all fit, the program is solved once more with full gradients, and once with
their utilities dealt out at random. The run goes on with what the sketches say.
    .venv/bin/python benchmarks/sketches.py scripts/studies/fashion-table6.toml Async-HFL
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from selection.ilp import select_devices
from selection.manager import gradient
from selection.utility import LearningUtility
from simulator.build import build
from simulator.kernel import Simulation
from simulator.recorder import FolderRecorder
from simulator.rng import Stream
from simulator.scenario import Scenario
from simulator.study import Study, runs_of


class BothWays:
    """A manager that also keeps full gradients, and compares what would be picked by them."""

    def __init__(self, manager: Any, devices: Any) -> None:
        self.manager = manager
        self.full = LearningUtility(list(devices))
        self.alike: list[float] = []
        """Of those picked by full gradients, the share that sketches pick too; by_chance: that
        utilities dealt out at random do."""
        self.by_chance: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)

    def fit(self, sim: Any, updates: Any) -> None:
        self.manager.fit(sim, updates)
        for update in updates:
            self.full.update(update.node, gradient(update).numpy())

    def end(self, sim: Any, gateway: Any, device: Any, update: Any) -> None:
        self.manager.end(sim, gateway, device, update)
        if update is not None:
            self.full.update(device, gradient(update).numpy())

    def select(self, sim: Any, gateway: Any, idle: Any, most: Any = None) -> Any:
        ledger = self.manager.ledger
        members = list(dict.fromkeys([*idle, *sim.devices_of(gateway)]))
        latencies = np.array([ledger.latency_s(sim, gateway, d) for d in idle])
        rates = np.array([ledger.rate(sim, gateway, d) for d in idle])
        free, kappa = ledger.free(gateway), self.manager.selector.params.kappa
        utilities = [
            known.utilities(members)[: len(idle)] for known in (ledger.gradients, self.full)
        ]
        shuffled = sim.rng(Stream.SKETCH, gateway).permutation(utilities[1])
        sketched, full, dealt = (
            set(select_devices(u, latencies, rates, free, kappa=kappa).devices)
            for u in (*utilities, shuffled)
        )
        if 0 < len(full) < len(idle):
            self.alike.append(len(sketched & full) / len(full))
            self.by_chance.append(len(dealt & full) / len(full))
        return self.manager.select(sim, gateway, idle, most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("study", type=Path)
    parser.add_argument("variant")
    parser.add_argument("--epochs", type=int, default=60, help="cloud epochs (default 60)")
    options = parser.parse_args()
    study = Study.load(options.study)
    print(f"{'seed':>4} {'selections':>10} {'as full gradients':>18} {'by chance':>10}")
    for run in runs_of(study, options.study, Path("unused")):
        if run.variant == options.variant:
            alike, by_chance = measured(run.scenario, run.base, options.epochs)
            print(f"{run.seed:4} {len(alike):10} {np.mean(alike):18.3f} {np.mean(by_chance):10.3f}")


def measured(scenario: Scenario, base: Path, epochs: int) -> tuple[list[float], list[float]]:
    limits = {"epochs": epochs, "target": None, "stop_at_target": False}
    world = build(scenario.model_copy(update={"run": scenario.run.model_copy(update=limits)}), base)
    both: Any = BothWays(world.manager, world.topology.devices)
    with tempfile.TemporaryDirectory() as folder:
        names = [node.name for node in world.topology.nodes]
        sim = Simulation(replace(world, manager=both), FolderRecorder(Path(folder), names))
        sim.start()
        sim.run(lambda: 0.0)
    return both.alike, both.by_chance


if __name__ == "__main__":
    main()
