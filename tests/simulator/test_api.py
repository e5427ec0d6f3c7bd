"""Runs from Python, with the words of the command line."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from simulator import Results, Scenario, UserError, run
from simulator.events import Trained
from simulator.units import SECOND

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path, scenario):
    path = tmp_path / "small.toml"
    path.write_text(scenario().to_toml())
    return path


@pytest.fixture
def results(file):
    return run(Scenario.load(file))


def test_the_package_itself_stays_light():
    code = "import simulator, sys; print(*({'torch', 'pandas', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    with pytest.raises(ImportError, match="cannot import name 'rum'"):
        from simulator import rum  # noqa: F401


def test_a_run_gives_frames(results):
    summary = results.summary
    assert summary["epochs"] == 3
    assert summary == json.loads((results.folder / "summary.json").read_text())
    curve = results.curve
    assert curve["epoch"].tolist() == [0, 1, 2, 3]
    assert curve["accuracy"].iloc[-1] == summary["final_accuracy"]
    arrived = results.transfers[results.transfers["status"] == "arrived"]
    assert arrived[arrived["kind"] == "up"]["bytes"].sum() == summary["bytes_up"]
    assert results.energy.empty
    assert results.scenario.run.seed == summary["seed"]


def test_who_may_read_one_file_of_a_run_may_read_all(results):
    modes = {path.name: oct(path.stat().st_mode) for path in results.folder.iterdir()}
    assert "model.safetensors" in modes
    assert len(set(modes.values())) == 1, modes


def test_events_are_the_lines_of_the_log(results):
    events = results.events
    lines = (results.folder / "events.log").read_text().splitlines()
    assert len(events) == len(lines)
    assert (events["sim_time_s"] * SECOND).round().astype(int).tolist() == [
        int(line.split("\t")[0]) for line in lines
    ]
    transfers = events[events["flow"].notna()].reset_index(drop=True)
    same = ["flow", "src", "dst", "kind", "bytes", "start_s"]
    pd.testing.assert_frame_equal(
        transfers[same].astype(results.transfers[same].dtypes), results.transfers[same]
    )
    trained = events[events["event"] == "trained"]
    assert len(trained) == results.summary["jobs_started"] - results.summary["jobs_abandoned"]
    assert (trained["steps"] > 0).all()
    assert trained["node"].str.startswith("d").all()
    assert trained["src"].isna().all()
    record = events[events["event"] == "record"].iloc[-1]
    assert json.loads(record["text"])["accuracy"] == results.summary["final_accuracy"]


def test_a_run_that_nobody_keeps_goes_with_its_results(file):
    results = run(Scenario.load(file))
    folder = results.folder
    assert folder.is_dir()
    del results
    gc.collect()
    assert not folder.exists()


def test_a_folder_is_not_run_again(file, tmp_path):
    first = run(Scenario.load(str(file)), str(tmp_path / "out"))
    written = (tmp_path / "out/summary.json").stat().st_mtime_ns
    again = run(Scenario.load(file), tmp_path / "out")
    assert again.summary == first.summary == Results.load(str(tmp_path / "out")).summary
    assert (tmp_path / "out/summary.json").stat().st_mtime_ns == written
    with pytest.raises(UserError, match=r"out: holds a run of another scenario.*another out"):
        run(Scenario.load(file, ["run.seed=4"]), tmp_path / "out")


def test_workers_do_not_show(file, results):
    more = run(Scenario.load(file), workers=2)
    assert more.summary["event_log_sha256"] == results.summary["event_log_sha256"]
    with pytest.raises(UserError, match="workers = 0: at least 1"):
        run(Scenario.load(file), workers=0)


def test_files_are_found_beside_the_scenario(tmp_path, scenario, monkeypatch):
    from topologies import shipped

    (tmp_path / "own.json").write_text(shipped()["tree-30"].read_text())
    on_file = {"topology": {"kind": "file", "path": "own.json"}, "run": {"epochs": 1}}
    (tmp_path / "small.toml").write_text(scenario(on_file).to_toml())
    monkeypatch.chdir("/")
    loaded = Scenario.load(tmp_path / "small.toml")
    assert run(loaded).summary["devices"] == 30
    changed = loaded.changed("run.seed=9")
    assert changed.base == tmp_path
    assert run(changed).summary["seed"] == 9


def test_a_changed_scenario_is_as_if_loaded_with_the_settings(file):
    settings = ["compute={kind='constant', delay_s=2.0}", "run.epochs=2"]
    loaded = Scenario.load(file)
    assert loaded.changed(*settings) == Scenario.load(file, settings)
    assert loaded.changed() == loaded
    with pytest.raises(UserError, match="epoch: unknown key; did you mean 'epochs'"):
        loaded.changed("run.epoch=2")


def test_a_thread_may_run(file, results):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(Scenario.load(file)).summary))
    thread.start()
    thread.join()
    assert found[0]["event_log_sha256"] == results.summary["event_log_sha256"]


def test_an_interrupt_saves_and_the_same_call_goes_on(file, tmp_path, results, monkeypatch):
    from simulator.kernel import Simulation

    tried = []
    begin = Simulation.run

    def interrupted(sim, tick):
        os.kill(os.getpid(), signal.SIGINT)
        tried.append(sim)
        begin(sim, tick)

    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "run", interrupted)
        with pytest.raises(KeyboardInterrupt, match="interrupted"):
            run(Scenario.load(file), tmp_path / "out")
    assert tried
    done = run(Scenario.load(file), tmp_path / "out", progress=True)
    assert done.summary["event_log_sha256"] == results.summary["event_log_sha256"]


@dataclass
class Lonely:
    """The first device trains alone, round after round; nothing is sent."""

    rounds: list[int] = field(default_factory=list)

    def start(self, sim):
        from simulator.events import Job

        sim.train(Job(node=sim.topology.devices[0], start=sim.learner.initial_model()))

    def handle(self, sim, event):
        from simulator.events import Job

        match event:
            case Trained(update):
                self.rounds.append(len(self.rounds) + 1)
                sim.report(self.rounds[-1], update.model)
                sim.train(Job(node=update.node, start=update.model))


def test_an_algorithm_of_ones_own(file, tmp_path):
    done = run(Scenario.load(file), tmp_path / "out", algorithm=Lonely())
    assert done.summary["algorithm"] == "Lonely"
    assert done.summary["epochs"] == 3
    assert done.transfers.empty
    assert done.summary["final_accuracy"] > 0.5
    assert (tmp_path / "out/scenario.toml").read_text().startswith("# Run from Python, with Lonely")
    with pytest.raises(UserError, match="cannot be continued"):
        run(Scenario.load(file), tmp_path / "out", algorithm=Lonely())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "small.toml"]


def test_the_readme_is_right(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code, names)
    assert names["sent"]["up"] == names["results"].summary["bytes_up"]
    assert names["more_rounds"].scenario.algorithm.gateway_rounds == 5
