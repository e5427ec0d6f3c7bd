"""Ctrl-C while processes are still starting: these are not hit, and the run decides."""

import subprocess
import sys

import pytest

CTRL_C = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # of this process, and too late for those it started
os.killpg(0, signal.SIGINT)
"""

TRAINING = """
import numpy as np, torch
from simulator.engines import build_engine
from simulator.events import Job
from simulator.model_section import ModelSection
from simulator.task import Task
from simulator.training import TrainingSection

x = torch.zeros(1, 1)
section, training = ModelSection(name="logistic"), TrainingSection()
task = Task(x, x, x, x, 1, True, dict([(5, np.arange(1))]), section, training, seed=7)
engine = build_engine("processes", task, 1, None)
{ctrl_c}
engine.results(engine.submit([Job(node=5, start=torch.zeros(2))]))
"""

SWEEP = """
from simulator.sweeps.local import _CONTEXT, LocalEngine
LocalEngine()
{ctrl_c}
process = _CONTEXT.Process(target=int)
process.start()
process.join()
raise SystemExit(process.exitcode)
"""

NS3 = """
from ns3_scenarios.process import Ns3Process
process = Ns3Process()._process
{ctrl_c}
process.stdin.close()
raise SystemExit(process.wait())
"""


@pytest.mark.parametrize(
    "code",
    [TRAINING, SWEEP, pytest.param(NS3, marks=pytest.mark.ns3)],
    ids=["training", "sweep", "ns3"],
)
def test_processes_that_are_starting_are_not_hit(code):
    done = subprocess.run(
        [sys.executable, "-c", code.format(ctrl_c=CTRL_C)],
        timeout=120, capture_output=True, text=True, start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
