"""How much faster a sweep of short runs is in two processes than one run after another.

24 runs (two variants, twelve seeds) are carried out by `meshfl sweep` with --jobs 1 and --jobs 2
in turn, each from the start to the last figure; and, with --apart, by 24 commands `meshfl run`.
Seconds of a sweep are no runs: PyTorch is imported, and figures are drawn.
    .venv/bin/python benchmarks/sweep.py [--epochs N] [--times N] [--apart]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "scripts/scenarios/fedavg-tree-30.toml"
MESHFL = str(Path(sys.executable).parent / "meshfl")
ROUNDS, SEEDS = (1, 2), tuple(range(1, 13))
PROMISED = 1.8
STUDY = """
title = "Short runs"
scenario = "{scenario}"
reference = "FedAvg, gateway_rounds 1"
seeds = {seeds}
[change.run]
epochs = {epochs}
[[variants]]
name = "FedAvg"
[grid]
"algorithm.gateway_rounds" = {rounds}
"""


def timed(commands: list[list[str]]) -> float:
    began = time.perf_counter()
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return time.perf_counter() - began


def sweep(place: Path, epochs: int, jobs: int) -> float:
    study = place / "short.toml"
    content = {"scenario": SCENARIO, "seeds": list(SEEDS), "rounds": list(ROUNDS)}
    study.write_text(STUDY.format(epochs=epochs, **content))
    out = place / f"jobs-{jobs}"
    return timed([[MESHFL, "sweep", str(study), "--out", str(out), "--jobs", str(jobs)]])


def apart(place: Path, epochs: int) -> float:
    points = [(rounds, seed) for rounds in ROUNDS for seed in SEEDS]
    return timed(
        [
            [MESHFL, "run", str(SCENARIO), "--out", str(place / f"apart-{rounds}-{seed}"),
             "--set", f"run.epochs={epochs}", "--set", f"run.seed={seed}",
             "--set", f"algorithm.gateway_rounds={rounds}"]
            for rounds, seed in points
        ]
    )  # fmt: skip


def runs_of(out: Path) -> dict[str, dict[str, object]]:
    found = sorted(out.rglob("summary.json"))
    return {str(path.parent.relative_to(out)): json.loads(path.read_text()) for path in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--apart", action="store_true")
    given = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.2f}; {len(os.sched_getaffinity(0))} cores")
    ratios = []
    for _ in range(given.times):
        with tempfile.TemporaryDirectory() as made:
            place = Path(made)
            one, two = sweep(place, given.epochs, 1), sweep(place, given.epochs, 2)
            alone, side_by_side = runs_of(place / "jobs-1"), runs_of(place / "jobs-2")
            assert [run["event_log_sha256"] for run in alone.values()] == [
                run["event_log_sha256"] for run in side_by_side.values()
            ]
            mean_s = statistics.mean(float(str(run["wall_time_s"])) for run in alone.values())
            ratios.append(one / two)
            print(
                f"{len(alone)} runs of {mean_s:.2f} s: one at a time {one:.1f} s, "
                f"two {two:.1f} s, ratio {one / two:.2f}"
            )
            if given.apart:
                separate = apart(place, given.epochs)
                print(f"as commands of their own {separate:.1f} s, ratio {separate / two:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}, promised {PROMISED}")


if __name__ == "__main__":
    main()
