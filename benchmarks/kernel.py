"""Events per second of the kernel on TableNetwork, against a bare heapq loop in the same run.

Every event is a transfer that arrives and starts another.
    .venv/bin/python benchmarks/kernel.py
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from simulator.compute import ConstantDelay, DeviceCompute
from simulator.events import Arrived, Event
from simulator.kernel import Simulation
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.table import TableNetwork
from simulator.parts import Goals, Recorder, Score, World
from simulator.recorder import FolderRecorder
from simulator.units import SECOND
from topologies import Topology, load_topology
from topologies.section import TreeTopology

EVENTS = 300_000
GATEWAYS, DEVICES = 10, 1000


class NoLearner:
    model_bytes = 1000

    def initial_model(self) -> torch.Tensor:
        return torch.zeros(1)

    def evaluate(self, model: torch.Tensor) -> Score:
        return Score(None, 0.0)


class NoRecorder:
    def transfer(self, *row: object) -> None: ...
    def trained(self, *row: object) -> None: ...
    def alarm(self, *row: object) -> None: ...
    def row(self, *row: object) -> None: ...


@dataclass
class PingPong:
    """Every device always has one transfer under way with its gateway."""

    left: int

    def start(self, sim: Simulation) -> None:
        for device, gateway in sim.association.items():
            sim.send(gateway, device, None)

    def handle(self, sim: Simulation, event: Event) -> None:
        self.left -= 1
        if not self.left:
            sim.stop("done")
        match event:
            case Arrived(src=src, dst=dst):
                sim.send(dst, src, None)


def bare_loop(topology: Topology) -> float:
    heap = [(SECOND + d, d) for d in topology.devices]
    heapq.heapify(heap)
    began = time.process_time()
    for counter in range(EVENTS):
        now, device = heapq.heappop(heap)
        heapq.heappush(heap, (now + SECOND + counter % 7919, device))
    return EVENTS / (time.process_time() - began)


def kernel(topology: Topology, recorder: Recorder) -> float:
    delays = {}
    for d in topology.devices:
        for g in topology.reach(d):
            delays[d, g] = delays[g, d] = SECOND + d * 7919
    for g in topology.gateways:
        delays[g, topology.cloud] = delays[topology.cloud, g] = SECOND
    world = World(
        topology=topology,
        network=TableNetwork(topology, delays, Noise(NoisySection(), 0), "benchmark"),
        compute=DeviceCompute(ConstantDelay(), topology.devices, 0, Path()),
        learner=NoLearner(),  # type: ignore[arg-type]
        algorithm=PingPong(EVENTS),
        manager=None,  # type: ignore[arg-type]
        association={d: topology.reach(d)[0] for d in topology.devices},
        goals=Goals(),
        seed=0,
    )
    sim = Simulation(world, recorder)
    sim.start()
    began = time.process_time()
    sim.run(lambda: time.monotonic() + 0.1)
    assert sim.progress.events == EVENTS
    return EVENTS / (time.process_time() - began)


def main() -> None:
    section = TreeTopology(
        gateways=GATEWAYS, devices=DEVICES,
        device_rate_bps=1e6, gateway_rate_bps=2e7, backhaul_rate_bps=1e8,
    )  # fmt: skip
    topology = load_topology(section, 0, Path())
    bare = max(bare_loop(topology) for _ in range(3))
    silent = max(kernel(topology, NoRecorder()) for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        names = [node.name for node in topology.nodes]
        written = max(kernel(topology, FolderRecorder(Path(folder), names)) for _ in range(3))
    print(f"{EVENTS:,} events, {DEVICES} transfers in flight, best of 3")
    print(f"{'':24}{'events/s':>12}{'of bare loop':>14}")
    for name, rate in [
        ("bare heapq loop", bare),
        ("kernel", silent),
        ("kernel, recording", written),
    ]:
        print(f"{name:24}{rate:12,.0f}{rate / bare:14.2f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
