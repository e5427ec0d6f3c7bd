"""What ns-3 says of each link: alone, and among others.

Runs of ns-3 with one gateway and some of its devices, for every frame costs time at each station,
even at those that sleep: n transfers are kept under way until every link has been used in both
directions. Each run leaves a file, so that an interrupted measurement goes on where it was.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from ns3_scenarios.network import scene_of
from ns3_scenarios.process import Ns3Process
from ns3_scenarios.section import Ns3Section
from simulator.errors import UserError
from simulator.parts import FOREVER
from simulator.rng import Stream, generator
from simulator.units import SECOND, NodeId, Time
from topologies import Topology

IN_FLIGHT = (1, 2, 5, 10)
MOST_DEVICES = 16
"""In one run."""
LEAST = 24
"""Transfers in a run among others, however few links there are."""
GAP: Time = SECOND // 20
"""Between lone transfers, for the last acknowledgements."""
DEADLINE: Time = 600 * SECOND


class Sample(NamedTuple):
    """A transfer that was measured; times in ns."""

    src: NodeId
    dst: NodeId
    nbytes: int
    start: Time
    end: Time
    arrived: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / SECOND


Order = tuple[NodeId, NodeId, int]
"""From, to, bytes."""


@dataclass(frozen=True)
class Task:
    gateway: NodeId
    devices: tuple[NodeId, ...]
    in_flight: int
    orders: tuple[Order, ...]
    gap: Time = 0
    """Between the end of a transfer and the next."""

    @property
    def is_alone(self) -> bool:
        return self.gap > 0

    def file(self, folder: Path) -> Path:
        first, gap = min(self.devices, default=0), "-gap" if self.gap else ""
        return folder / f"{self.gateway}-{first}-{self.in_flight}{gap}.json"


def tasks_of(topology: Topology, sizes: tuple[int, ...]) -> list[Task]:
    """The longest first, so that workers end together."""
    tasks = []
    for gateway in topology.gateways:
        reached = [d for d in topology.devices if gateway in topology.reach(d)]
        wires = [(gateway, topology.cloud)]
        for devices in _groups(reached) or [()]:
            ends = [*wires, *((d, gateway) for d in devices)]
            tasks.append(Task(gateway, devices, 1, tuple(_lone_orders(ends, sizes)), GAP))
            if wires and devices:
                tasks.append(Task(gateway, devices, 1, tuple(_close_orders(ends[1:], sizes[1]))))
            for n in IN_FLIGHT[1:] if devices else ():
                orders = tuple(_mixed_orders(gateway, devices, sizes, n))
                tasks.append(Task(gateway, devices, n, orders))
            wires = []
    return sorted(tasks, key=lambda task: -sum(nbytes for *_, nbytes in task.orders))


def _groups(devices: list[NodeId]) -> list[tuple[NodeId, ...]]:
    count = -(-len(devices) // MOST_DEVICES)
    return [tuple(devices[i::count]) for i in range(count)]


def _lone_orders(ends: list[tuple[NodeId, NodeId]], sizes: tuple[int, ...]) -> Iterator[Order]:
    """Two sizes come twice: a device must associate first, and repetition tells the noise."""
    for low, high in ends:
        for nbytes in (sizes[0], sizes[-2], *sizes):
            yield low, high, nbytes
            yield high, low, nbytes


def _close_orders(ends: list[tuple[NodeId, NodeId]], nbytes: int) -> Iterator[Order]:
    """One at the heels of the other; the first of a device associates."""
    for low, high in ends:
        yield from ((low, high, nbytes), (high, low, nbytes)) * 2


def _mixed_orders(
    gateway: NodeId, devices: tuple[NodeId, ...], sizes: tuple[int, ...], n: int
) -> Iterator[Order]:
    """Every link both ways in random order, of the two larger sizes by turns."""
    rng = generator(0, Stream.NETWORK, devices[0], n)
    ways = [pair for d in devices for pair in ((d, gateway), (gateway, d))]
    turns = cycle((sizes[-1], sizes[-2]))
    for _ in range(-(-LEAST // len(ways))):
        for place in rng.permutation(len(ways)):
            yield *ways[place], next(turns)


Progress = Callable[[int], None]
"""Told the bytes of each transfer that has been measured."""


def measure(
    topology: Topology,
    section: Ns3Section,
    tasks: list[Task],
    folder: Path,
    workers: int,
    progress: Progress,
) -> dict[Task, list[Sample]]:
    """Run what has no file in ``folder`` yet."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = threading.Lock()
    running: set[Ns3Process] = set()

    def told(nbytes: int) -> None:
        with lock:
            progress(nbytes)

    def run(task: Task) -> list[Sample]:
        path = task.file(folder)
        if path.exists():
            told(sum(nbytes for *_, nbytes in task.orders))
            return [Sample(*row) for row in json.loads(path.read_text())]
        samples = run_task(topology, section, task, told, running)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(samples))
        os.replace(partial, path)
        return samples

    with ThreadPoolExecutor(workers) as pool:
        try:
            return dict(zip(tasks, pool.map(run, tasks), strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.close()  # else their threads would have to be waited for
            raise


def run_task(
    topology: Topology,
    section: Ns3Section,
    task: Task,
    progress: Progress,
    running: set[Ns3Process],
) -> list[Sample]:
    scene, number = cell_scene(topology, section, task.gateway, task.devices)
    process = Ns3Process()
    running.add(process)
    try:
        process.ask("build", *scene)
        samples = _drive(process, task, number, progress)
    finally:
        running.remove(process)
        process.close()
    for sample in samples if task.is_alone else ():
        _refuse_lost(topology, sample)
    return samples


def _refuse_lost(topology: Topology, sample: Sample) -> None:
    if not sample.arrived:
        names = [topology.nodes[node].name for node in (sample.src, sample.dst)]
        raise UserError(
            f"in ns-3 nothing gets from {names[0]!r} to {names[1]!r}, though the topology has a "
            "link there; remove the link, or give its ends more power or gain"
        )


def _drive(
    process: Ns3Process, task: Task, number: dict[NodeId, int], progress: Progress
) -> list[Sample]:
    """Keep so many under way. In the order of the orders."""
    started: dict[int, Time] = {}
    ended: dict[int, Sample] = {}
    orders = iter(enumerate(task.orders))

    def start(now: Time) -> None:
        for flow, (src, dst, nbytes) in orders:
            started[flow] = now
            process.tell("start", flow, now, number[src], number[dst], nbytes, DEADLINE)
            return

    for _ in range(task.in_flight):
        start(0)
    while started:
        flow, end, status, _ = process.ask("advance", FOREVER)
        src, dst, nbytes = task.orders[flow]
        ended[flow] = Sample(src, dst, nbytes, started.pop(flow), end, status == 0)
        progress(nbytes)
        start(end + task.gap)
    return [ended[flow] for flow in range(len(task.orders))]


def cell_scene(
    topology: Topology, section: Ns3Section, gateway: NodeId, devices: Sequence[NodeId]
) -> tuple[list[Any], dict[NodeId, int]]:
    """One gateway, some devices and the cloud, unpaced; and the numbers they have there."""
    number = {node: i for i, node in enumerate([topology.cloud, gateway, *devices])}
    options, nodes, links, boxes, _ = scene_of(topology, section, 0, {})
    wires = [
        link | {"a": number[link["a"]], "b": number[link["b"]]}
        for link in links
        if link["a"] in number and link["b"] in number
    ]
    kept = [nodes[node] | {"rateLimitBps": 0.0} for node in number]
    homes = [-1, -1, *[1] * len(devices)]
    return [options, kept, wires, boxes, homes], number


def contending(topology: Topology, section: Ns3Section) -> dict[NodeId, NodeId]:
    """By gateway: the first gateway on its channel that it hears, directly or through others."""
    first = {g: g for g in topology.gateways}
    shared = [
        (a, b)
        for i, a in enumerate(topology.gateways)
        for b in topology.gateways[i + 1 :]
        if topology.nodes[a].channel == topology.nodes[b].channel
    ]
    if not shared:
        return first
    homes = {d: topology.reach(d)[0] for d in topology.devices}
    process = Ns3Process()
    try:
        process.ask("build", *scene_of(topology, section, 0, homes))
        for a, b in shared:
            if process.ask("power", a, b) >= section.sensitivity_dbm:
                joined = {first[a], first[b]}
                first = {g: min(joined) if f in joined else f for g, f in first.items()}
    finally:
        process.close()
    return first
