"""The same FedAvg in Flower and in meshfl, and what only the network tells.

meshfl writes down the data, who has what, the first model and the order of all batches; Flower's
simulation trains on that with torch. Then meshfl runs on three networks. Flower is installed into
an environment of its own in the user's cache, on first use (some 1.3 GB).
    .venv/bin/python benchmarks/flower.py [--rounds 20] [--plot docs/images/flower.png]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from peers import DRIVERS, ROWS, interpreter, reason
from safetensors.numpy import load_file

from simulator.build import build
from simulator.events import Job
from simulator.learner import DeferredLearner
from simulator.plots import COLOURS
from simulator.runner import start
from simulator.scenario import Scenario
from simulator.task import orders

SCENARIO = Path(__file__).parents[1] / "scripts/scenarios/fedavg-tree-30.toml"
SAME = "algorithm.gateway_rounds=1"
"""Then a mean of gateways' means is FedAvg's mean over all clients."""
SLOW = "topology={kind='tree', gateways=3, devices=30, device_rate_bps=[2e4, 4e5]}"
NETWORKS = {
    "0.25 to 4 Mbit/s": [],
    "20 to 400 kbit/s": [SLOW],
    "0.25 to 4 Mbit/s, a few very slow computers": ["compute.sigma=1.5"],
}
TARGET = 0.9


@dataclass(frozen=True)
class Run:
    cloud: pd.DataFrame
    """A row for each round, from 0."""
    transfers: pd.DataFrame
    model: np.ndarray


def scenario(rounds: int, settings: list[str]) -> Scenario:
    return Scenario.load(SCENARIO, [SAME, f"run.epochs={rounds}", *settings])


def ours(rounds: int, settings: list[str], folder: Path) -> Run:
    start(scenario(rounds, settings), SCENARIO.parent, folder)
    metrics = pd.read_parquet(folder / "metrics.parquet")
    cloud = metrics[metrics["tier"] == "cloud"].reset_index(drop=True)
    model = load_file(folder / "model.safetensors")
    (flat,) = model.values()
    return Run(cloud, pd.read_parquet(folder / "transfers.parquet"), flat)


def write_down(rounds: int, path: Path) -> None:
    """All that another program needs to do the same."""
    world = build(scenario(rounds, []), SCENARIO.parent)
    learner = world.learner
    assert isinstance(learner, DeferredLearner)
    task, model = learner.task, learner.initial_model()
    (hidden,) = task.model.hidden or (64,)
    content: dict[str, Any] = {
        "x_train": task.x_train, "y_train": task.y_train, "x_test": task.x_test,
        "y_test": task.y_test, "model": model, "clients": np.arange(len(task.parts)),
        "sizes": np.array([task.x_train[0].numel(), hidden, task.outputs]),
        "batch": np.array(task.training.batch_size),
        "rate": np.array(task.training.learning_rate),
    }  # fmt: skip
    for number, node in enumerate(task.parts):
        read = []
        for count in range(rounds):
            epochs = orders(task, Job(node=node, start=model, count=count))
            read.append([next(epochs) for _ in range(task.training.epochs or 1)])
        content[f"order-{number}"] = np.array(read)
    learner.close()
    np.savez(path, **content)


def theirs(rounds: int, place: Path) -> tuple[dict[str, Any], np.ndarray]:
    path = place / "given.npz"
    write_down(rounds, path)
    python = interpreter("flwr", ROWS["flwr"])
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, DRIVERS / "run_flwr_same.py", path, str(rounds)],
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith('{"version"')]
    if done.returncode or not answers:
        raise SystemExit(f"flwr: {reason(done.stderr)}")
    return json.loads(answers[-1]), np.load(place / "final.npy")


def same(flower: dict[str, Any], run: Run, model: np.ndarray) -> None:
    print(f"| round | Flower {flower['version']} | meshfl | loss, Flower | loss, meshfl |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    shown = [i for i in range(len(run.cloud)) if i in (0, 1, 2, 3, 5) or i % 5 == 0]
    for i in shown:
        row = run.cloud.iloc[i]
        print(
            f"| {i} | {flower['accuracy'][i]:.4f} | {row['accuracy']:.4f} "
            f"| {flower['loss'][i]:.6f} | {row['loss']:.6f} |"
        )
    off = np.abs(np.array(flower["accuracy"]) - run.cloud["accuracy"].to_numpy())
    apart = np.abs(np.array(flower["loss"]) - run.cloud["loss"].to_numpy())
    print(
        f"\nlargest difference over all rounds: accuracy {off.max():.2g}, loss {apart.max():.2g};"
    )
    print(f"of a weight of the last model: {np.abs(model - run.model).max():.2g}")


def network(runs: dict[str, Run]) -> None:
    columns = f"links, computers|accuracy|to {TARGET:g} (s)|a round (s)|half answered (s)|idle|MB"
    print(f"| {columns.replace('|', ' | ')} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, run in runs.items():
        answers, lasted = _answers(run)
        reached = run.cloud[run.cloud["accuracy"] >= TARGET]["sim_time_s"].min()
        print(
            f"| {name} | {run.cloud['accuracy'].iloc[-1]:.4f} | {reached:.1f} "
            f"| {lasted.mean():.1f} | {answers.groupby(level=0).median().mean():.1f} "
            f"| {1 - answers.mean() / lasted.mean():.0%} "
            f"| {run.transfers['bytes'].sum() / 1e6:.1f} |"
        )


def _answers(run: Run) -> tuple[pd.Series, pd.Series]:
    """By round: when each device's answer had come, and how long the round lasted."""
    times = run.cloud["sim_time_s"].to_numpy()
    ups = run.transfers[run.transfers["kind"] == "up"]
    number = np.searchsorted(times, ups["end_s"].to_numpy(), side="left")
    kept = number < len(times)
    since = ups["end_s"].to_numpy()[kept] - times[number[kept] - 1]
    return pd.Series(since, index=number[kept]), pd.Series(np.diff(times))


def draw(flower: dict[str, Any], runs: dict[str, Run], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="tight")
    first = next(iter(runs.values()))
    left.plot(flower["accuracy"], color="0.75", lw=6, label=f"Flower {flower['version']}")
    left.plot(first.cloud["epoch"], first.cloud["accuracy"], color=COLOURS[0], label="meshfl")
    left.set(xlabel="round", ylabel="accuracy", xticks=range(0, len(first.cloud), 5))
    for (name, run), colour, style in zip(runs.items(), COLOURS, ("-", "--", ":"), strict=False):
        curve = run.cloud
        right.plot(curve["sim_time_s"], curve["accuracy"], style, color=colour, label=name)
    right.set(xlabel="simulated time (s)")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right", fontsize="small")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--plot", type=Path, help="figure to write")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        runs = {
            label: ours(options.rounds, settings, place / str(i))
            for i, (label, settings) in enumerate(NETWORKS.items())
        }
        flower, model = theirs(options.rounds, place)
    same(flower, next(iter(runs.values())), model)
    print()
    network(runs)
    if options.plot:
        draw(flower, runs, options.plot)


if __name__ == "__main__":
    main()
