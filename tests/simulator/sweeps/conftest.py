import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from simulator.folders import alone_in
from simulator.runner import start
from simulator.study import Study, runs_of

MESHFL = str(Path(sys.executable).parent / "meshfl")
STUDY = """
title = "Rounds"
scenario = "small.toml"
reference = "FedAvg, gateway_rounds 1"
seeds = [1, 2]

[[variants]]
name = "FedAvg"

[grid]
"algorithm.gateway_rounds" = [1, 2]
"""
EPOCHS = 200
PATIENCE_S = 600
"""Nothing is measured by it: it only ends a test that would hang."""


def wait_for(condition, process):
    until = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.02)
    return found


class Sweep:
    """A study of four runs, and the command that carries it out."""

    def __init__(self, folder):
        self.file = folder / "rounds.toml"
        self.out = folder / "out"

    def command(self, *options):
        return [MESHFL, "sweep", str(self.file), "--out", str(self.out), *options]

    def start(self, *options):
        return subprocess.Popen(
            self.command(*options), cwd=self.file.parent, text=True, env=os.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *options):
        started = self.start(*options)
        output, errors = started.communicate()
        return started.returncode, output, errors

    @contextmanager
    def unfinished(self):
        """As long as this lasts the last run waits for its folder: no sweep is over before."""
        last = runs_of(Study.load(self.file), self.file, self.out)[-1]
        start(last.scenario, last.base, last.folder, watch=_interrupt)
        with alone_in(last.folder, "testing"):
            yield

    def is_under_way(self):
        """A run can be continued; or all are over, on a fast machine, but the one that waits."""
        places = [path.parent for path in self.out.glob("*/seed-*/checkpoint.safetensors")]
        last = runs_of(Study.load(self.file), self.file, self.out)[-1].folder
        return any(place != last for place in places) or len(self.hashes()) == 3

    def hashes(self):
        """By run, of those that are done."""
        return {
            str(path.parent.relative_to(self.out)): json.loads(path.read_text())["event_log_sha256"]
            for path in sorted(self.out.rglob("summary.json"))
        }


def _interrupt(sim):
    sim.interrupted = True


@pytest.fixture(scope="session")
def make_sweep(scenario):
    def make(folder, *changes, study=STUDY):
        longer = {"run": {"epochs": EPOCHS}, "record": {"checkpoint_every_s": 0.2}}
        (folder / "small.toml").write_text(scenario(longer, *changes).to_toml())
        sweep = Sweep(folder)
        sweep.file.write_text(study)
        return sweep

    return make


@pytest.fixture(scope="session")
def undisturbed(make_sweep, tmp_path_factory):
    """The hashes of the four runs, when nothing happens to them."""
    sweep = make_sweep(tmp_path_factory.mktemp("undisturbed"))
    code, _, errors = sweep.run("--jobs", "2")
    assert code == 0, errors
    assert len(sweep.hashes()) == 4
    return sweep.hashes()


@pytest.fixture
def sweep(make_sweep, tmp_path):
    return make_sweep(tmp_path)
