"""Many devices on FlowNetwork: time and peak memory, each run in a process of its own.

.venv/bin/python benchmarks/scale.py [network] [trained] [scaling] [--plot FILE.png]

network   scripts/scenarios/fedavg-tree-100000-network.toml: a million transfers, nothing learned
trained   10,000 devices on 100 gateways train an MLP, 100,000 device updates
scaling   100, 1,000 and 10,000 devices, 10,000 device updates each, with and without learning
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from memory import synthetic

from simulator import build
from simulator.runner import start
from simulator.scenario import Scenario

NETWORK = Path(__file__).parents[1] / "scripts/scenarios/fedavg-tree-100000-network.toml"
SIZES = ((100, 1), (1_000, 10), (10_000, 100))
UPDATES = 10_000
PARTS = ("network", "trained", "scaling")


def trained(devices: int, gateways: int, updates: int, learning: str = "sgd") -> dict[str, Any]:
    """FedAvg on random pictures, six on a device: a job is one step."""
    return {
        "run": {"epochs": updates // devices, "learning": learning},
        "topology": {"kind": "tree", "devices": devices, "gateways": gateways},
        "network": {"kind": "flow"},
        "compute": {"kind": "exponential", "drawn": "job"},
        "data": {"samples_per_device": 6},
        "model": {"name": "mlp", "transfer_bytes": 203_560},
        "training": {"batch_size": 20},
        "algorithm": {"name": "fedavg"},
        "record": {"evaluate_every_epochs": None},
    }


def measure(content: dict[str, Any]) -> dict[str, Any]:
    """Run it in a new process, so that its peak memory is its own."""
    command = [sys.executable, __file__, "--run", json.dumps(content)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def run(content: dict[str, Any]) -> dict[str, Any]:
    build.load = synthetic
    scenario = Scenario.model_validate(content)
    wall, cpu = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        summary = start(scenario, Path(), Path(folder) / "run")
        lines = (Path(folder) / "run/events.log").open()
        transfers = sum("\tarrived\t" in line for line in lines)
    assert summary
    return {
        "devices": summary["devices"],
        "gateways": summary["gateways"],
        "updates": summary["jobs_started"],
        "transfers": transfers,
        "simulated_s": summary["sim_time_s"],
        "wall_s": time.monotonic() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def show(name: str, found: dict[str, Any]) -> None:
    print(
        f"{name:24}{found['devices']:>9,}{found['gateways']:>9,}{found['updates']:>9,}"
        f"{found['transfers']:>11,}{found['wall_s']:>9.1f}{found['cpu_s']:>9.1f}"
        f"{1000 * found['cpu_s'] / found['updates']:>9.3f}{found['peak_mib']:>9,.0f}",
        flush=True,
    )


def plot(curves: dict[str, list[dict[str, Any]]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for (name, points), colour in zip(curves.items(), ("#0072B2", "#D55E00"), strict=True):
        devices = [point["devices"] for point in points]
        per_update = [1000 * point["cpu_s"] / point["updates"] for point in points]
        style = {"label": name, "color": colour, "marker": "o"}
        left.plot(devices, per_update, **style)
        right.plot(devices, [point["peak_mib"] for point in points], **style)
    left.set(ylabel="CPU time per device update [ms]")
    right.set(ylabel="peak memory [MiB]")
    for axes in (left, right):
        axes.set(xlabel="devices, 100 on a gateway", xscale="log", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.suptitle(f"FedAvg on FlowNetwork, {UPDATES:,} device updates in all")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default all")
    parser.add_argument("--plot", type=Path, help="draw the scaling into this picture")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(given.run)))
        return
    for part in given.parts:
        if part not in PARTS:
            parser.error(f"unknown part {part!r}; known: {', '.join(PARTS)}")
    wanted = given.parts or PARTS
    columns = ("devices", "gateways", "updates", "transfers", "wall s", "CPU s", "CPU ms", "MiB")
    widths = (9, 9, 9, 11, 9, 9, 9, 9)
    print(" " * 24 + "".join(f"{c:>{w}}" for c, w in zip(columns, widths, strict=True)))
    if "network" in wanted:
        show("network alone", measure(Scenario.load(NETWORK).model_dump(mode="json")))
    if "trained" in wanted:
        show("MLP trained", measure(trained(10_000, 100, 100_000)))
    if "scaling" in wanted:
        curves: dict[str, list[dict[str, Any]]] = {}
        for name, learning in (("MLP trained", "sgd"), ("network alone", "none")):
            curves[name] = [measure(trained(*size, UPDATES, learning)) for size in SIZES]
            for found in curves[name]:
                show(name, found)
        if given.plot:
            plot(curves, given.plot)


if __name__ == "__main__":
    main()
