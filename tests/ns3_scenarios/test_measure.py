"""Measurements that were interrupted, or meet another; ns-3 itself is not needed."""

import json
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from ns3_scenarios import measure as module
from ns3_scenarios.measure import Sample, _Processes, measure, tasks_of
from ns3_scenarios.profile import _rising, key_of, make_profile, sizes_for
from ns3_scenarios.section import Ns3Section, ProfileSection
from simulator.errors import UserError
from simulator.folders import alone_in
from topologies import find_topology

CAMPUS = find_topology(Path("campus-12"))
TASK = tasks_of(CAMPUS, sizes_for(320_000))[0]
SAMPLES = [Sample(*order, i, i + 1, True) for i, order in enumerate(TASK.orders)]


def changed(text, **changes):
    return json.dumps(json.loads(text) | changes)


def without(key):
    return lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != key})


@pytest.mark.parametrize(
    ("spoil", "runs"),
    [
        (lambda text: text, 0),
        (lambda text: text[: len(text) // 2], 1),
        (lambda text: "", 1),
        (lambda text: "\0" * 100, 1),
        (lambda text: json.dumps(json.loads(text)["samples"]), 1),
        (without("task"), 1),
        (without("samples"), 1),
        (lambda text: changed(text, samples=SAMPLES[:-1]), 1),
        (lambda text: changed(text, samples=[[1, 2]]), 1),
        (lambda text: changed(text, samples=[[*s[:3], "now", None, True] for s in SAMPLES]), 1),
        (lambda text: changed(text, samples=[[*s[:3], 5, 5, True] for s in SAMPLES]), 1),
        (lambda text: changed(text, task=json.loads(text)["task"] | {"in_flight": 99}), 1),
    ],
)
def test_only_a_whole_part_of_the_same_task_is_taken_up(tmp_path, monkeypatch, spoil, runs):
    ran = []

    def run_task(topology, section, task, progress, running):
        ran.append(task)
        return SAMPLES

    monkeypatch.setattr(module, "run_task", run_task)
    arguments = CAMPUS, Ns3Section(), [TASK], tmp_path, 1
    told = []
    measure(*arguments, told.append)
    [part] = tmp_path.iterdir()
    part.write_text(spoil(part.read_text()))
    assert measure(*arguments, told.append) == {TASK: SAMPLES}
    assert ran == [TASK] * (1 + runs)
    assert bool(told) == (not runs), "what is taken up counts as done"


def test_a_process_that_starts_while_all_are_stopped_ends_too(monkeypatch):
    processes, started = _Processes(), []

    class Process:
        def __init__(self):
            self.closed = False
            started.append(self)
            if len(started) == 2:
                processes.stop()

        def close(self):
            self.closed = True

    monkeypatch.setattr(module, "Ns3Process", Process)
    with processes.another():
        with pytest.raises(CancelledError), processes.another():
            pytest.fail("it would be waited for")
        assert [process.closed for process in started] == [True, True]


def test_one_measurement_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    section = ProfileSection()
    folder = tmp_path / f"meshfl/profiles/{key_of(CAMPUS, section)}-320000"
    folder.mkdir(parents=True)
    with (
        alone_in(folder, "testing"),
        pytest.raises(UserError, match="another process is measuring this network; wait for it"),
    ):
        make_profile(CAMPUS, section, 320_000, 1, lambda nbytes: None)
    assert folder.is_dir()


def test_noise_makes_no_time_fall_with_size():
    assert _rising([0.2, 0.19, 0.3, 0.29]) == (0.2, 0.2, 0.3, 0.3)
