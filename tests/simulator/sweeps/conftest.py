import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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

    def hashes(self):
        """By run, of those that are done."""
        return {
            str(path.parent.relative_to(self.out)): json.loads(path.read_text())["event_log_sha256"]
            for path in sorted(self.out.rglob("summary.json"))
        }


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
