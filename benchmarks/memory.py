"""Peak memory of a run with 10,000 devices on 100 gateways, MLP, FlowNetwork.

.venv/bin/python benchmarks/memory.py [--devices N] [--gateways N] [--workers N] [--rule s-dyn]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from algorithms.sub_center import SUB_CENTER_RULES
from simulator import build
from simulator.data.samples import Dataset
from simulator.runner import start
from simulator.scenario import Scenario


def synthetic(name: str, folder: Path) -> Dataset:
    """Random samples of Fashion-MNIST's shape, six for each of 10,000 devices."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((61_000, 1, 28, 28), np.float32)
    y = rng.integers(0, 10, len(x))
    return Dataset(name, x[1000:], y[1000:], x[:1000], y[:1000], 10)


def algorithm(rule: str) -> dict[str, object]:
    """One round inside a gateway, all gateways in each global round."""
    if rule == "fedavg":
        return {"name": "fedavg"}
    two_level = {"name": "two-level", "gateway_rounds": 1, "cloud": {"name": "sync-avg"}}
    return two_level | {"gateway": {"name": rule}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--gateways", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rule", choices=("fedavg", *SUB_CENTER_RULES), default="fedavg")
    asked = parser.parse_args()
    build.load = synthetic
    scenario = Scenario.model_validate(
        {
            "run": {"epochs": asked.rounds},
            "topology": {"kind": "tree", "devices": asked.devices, "gateways": asked.gateways},
            "network": {"kind": "flow"},
            "compute": {"kind": "exponential", "drawn": "job"},
            "model": {"name": "mlp"},
            "training": {"batch_size": 20},
            "algorithm": algorithm(asked.rule),
        }
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        summary = start(scenario, Path(), Path(folder) / "run", asked.workers)
    assert summary
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{asked.devices:,} devices on {asked.gateways} gateways, {asked.rule}")
    print(f"model {summary['model_bytes']:,} bytes, {asked.rounds} cloud rounds")
    print(f"{summary['jobs_started']:,} jobs, {summary['events']:,} events")
    print(f"peak memory {peak:,.0f} MiB, of which data about 183 MiB")
    print(f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
