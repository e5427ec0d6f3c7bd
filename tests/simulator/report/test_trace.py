"""The trace, against Chrome's Trace Event Format."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from simulator.report.gather import gather
from simulator.report.trace import trace_of

FIELDS = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
    "M": {"name", "ph", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "args"},
}
"""What the format asks of each phase that we write."""


@pytest.fixture(scope="module")
def folder(study):
    return study / "async-hfl" / "seed-1"


@pytest.fixture(scope="module")
def events(folder):
    return json.loads(json.dumps(trace_of(gather([folder]).groups[0].first)))["traceEvents"]


def spans(events, what):
    return [e for e in events if e["ph"] == "X" and e["name"].startswith(what)]


def test_every_event_has_what_the_format_asks_for(events):
    for event in events:
        assert FIELDS[event["ph"]] <= set(event)
        assert all(type(event[key]) is int for key in ("pid", "tid"))
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0


def test_spans_of_a_thread_do_not_overlap(events):
    threads = {}
    for event in events:
        if event["ph"] == "X":
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for its in threads.values():
        its.sort(key=lambda event: (event["ts"], event["dur"]))
        for before, after in itertools.pairwise(its):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-6


def test_every_thread_and_process_has_a_name(events):
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} == named
    assert {pid for pid, _ in named} <= set(processes)
    assert set(processes.values()) == {
        "cloud", "gateways", "devices of g0", "devices of g1",
    }  # fmt: skip


def test_devices_are_one_track_each(events):
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert len(set(names)) == len(names)
    assert {"cloud", "g0", "g1", "d1", "d5"} <= set(names)


def test_times_are_microseconds_of_simulated_time(events, folder):
    transfers = pd.read_parquet(folder / "transfers.parquet")
    sends, receives = spans(events, "sends"), spans(events, "receives")
    assert len(sends) == len(receives) == len(transfers)
    assert sorted(e["ts"] for e in sends) == pytest.approx(sorted(transfers["start_s"] * 1e6))
    assert sum(e["args"]["bytes"] for e in sends) == transfers["bytes"].sum()
    log = (folder / "events.log").read_text().splitlines()
    ends = [int(line.split("\t")[0]) / 1e3 for line in log if line.split("\t")[1] == "trained"]
    drawn = sorted(e["ts"] + e["dur"] for e in spans(events, "trains"))
    assert drawn == pytest.approx(sorted(ends))


def test_a_device_is_always_somewhere(events, folder):
    """Its trainings, transfers and waits cover the run."""
    end = json.loads((folder / "summary.json").read_text())["sim_time_s"] * 1e6
    tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    its = [e for e in events if e["ph"] == "X" and e["tid"] == tracks["d1"]]
    assert {e["name"].split()[0] for e in its} == {"trains", "sends", "receives", "waits"}
    assert sum(e["dur"] for e in its) == pytest.approx(end)


def test_the_score_is_a_counter(events, folder):
    metrics = pd.read_parquet(folder / "metrics.parquet")
    curve = metrics[metrics["tier"] == "cloud"]["accuracy"]
    told = [e["args"]["accuracy"] for e in events if e["ph"] == "C" and e["name"] == "accuracy"]
    assert told == pytest.approx(list(curve))


def test_the_command_takes_one_run(folder, study, tmp_path):
    meshfl = str(Path(sys.executable).parent / "meshfl")
    one = [meshfl, "timeline", str(folder), "-o", "t.json"]
    done = subprocess.run(one, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["algorithm"] == "async-hfl"
    many = [meshfl, "timeline", str(study), "-o", "u.json"]
    done = subprocess.run(many, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "holds 9 runs; name one, such as" in " ".join(done.stderr.split())
    assert not (tmp_path / "u.json").exists()
