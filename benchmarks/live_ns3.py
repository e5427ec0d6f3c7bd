"""Live ns-3: through Ns3Network, and by a C++ program alone on the same scene and traffic.

Every device of a topology gets a model from its gateway and sends one back, five devices of a
gateway at a time. CPU time of all processes involved, the least of three rounds; the parts can
be chosen (default: all).
    .venv/bin/python benchmarks/live_ns3.py [traffic] [start] [idle] [metro]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from ns3_scenarios.library import SOURCES, library
from ns3_scenarios.network import Ns3Network, scene_of
from ns3_scenarios.process import Ns3Process
from ns3_scenarios.section import Ns3Section
from simulator.compiled import find_compiler
from simulator.network import Completion
from simulator.units import SECOND, NodeId, Time
from topologies import Topology, load_topology
from topologies.geography import distance_m, positions
from topologies.section import FileTopology

AT_A_TIME = 5
ROUNDS = 3
SIZES = {208_000: 10.0, 1_600_000: 3.0}
"""Bytes of a model, and how many transfers a CPU second are wanted."""
FOREVER = 10**15
DAY = 86_400 * SECOND
OPTIONS = (
    "standard", "bandGhz", "widthMhz", "rateManager", "loss", "lossExponent", "fixedRssDbm",
    "shadowingSigmaDb", "transport", "sensitivityDbm", "longestLinkM", "seed",
    "queue", "macQueuePackets", "rtsBytes",
)  # fmt: skip
"""In the order in which the driver reads them."""
DRIVER = Path(__file__).with_suffix(".cc")

Ended = tuple[int, int, int]
"""Flow, time, and status: 0 for arrived."""


@dataclass
class Played:
    ended: list[Ended]
    events: int
    cpu_s: float
    peak_mb: float = 0.0


class Traffic:
    """Every device gets a model and, if wanted, sends one back; so many of a gateway at a time."""

    def __init__(self, network: Ns3Network, topology: Topology, nbytes: int, back: bool) -> None:
        self._network, self._nbytes, self._back = network, nbytes, back
        self._devices = set(topology.devices)
        self._waiting: dict[NodeId, deque[NodeId]] = {g: deque() for g in topology.gateways}
        for device, gateway in nearest(topology).items():
            self._waiting[gateway].append(device)
        self._ends: list[tuple[NodeId, NodeId]] = []

    def run(self) -> list[Ended]:
        for gateway in self._waiting:
            for _ in range(AT_A_TIME):
                self._next(0, gateway)
        ended = []
        while (done := self._network.advance(FOREVER)) is not None:
            ended.append((done.flow, done.time, int(bool(done.lost))))
            self._react(done)
        return ended

    def _react(self, done: Completion) -> None:
        src, dst = self._ends[done.flow]
        down = dst in self._devices
        if down and self._back:
            self._send(done.time, dst, src)
        else:
            self._next(done.time, src if down else dst)

    def _next(self, now: Time, gateway: NodeId) -> None:
        if self._waiting[gateway]:
            self._send(now, gateway, self._waiting[gateway].popleft())

    def _send(self, now: Time, src: NodeId, dst: NodeId) -> None:
        flow = self._network.send(now, src, dst, self._nbytes)
        assert flow == len(self._ends)
        self._ends.append((src, dst))


def through_python(topology: Topology, nbytes: int, back: bool = True) -> Played:
    network = Ns3Network(topology, Ns3Section(), seed=0)
    try:
        ns3 = network._ns3
        before = cpu_seconds(ns3)
        ended = Traffic(network, topology, nbytes, back).run()
        spent = cpu_seconds(ns3) - before
        return Played(ended, ns3.ask("events"), spent, peak_mb(ns3))
    finally:
        network.close()


def cpu_seconds(ns3: Ns3Process) -> float:
    """Of this process and of the one that ns-3 lives in."""
    worker = psutil.Process(ns3._process.pid).cpu_times()
    return time.process_time() + worker.user + worker.system


def peak_mb(ns3: Ns3Process) -> float:
    status = Path(f"/proc/{ns3._process.pid}/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def compiled_driver(folder: Path) -> Path:
    made, manager = folder / "driver", library()
    compiler = find_compiler("the driver")
    command = [*compiler, "-O2", "-std=c++20", f"-I{SOURCES}", str(DRIVER), str(manager)]
    subprocess.run([*command, "-o", str(made)], check=True)
    return made


def by_the_driver(driver: Path, scene: Path, nbytes: int) -> Played:
    command = [str(driver), str(scene), str(nbytes), str(AT_A_TIME)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split(
        "\n"
    )
    *ended, events, cpu_s = (line.split() for line in lines if line)
    flows = [(int(flow), int(at), int(status)) for flow, at, status in ended]
    return Played(flows, int(events[1]), float(cpu_s[1]))


def write_scene(topology: Topology, path: Path) -> None:
    """What Ns3Network hands over, a line for each thing, fields in the driver's order."""
    gateway = {d: topology.reach(d)[0] for d in topology.devices}
    options, nodes, links, boxes, gateways = scene_of(topology, Ns3Section(), 0, gateway)
    radio = {"txPowerDbm": 0.0, "gainDbi": 0.0, "channel": 0, "rateLimitBps": 0.0}
    order = ("tier", "x", "y", "z", *radio)
    rows: list[list[Any]] = [["options", *_values(options, OPTIONS)]]
    home = nearest(topology)
    for number, (node, first) in enumerate(zip(nodes, gateways, strict=True)):
        rows.append(["node", *_values(radio | node, order), first, home.get(number, -1)])
    rows += [["link", *_values(link, ("a", "b", "kind", "rateBps", "latencyS"))] for link in links]
    rows += [["box", *box] for box in boxes]
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))


def nearest(topology: Topology) -> dict[NodeId, NodeId]:
    """Whom a scenario's devices talk to unless it says otherwise."""
    places = positions(topology)
    return {
        d: min(topology.reach(d), key=lambda g: distance_m(places[d], places[g]))
        for d in topology.devices
    }


def _values(row: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    told = {name for name, value in row.items() if value is not False}
    assert not told - set(names), told - set(names)
    return [row[name] for name in names]


def traffic() -> None:
    topology = shipped("nycmesh-184")
    print(
        f"{'bytes':>9}{'':8}{'transfers':>10}{'CPU s':>8}{'per CPU s':>10}{'events/CPU s':>14}"
        f"{'makespan s':>12}{'peak MB':>9}"
    )
    with tempfile.TemporaryDirectory() as folder:
        driver, scene = compiled_driver(Path(folder)), Path(folder) / "scene"
        write_scene(topology, scene)
        for nbytes, wanted in SIZES.items():
            raw, python = least_of_rounds(
                lambda n=nbytes: by_the_driver(driver, scene, n),
                lambda n=nbytes: through_python(topology, n),
            )
            tell_played(nbytes, "C++", raw)
            tell_played(nbytes, "Python", python)
            tell_goal("transfers a CPU second", len(raw.ended) / python.cpu_s, ">=", wanted)
            tell_goal("CPU time, Python / C++", python.cpu_s / raw.cpu_s, "<=", 1.1)
            tell_goal("peak MB of the ns-3 process", python.peak_mb, "<", 500)


def least_of_rounds(*ways: Callable[[], Played]) -> list[Played]:
    """Of each way the round with the least CPU time; all must end alike, to the nanosecond."""
    rounds = [[way() for way in ways] for _ in range(ROUNDS)]
    first = rounds[0][0]
    assert all(status == 0 for _, _, status in first.ended)
    for played in chain(*rounds):
        assert (played.ended, played.events) == (first.ended, first.events)
    return [min(of_one, key=lambda played: played.cpu_s) for of_one in zip(*rounds, strict=True)]


def tell_played(nbytes: int, how: str, played: Played) -> None:
    count, makespan = len(played.ended), played.ended[-1][1] / SECOND
    print(
        f"{nbytes:9,} {how:7}{count:10}{played.cpu_s:8.2f}{count / played.cpu_s:10.2f}"
        f"{played.events / played.cpu_s:14,.0f}{makespan:12.3f}"
        + (f"{played.peak_mb:9.0f}" if played.peak_mb else "")
    )


def tell_goal(what: str, found: float, relation: str, wanted: float) -> None:
    met = found >= wanted if relation == ">=" else found <= wanted
    print(f"  {what}: {found:.2f}, wanted {relation} {wanted:g}: {'met' if met else 'MISSED'}")


def start() -> None:
    """From the start of a process to 184 stations that have associated."""
    with tempfile.TemporaryDirectory() as empty:
        for what, cache, wanted in (("compiles first", empty, 25), ("from the cache", empty, 6)):
            wall_s, cpu_s = associated_in_a_process(cache)
            print(f"start of a process to 184 associated stations, {what}: {wall_s:.1f} s")
            tell_goal("CPU seconds", cpu_s, "<", wanted)


def associated_in_a_process(cache: str) -> tuple[float, float]:
    before, began = os.times(), time.monotonic()
    command = [sys.executable, __file__, "associate"]
    subprocess.run(command, env=os.environ | {"XDG_CACHE_HOME": cache}, check=True)
    after = os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    return time.monotonic() - began, cpu_s


def associate() -> None:
    topology = shipped("nycmesh-184")
    network = Ns3Network(topology, Ns3Section(), seed=0)
    for device, gateway in nearest(topology).items():
        network.send(0, gateway, device, 1)
    ended = [network.advance(FOREVER) for _ in topology.devices]
    assert all(done is not None and not done.lost for done in ended)
    network.close()


def idle() -> None:
    """A day in which nothing is sent, but a device out of range is waited for at first."""
    topology = shipped("nycmesh-184")
    scene: Any = scene_of(topology, Ns3Section(), 0, nearest(topology))
    far = topology.devices[0]
    scene[1][far]["x"] += 60_000.0
    ns3 = Ns3Process()
    ns3.ask("build", *scene)
    ns3.tell("start", 0, 0, nearest(topology)[far], far, 1000, 3600 * SECOND)
    before = cpu_seconds(ns3)
    assert ns3.ask("advance", DAY)[:3] == [0, 3600 * SECOND, 1]
    assert ns3.ask("advance", DAY) is None
    print("a day without traffic; for an hour of it a device out of range is waited for")
    tell_goal("CPU seconds", cpu_seconds(ns3) - before, "<", 2)
    ns3.close()


def metro() -> None:
    """1000 devices on 20 gateways: a model to each of them."""
    topology = shipped("metro-1000")
    played = through_python(topology, 200_000, back=False)
    lost = sum(status != 0 for _, _, status in played.ended)
    print(f"metro-1000, 200,000 bytes to each of {len(topology.devices)} devices, {lost} lost")
    tell_played(200_000, "Python", played)


def shipped(name: str) -> Topology:
    return load_topology(FileTopology(path=Path(name), profile="broadband"), 0, Path())


PARTS = {"traffic": traffic, "start": start, "idle": idle, "metro": metro}
HIDDEN = {"associate": associate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, *HIDDEN])
    for part in parser.parse_args().parts or PARTS:
        (PARTS | HIDDEN)[part]()


if __name__ == "__main__":
    main()
