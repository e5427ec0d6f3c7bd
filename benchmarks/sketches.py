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
from typing import Any, NamedTuple

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


class Picks(NamedTuple):
    """Of one selection."""

    both: int
    """Devices picked both ways."""
    either: int


def share(picks: list[Picks]) -> float:
    """Of all picks, those that both ways agree on."""
    return sum(p.both for p in picks) / max(1, sum(p.either for p in picks))


def mean_share(picks: list[Picks]) -> float:
    """The same as a mean over selections, in which one of a single device counts like any other."""
    return float(np.mean([p.both / max(1, p.either) for p in picks]))


class BothWays:
    """A manager that also keeps full gradients, and compares what would be picked by them."""

    def __init__(self, manager: Any, devices: Any) -> None:
        self.manager = manager
        self.full = LearningUtility(list(devices))
        self.alike: list[Picks] = []
        """Of sketches and full gradients; by_chance: of utilities dealt out at random and these."""
        self.by_chance: list[Picks] = []

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
        if len(full) < len(idle):
            self.alike.append(Picks(len(sketched & full), len(sketched | full)))
            self.by_chance.append(Picks(len(dealt & full), len(dealt | full)))
        return self.manager.select(sim, gateway, idle, most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("study", type=Path)
    parser.add_argument("variant")
    parser.add_argument("--epochs", type=int, default=60, help="cloud epochs (default 60)")
    options = parser.parse_args()
    study = Study.load(options.study)
    print("picks that agree with full gradients', and by chance; mean over selections")
    print(f"{'seed':>4} {'selections':>10} {'picks':>8} {'chance':>8} {'mean':>8} {'chance':>8}")
    for run in runs_of(study, options.study, Path("unused")):
        if run.variant == options.variant:
            ways = measured(run.scenario, run.base, options.epochs)
            shares = [of(way) for of in (share, mean_share) for way in ways]
            print(f"{run.seed:4} {len(ways[0]):10}", *(f"{number:8.3f}" for number in shares))


def measured(scenario: Scenario, base: Path, epochs: int) -> tuple[list[Picks], list[Picks]]:
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
