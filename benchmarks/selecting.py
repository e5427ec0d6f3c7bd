"""What the utility-based selection and association of Async-HFL cost, each figure with its goal.

Wall-clock time, median of several calls; reach, delays and sizes as in the 184 x 6 network.
    .venv/bin/python benchmarks/selecting.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from selection.ilp import Associated, Selected, associate, select_devices
from selection.milp import Solver
from selection.sketch import PcaSection, PcaSketch
from selection.utility import LearningUtility

MODEL_BYTES = 1.7e6
BUDGET = 1e6
SKETCH = 30
PARAMETERS = 431_080
REACH = (35, 44, 45, 38, 17, 5)
"""Of 184 devices so many have 1, 2 ... 6 gateways in reach."""

Figure = tuple[str, float, float, str]


def median_s(work: Callable[[int], object], times: int) -> float:
    """Of calls with 0, 1, 2 ..., after one that warms up."""
    work(0)
    spent = []
    for i in range(times):
        began = time.perf_counter()
        work(i)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def utility_of(devices: int) -> LearningUtility:
    rng = np.random.default_rng(0)
    utility = LearningUtility(list(range(devices)))
    for device in range(devices):
        utility.update(device, rng.standard_normal(SKETCH, np.float32))
    return utility


def latencies(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.lognormal(np.log(64), 0.5, shape)


def utility_figure() -> Figure:
    """One device's new sketch, then everybody's utility."""
    utility, rng = utility_of(184), np.random.default_rng(1)

    def work(i: int) -> None:
        utility.update(i % 184, rng.standard_normal(SKETCH, np.float32))
        utility.utilities()

    return "utilities of 184 after an update", median_s(work, 200), 5e-3, ""


def selection_figure(solver: Solver, goal_s: float) -> Figure:
    """Update, utilities, and the choice of a third of 31 candidates by rate."""
    utility, rng = utility_of(184), np.random.default_rng(2)
    found: list[Selected] = []

    def work(i: int) -> None:
        utility.update(i % 184, rng.standard_normal(SKETCH, np.float32))
        candidates = sorted(rng.choice(184, 31, replace=False).tolist())
        tau = latencies(rng, 31)
        rates = MODEL_BYTES / tau
        u = utility.utilities(candidates)
        found.append(select_devices(u, tau, rates, rates.sum() / 3, kappa=0.5, solver=solver))

    seconds = median_s(work, 100)
    return f"selection among 31, {solver}", seconds, goal_s, who({f.solver for f in found})


def association_figure(
    devices: int, gateways: int, solver: Solver, goal_s: float, times: int
) -> Figure:
    found: list[Associated] = []
    rng = np.random.default_rng(3)
    networks = [network(rng, devices, gateways) for _ in range(times)]

    def work(i: int) -> None:
        found.append(associate(*networks[i], [BUDGET] * gateways, phi=0.1, solver=solver))

    name = f"association {devices} x {gateways}, {solver}"
    return name, median_s(work, times), goal_s, who({f.solver for f in found})


def network(
    rng: np.random.Generator, devices: int, gateways: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = rng.choice(len(REACH), devices, p=np.array(REACH) / sum(REACH)) + 1
    order = rng.random((devices, gateways)).argsort(axis=1).argsort(axis=1)
    rates = MODEL_BYTES / latencies(rng, devices, gateways)
    return rng.random(devices), rates, order < counts[:, None]


def pca_figure() -> Figure:
    gradients = torch.randn(184, PARAMETERS, generator=torch.Generator().manual_seed(0))

    def work(_: int) -> None:
        PcaSketch.fit(PcaSection(), length=PARAMETERS, seed=0, gradients=list(gradients))

    return f"PCA of 184 gradients of {PARAMETERS:,}", median_s(work, 1), 5.0, ""


def who(solvers: set[str]) -> str:
    return "answered by " + ", ".join(sorted(solvers))


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'median of one call':36}{'ms':>10}{'goal':>9}")
    for figure in (
        utility_figure,
        lambda: selection_figure("auto", 10e-3),
        lambda: selection_figure("highs", np.inf),
        lambda: selection_figure("greedy", np.inf),
        lambda: association_figure(184, 6, "auto", 0.1, 9),
        lambda: association_figure(184, 6, "highs", np.inf, 9),
        lambda: association_figure(184, 6, "greedy", np.inf, 9),
        lambda: association_figure(1000, 20, "highs", 15.0, 3),
        pca_figure,
    ):
        name, seconds, goal_s, note = figure()
        if np.isfinite(goal_s):
            verdict = f"{1e3 * goal_s:9,.0f}  {'met' if seconds < goal_s else 'NOT MET':8}"
        else:
            verdict = f"{'-':>9}  {'':8}"
        print(f"{name:36}{1e3 * seconds:10,.2f}{verdict}{note}", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
