"""Client updates per second of other federated-learning simulators, against ours in one run.

100 clients of 100 random samples of Fashion-MNIST's shape; every round each trains one epoch in
batches of 20, and the models are averaged. Wall time, the best round, after one to warm up; no
evaluation. Each peer is installed into an environment of its own in the user's cache, on first
use (some 1.3 GB each, most of it torch). Rows can be chosen by name (default: all).
    .venv/bin/python benchmarks/peers.py [--rounds 3] [plain] [pfl] [fedlab] [flwr] [ours] [ours-2]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from simulator.compiled import cache_folder

ROOT = Path(__file__).parent.parent
DRIVERS = Path(__file__).parent / "peers"
MODELS = {"mlp": 5.0, "cnn": 2.0}
"""And how many times as fast as each peer ours should be."""
TWO_WORKERS = 1.7
"""How many times as fast as one of ours."""
CLASSES = 10
LONGEST_S = 1800
SAME = {"mlp": 0.01, "cnn": 0.15}
"""How far a loss may be off the plain loop's, as a part of what that has learned in four rounds.

Four times what another order of the batches makes, or more: for the CNN, which has hardly begun
to learn by then, the standard deviation over four plain loops was 2.4 %."""


@dataclass(frozen=True)
class Answer:
    """Of a driver; loss and accuracy are the last averaged model's on all training data."""

    version: str
    updates_per_s: float
    loss: float
    accuracy: float


class Failed(Exception):
    """Why a row has no figure."""


@dataclass(frozen=True)
class Row:
    driver: str
    cores: int = 1
    requirement: str | None = None
    """None: runs in this environment."""


ROWS = {
    "plain": Row("run_plain.py"),
    "pfl": Row("run_pfl.py", requirement="pfl[pytorch]==0.6.0"),
    "fedlab": Row("run_fedlab.py", requirement="fedlab==1.3.0"),
    "flwr": Row("run_flwr.py", cores=2, requirement="flwr[simulation]==1.41.0"),
    "ours": Row("run_ours.py"),
    "ours-2": Row("run_ours.py", cores=2),
}
PEERS = [name for name, row in ROWS.items() if row.requirement]


def interpreter(name: str, row: Row) -> Path:
    """Of the row's environment, which is made if it is not there or not as asked for."""
    if row.requirement is None:
        return Path(sys.executable)
    pins = re.findall(r"^(?:torch|numpy)==.*$", (ROOT / "constraints.txt").read_text(), re.M)
    folder = cache_folder() / "peers" / name
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join([sys.version, row.requirement, *pins])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    say(f"installing {row.requirement} (some minutes)")
    try:
        venv.create(folder, clear=True, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", row.requirement, *pins]
        subprocess.run(install, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise Failed(f"not installed: {reason(error.stderr)}") from None
    except OSError as error:
        raise Failed(f"not installed: {error.strerror}") from None
    stamp.write_text(wanted)
    return python


def reason(output: str | bytes | None) -> str:
    """The line that says most."""
    text = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no message"])[-1][:200]


def measure(row: Row, python: Path, model: str, rounds: int) -> Answer:
    """The driver's last line, from a process that may use the row's number of cores."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < row.cores:
        raise Failed(f"needs {row.cores} cores, here are {len(cores)}")
    # A single thread may go to whichever core is free.
    own = set(cores if row.cores == 1 else cores[: row.cores])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    if row.requirement:
        del environment["PYTHONPATH"]
    try:
        done = subprocess.run(
            [python, DRIVERS / row.driver, model, str(rounds), str(row.cores)],
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, own),
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{model}: no answer within {LONGEST_S} s") from None
    if done.returncode:
        raise Failed(f"{model}: {reason(done.stderr)}")
    return Answer(**json.loads(done.stdout.splitlines()[-1]))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measured(name: str, rounds: int) -> tuple[dict[str, Answer], str]:
    """By model, and why one is missing."""
    answers: dict[str, Answer] = {}
    try:
        python = interpreter(name, ROWS[name])
        for model in MODELS:
            say(f"{name}: {model}")
            answers[model] = measure(ROWS[name], python, model, rounds)
    except Failed as failure:
        return answers, str(failure)
    return answers, ""


def table(results: dict[str, dict[str, Answer]], reasons: dict[str, str]) -> None:
    plain = results.get("plain", {})
    print(f"{'':8}{'version':>14}{'cores':>7}", end="")
    print("".join(f"{model.upper() + ' updates/s':>16}{'of plain':>10}" for model in MODELS))
    for name, answers in results.items():
        versions = [answer.version for answer in answers.values()] or ["-"]
        print(f"{name:8}{versions[0]:>14}{ROWS[name].cores:7}", end="")
        for model in MODELS:
            rate, ratio = "-", "-"
            if model in answers:
                rate = f"{answers[model].updates_per_s:,.1f}"
                if model in plain:
                    ratio = f"{answers[model].updates_per_s / plain[model].updates_per_s:.2f}"
            print(f"{rate:>16}{ratio:>10}", end="")
        print(f"  {reasons[name]}" if reasons[name] else "")


def same_training(results: dict[str, dict[str, Answer]]) -> None:
    """Who does not learn what the plain loop learns is not measured at the same work."""
    for model in MODELS:
        losses = {name: a[model].loss for name, a in results.items() if model in a}
        print(f"loss, {model}: " + ", ".join(f"{n} {loss:.4f}" for n, loss in losses.items()))
        if "plain" in losses:
            margin = SAME[model] * (math.log(CLASSES) - losses["plain"])
            for name, loss in losses.items():
                if not abs(loss - losses["plain"]) <= margin:
                    print(f"NOT THE SAME TRAINING: {name}, {model}")


def goals(results: dict[str, dict[str, Answer]]) -> None:
    """Ours against each peer at the same number of cores, and two workers of ours against one."""
    pairs = [("ours" if ROWS[peer].cores == 1 else "ours-2", peer, MODELS) for peer in PEERS]
    pairs.append(("ours-2", "ours", dict.fromkeys(MODELS, TWO_WORKERS)))
    for ours, other, wanted in pairs:
        for model, goal in wanted.items():
            try:
                fast = results[ours][model].updates_per_s
                ratio = fast / results[other][model].updates_per_s
            except KeyError:
                continue
            met = "met" if ratio >= goal else "NOT MET"
            print(f"{ours} / {other}, {model}: {ratio:.2f}; goal {goal:g}: {met}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=3, help="after one to warm up")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    load = os.getloadavg()[0]
    results: dict[str, dict[str, Answer]] = {}
    reasons: dict[str, str] = {}
    for name in ROWS:
        if not options.rows or name in options.rows:
            results[name], reasons[name] = measured(name, options.rounds)
    print(f"best of {options.rounds} rounds; load of the machine before: {load:.1f}")
    table(results, reasons)
    if "flwr" in results or "ours-2" in results:
        print("flwr: a Ray worker on each of two cores; ours-2: two workers on the same two")
    same_training(results)
    goals(results)


if __name__ == "__main__":
    main()
