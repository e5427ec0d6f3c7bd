"""Peak memory of a run with 10,000 devices on 100 gateways, MLP, FlowNetwork.

.venv/bin/python benchmarks/memory.py [DEVICES GATEWAYS WORKERS]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

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


def main() -> None:
    devices, gateways, workers = map(int, sys.argv[1:] or ("10000", "100", "1"))
    build.load = synthetic
    scenario = Scenario.model_validate(
        {
            "run": {"epochs": 2},
            "topology": {"kind": "tree", "devices": devices, "gateways": gateways},
            "network": {"kind": "flow"},
            "compute": {"kind": "exponential", "drawn": "job"},
            "model": {"name": "mlp"},
            "training": {"batch_size": 20},
            "algorithm": {"name": "fedavg"},
        }
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        summary = start(scenario, Path(), Path(folder) / "run", workers)
    assert summary
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{devices:,} devices on {gateways} gateways, model {summary['model_bytes']:,} bytes")
    print(f"{summary['jobs_started']:,} jobs, {summary['events']:,} events, 2 cloud rounds")
    print(f"peak memory {peak:,.0f} MiB, of which data about 183 MiB")
    print(f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
