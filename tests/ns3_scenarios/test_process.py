"""A run whose ns-3 process dies: told in seconds, and not lost."""

import os
import signal
import time
from pathlib import Path

import pytest

from simulator.errors import UserError
from simulator.runner import resume, start

pytestmark = pytest.mark.ns3

CAMPUS = {"network": {"kind": "ns3"}, "topology": {"kind": "file", "path": "campus-12"}}


class Killer:
    """Aborts the ns-3 process of a run once, as a fatal error in ns-3 would."""

    def __init__(self, after_events):
        self.after_events, self.at = after_events, None

    def __call__(self, sim):
        if self.at is None and sim.progress.events >= self.after_events:
            os.kill(sim.network._ns3._process.pid, signal.SIGABRT)
            self.at = time.monotonic()


@pytest.mark.parametrize(
    ("share", "checkpoint_every_s"), [(0.5, 1e-6), (0, 1000.0)], ids=["middle", "no checkpoint yet"]
)
def test_a_dead_ns3_is_told_in_seconds_and_the_run_goes_on(
    scenario, run_in, tmp_path, share, checkpoint_every_s
):
    folder, saved = tmp_path / "run", {"record": {"checkpoint_every_s": checkpoint_every_s}}
    undisturbed = run_in(scenario(CAMPUS), "undisturbed")
    killer = Killer(share * undisturbed["events"])
    with pytest.raises(UserError, match=r"ns-3 ended the simulation \(exit code -6\)"):
        start(scenario(CAMPUS, saved), Path(), folder, watch=killer)
    assert time.monotonic() - killer.at < 5
    assert (folder / "checkpoint.safetensors").exists() == (share > 0)
    summary = resume(folder)
    assert summary["event_log_sha256"] == undisturbed["event_log_sha256"]
    assert summary["model_sha256"] == undisturbed["model_sha256"]
