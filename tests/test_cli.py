"""The command line as people use it: real processes, real signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import typer

from simulator import cli

ROOT = Path(__file__).parent.parent
MESHFL = str(Path(sys.executable).parent / "meshfl")
FEDAVG = str(ROOT / "scripts/scenarios/fedavg-tree-30.toml")
SHORT = ["--set", "run.epochs=3", "--set", "training.epochs=1"]
LONG = [
    *("--set", "run.epochs=500", "--set", "training.epochs=1"),
    *("--set", "algorithm.gateway_rounds=1", "--set", "record.checkpoint_every_s=0.1"),
]


def meshfl(*arguments, cwd, columns=200):
    command = [MESHFL, *map(str, arguments)]
    env = os.environ | {"COLUMNS": str(columns)}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=env)


def good(*arguments, cwd, **more):
    done = meshfl(*arguments, cwd=cwd, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two finished short runs."""
    place = tmp_path_factory.mktemp("runs")
    good("run", FEDAVG, *SHORT, "--out", "a", cwd=place)
    good("run", FEDAVG, *SHORT, "--set", "run.seed=2", "--out", "b", cwd=place)
    return place


def test_a_run_leaves_all_its_results(finished):
    folder = finished / "a"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "scenario.toml", "events.log", "metrics.parquet", "transfers.parquet", "summary.json",
        "model.safetensors", "accuracy.png", "bytes.png",
    }  # fmt: skip
    summary = summary_of(folder)
    promised = (
        "meshfl_version seed algorithm sim_time_s wall_time_s events final_accuracy best_accuracy "
        "target time_to_target_s bytes_up bytes_down bytes_backhaul bytes_overhead event_log_sha256"
    )
    assert set(promised.split()) <= set(summary)
    assert summary["events"] == sum(
        line.split("\t")[1] in ("arrived", "lost", "trained", "alarm")
        for line in (folder / "events.log").read_text().splitlines()
    )


def test_tables_have_the_promised_columns(finished):
    metrics = pd.read_parquet(finished / "a/metrics.parquet")
    transfers = pd.read_parquet(finished / "a/transfers.parquet")
    assert {"sim_time_s", "epoch", "tier", "accuracy", "loss"} <= set(metrics)
    assert list(transfers) == [
        "flow", "src", "dst", "kind", "bytes", "start_s", "end_s", "status", "reason",
        "overhead_bytes", "radio_j",
    ]  # fmt: skip
    assert metrics[metrics["tier"] == "cloud"]["epoch"].tolist() == [0, 1, 2, 3]


def test_the_hash_is_that_of_the_log(finished):
    import hashlib

    digest = hashlib.sha256((finished / "a/events.log").read_bytes()).hexdigest()
    assert summary_of(finished / "a")["event_log_sha256"] == digest


def test_a_finished_run_can_be_repeated_from_its_own_folder(finished):
    good("run", "a/scenario.toml", "--out", "again", cwd=finished)
    first, again = summary_of(finished / "a"), summary_of(finished / "again")
    assert first["event_log_sha256"] == again["event_log_sha256"]


def test_plot_and_compare(finished):
    assert "wrote" in good("plot", "a", "b", "-o", "both", cwd=finished)
    assert (finished / "both/accuracy.png").read_bytes().startswith(b"\x89PNG")
    table = good("compare", "a", "b", "--target", "0.5", cwd=finished)
    assert "fedavg" in table
    assert "1.00" in table
    assert "not reached" in good("compare", "a", "b", "--target", "0.999", cwd=finished)


def test_pictures_have_no_place_in_a_file(finished):
    (finished / "file").write_text("mine")
    bad("(File exists: file); choose another --out", "plot", "a", "-o", "file", cwd=finished)
    assert (finished / "file").read_text() == "mine"


def test_paths_stand_as_they_are(finished):
    """Also in a narrow terminal, and with brackets: somebody copies them."""
    place = "[bold]" + "-of-both" * 12
    (finished / place).mkdir()
    shutil.copytree(finished / "a", finished / place / "[red]a")
    told = good("plot", f"{place}/[red]a", "-o", place, columns=40, cwd=finished)
    assert told.splitlines() == [f"wrote {place}/{name}.png" for name in ("accuracy", "bytes")]
    told = good("report", f"{place}/[red]a", "-o", f"{place}/r.html", columns=40, cwd=finished)
    assert told.splitlines()[-1] == f"wrote {place}/r.html"
    assert "[red]a" in good("compare", f"{place}/[red]a", "--target", "0.5", cwd=finished)


def test_a_run_without_learning_is_plotted_and_compared(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("MESHFL_DATA", str(tmp_path))
    settings = ["run.learning=none", "run.target=0.5", "model.transfer_bytes=9000"]
    settings = [word for setting in settings for word in ("--set", setting)]
    bad("cannot be reached", "run", FEDAVG, *settings, "--out", "c", cwd=tmp_path)
    scenario = Path(FEDAVG).read_text().replace("target = 0.9", 'learning = "none"')
    scenario = scenario.replace('"mlp"', '"mlp"\ntransfer_bytes = 9000')
    (finished / "none.toml").write_text(scenario.replace('"digits"', '"cinic10"'))
    shown = good("run", "none.toml", *SHORT, "--out", "none", cwd=finished)
    assert "bytes up" in shown
    assert "loss" not in shown
    names = {path.name for path in (finished / "none").iterdir()}
    assert names == {
        "scenario.toml", "events.log", "metrics.parquet", "transfers.parquet", "summary.json",
        "bytes.png",
    }  # fmt: skip
    assert "accuracy" not in good("plot", "none", "-o", "alone", cwd=finished)
    assert "accuracy.png" in good("plot", "none", "a", "-o", "beside", cwd=finished)
    for order in (["none", "a"], ["a", "none"]):
        assert "no learning" in good("compare", *order, "--target", "0.5", cwd=finished)
    assert "100 to 100 samples each" in good("check", "none.toml", cwd=finished)


def test_picture_of_the_partition(tmp_path):
    good("data", "partition", FEDAVG, "-o", "labels.png", cwd=tmp_path)
    assert (tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")


def test_show_gives_a_scenario_and_check_runs_nothing(tmp_path):
    (tmp_path / "shown.toml").write_text(good("show", FEDAVG, cwd=tmp_path))
    assert "30 devices on 3 gateways" in good("check", "shown.toml", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["shown.toml"]


@pytest.mark.parametrize(
    ("what", "member"),
    [
        ("algorithms", "fedavg"), ("networks", "flow"), ("selectors", "random"),
        ("associators", "nearest"), ("datasets", "digits"), ("models", "resnet18"),
        ("topologies", "tree-30"),
    ],
)  # fmt: skip
def test_list(what, member, tmp_path):
    assert member in good("list", what, cwd=tmp_path)


def start(folder, *arguments):
    command = [MESHFL, "run", FEDAVG, *LONG, "--out", str(folder), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path, process, seconds=60, other_than=None):
    end = time.monotonic() + seconds
    while written_at(path) in (None, other_than):
        assert process.poll() is None, "the run was over too soon"
        assert time.monotonic() < end
        time.sleep(0.02)


def written_at(path):
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    good("run", FEDAVG, *LONG, "--out", folder, cwd=folder.parent)
    return summary_of(folder)


def test_killed_and_resumed_as_if_never_killed(tmp_path, undisturbed):
    folder = tmp_path / "run"
    process, before = start(folder), None
    for _ in range(2):
        wait_for(folder / "checkpoint.safetensors", process, other_than=before)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        before = written_at(folder / "checkpoint.safetensors")
        assert not (folder / "summary.json").exists()
        command = [MESHFL, "resume", str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.wait() == 0
    process.communicate()
    summary = summary_of(folder)
    for key in ("event_log_sha256", "model_sha256", "sim_time_s", "events", "bytes_up"):
        assert summary[key] == undisturbed[key]


def test_killed_before_the_first_checkpoint(tmp_path):
    folder = tmp_path / "run"
    process = start(folder, "--set", "record.checkpoint_every_s=1000", *SHORT)
    wait_for(folder / "events.log", process)
    process.kill()
    process.communicate()
    assert "bytes up" in good("resume", folder, cwd=tmp_path)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, undisturbed, signum, workers):
    folder = tmp_path / "run"
    process = start(folder, "--workers", workers)
    wait_for(folder / "checkpoint.safetensors", process)
    process.send_signal(signum)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"meshfl resume {folder}" in out.replace("\n", "")
    good("resume", folder, "--workers", "2", cwd=tmp_path)
    assert summary_of(folder)["event_log_sha256"] == undisturbed["event_log_sha256"]


def test_an_interrupt_while_a_run_is_set_up_is_not_silent(monkeypatch, capsys):
    setting_up = typer.Typer()

    @setting_up.command()
    def run() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", setting_up)
    monkeypatch.setattr(sys, "argv", ["meshfl"])
    with pytest.raises(SystemExit, match="130"):
        cli.main()
    assert "stopped at once" in capsys.readouterr().err


def test_workers_end_with_a_killed_run(tmp_path, undisturbed):
    folder = tmp_path / "run"
    process = start(folder, "--workers", "2", "--set", "run.engine=processes")
    wait_for(folder / "checkpoint.safetensors", process)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    good("resume", folder, cwd=tmp_path)
    assert summary_of(folder)["event_log_sha256"] == undisturbed["event_log_sha256"]


def test_a_run_that_is_going_on_cannot_be_resumed_beside_it(tmp_path):
    folder = tmp_path / "run"
    process = start(folder, "--set", "run.epochs=2000")
    wait_for(folder / "checkpoint.safetensors", process)
    done = meshfl("resume", folder, cwd=tmp_path)
    assert done.returncode == 2
    assert "another process is running it" in done.stderr
    process.kill()
    process.communicate()


def test_resuming_a_complete_run_says_so(finished):
    assert "complete already" in good("resume", "a", cwd=finished)


def checkpointed(tmp_path):
    folder = tmp_path / "run"
    process = start(folder)
    wait_for(folder / "checkpoint.safetensors", process)
    process.kill()
    process.communicate()
    return folder


def bad(message, *arguments, cwd):
    """One clear message, exit code 2, no traceback, and nothing new in the folder."""
    before = sorted(cwd.rglob("*"))
    done = meshfl(*arguments, cwd=cwd)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert message in " ".join(done.stderr.split())
    assert sorted(cwd.rglob("*")) == before


def test_a_truncated_checkpoint_is_told(tmp_path):
    folder = checkpointed(tmp_path)
    checkpoint = folder / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    bad("damaged", "resume", folder, cwd=tmp_path)


def test_a_shortened_log_is_told(tmp_path):
    folder = checkpointed(tmp_path)
    (folder / "events.log").write_text("")
    bad("events.log: 0 bytes, the checkpoint needs", "resume", folder, cwd=tmp_path)


def test_a_missing_part_is_told_at_once(tmp_path):
    folder = checkpointed(tmp_path)
    next((folder / "parts").iterdir()).unlink()
    bad("cannot be read", "resume", folder, cwd=tmp_path)


@pytest.mark.parametrize("target", ["nan", "inf", "0", "80"])
def test_a_target_that_is_no_accuracy_is_told(finished, tmp_path, target):
    message = f"--target {target}: must be above 0 and at most 1, as 0.8 for 80 %"
    bad(message, "compare", finished / "a", "--target", target, cwd=tmp_path)
    bad(message, "report", finished / "a", "--target", target, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_cannot_be_plotted(tmp_path, finished):
    for name, content in (("list", "[]"), ("empty", "{}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(content)
        bad("not a run's summary", "plot", name, cwd=tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "summary.json").write_bytes((finished / "a/summary.json").read_bytes())
    pd.DataFrame({"x": [1]}).to_parquet(other / "metrics.parquet")
    bad("no column 'sim_time_s'", "compare", "other", "--target", "0.5", cwd=tmp_path)


TOPOLOGY = """{"schema": 1, "name": "t", "nodes": [
  {"name": "cloud", "tier": "cloud"}, {"name": "g", "tier": "gateway"},
  {"name": "d", "tier": "device"}],
 "links": [{"a": "cloud", "b": "g", "rate_bps": 1e6, "latency_s": 0.1}%s]}"""
LINK = ', {"a": "g", "b": "d", "rate_bps": %s, "latency_s": 0.1}'


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("no.toml: no such scenario file", ["run", "no.toml"]),
        ("run.epoch: unknown key; did you mean 'epochs'?", ["run", FEDAVG, "--set", "run.epoch=2"]),
        ("unknown data set 'digitz'", ["run", FEDAVG, "--set", "data.name=digitz"]),
        ("meshfl data fetch cinic10", ["run", FEDAVG, "--set", "data.name=cinic10"]),
        ("unknown model", ["show", FEDAVG, "--set", "model.name=none"]),
        ("device 'd' has no", ["check", FEDAVG, "--set", "topology.path={cwd}/lonely.json"]),
        ("rate_bps", ["check", FEDAVG, "--set", "topology.path={cwd}/negative.json"]),
        ("absent.json", ["run", FEDAVG, "--set", "topology.path={cwd}/absent.json"]),
        ("nan", ["run", "replay.toml"]),
        ("empty partition", ["run", FEDAVG, "--set", "data.fraction=0.01", "--set", "data.partition={kind = 'iid'}"]),
        ("needs an image", ["run", FEDAVG, "--set", "model.name=cnn-async-hfl"]),
        ("'char-lstm' is for characters", ["run", FEDAVG, "--set", "model.name=char-lstm"]),
        ("run.target = 1.5 cannot be an accuracy", ["run", FEDAVG, "--set", "run.target=1.5"]),
        ("holds no run", ["resume", "."]),
        ("holds no finished run", ["plot", "."]),
        ("holds no finished run", ["compare", "nowhere", "--target", "0.5"]),
        ("exists already", ["run", FEDAVG, "--out", "."]),
        ("unknown data set 'mnits'; did you mean 'mnist'?", ["data", "fetch", "mnits"]),
        ("cloud.csv/run: cannot be made", ["run", FEDAVG, "--out", "cloud.csv/run"]),
        ("labels.foo: a picture must end in", ["data", "partition", FEDAVG, "-o", "labels.foo"]),
        ("topology.device_rate_bps: -5 should be greater than or equal to 1",
         ["show", FEDAVG, "--set", "topology={kind='tree', gateways=1, devices=1, device_rate_bps=-5}"]),
        ("run.sim_time_s: 1e+300 should be less than", ["show", FEDAVG, "--set", "run.sim_time_s=1e300"]),
        ("record.evaluate_every_s: 1e-12 should be", ["show", FEDAVG, "--set", "record.evaluate_every_s=1e-12"]),
        ("Invalid value for '--workers'", ["run", FEDAVG, "--workers", "0"]),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_message(tmp_path, message, arguments, monkeypatch):
    monkeypatch.setenv("MESHFL_DATA", str(tmp_path / "data"))
    (tmp_path / "lonely.json").write_text(TOPOLOGY % "")
    (tmp_path / "negative.json").write_text(TOPOLOGY % (LINK % -5))
    (tmp_path / "delays.csv").write_text("1,2\n3,nan\n")
    (tmp_path / "cloud.csv").write_text("1,2\n")
    files = 'kind = "replay"\ndelays = "delays.csv"\ncloud = "cloud.csv"\n'
    (tmp_path / "replay.toml").write_text(
        f"[run]\nepochs = 1\n[topology]\n{files}[network]\n{files}"
        '[model]\nname = "mlp"\n[algorithm]\nname = "fedavg"\n'
    )
    arguments = [a.replace("{cwd}", str(tmp_path)) for a in arguments]
    if arguments[:1] == ["run"] and "--out" not in arguments:
        arguments += ["--out", "out"]
    bad(message, *arguments, cwd=tmp_path)


def test_help_is_quick(tmp_path):
    times = []
    for _ in range(3):
        began = time.monotonic()
        assert "network-realistic" in good("--help", cwd=tmp_path)
        times.append(time.monotonic() - began)
    assert min(times) < 1.5


@pytest.mark.parametrize("module", ["simulator", "simulator.cli"])
def test_an_import_takes_less_than_a_second(module):
    code = f"import time, {module}; print(time.process_time())"
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        times.append(float(done.stdout))
    assert min(times) < 1
