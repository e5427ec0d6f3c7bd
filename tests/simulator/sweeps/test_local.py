"""Sweeps on this machine, as people use them: real processes, real signals."""

import os
import pty
import random
import re
import signal
import subprocess
import threading
import time

import psutil
import pytest

from .conftest import PATIENCE_S, wait_for

LONG = {"run": {"epochs": 1_000_000}}
"""Over when somebody ends it."""


def workers_of(process):
    """Children of its server, which carry out the runs."""
    try:
        return [w for child in psutil.Process(process.pid).children() for w in child.children()]
    except psutil.Error:
        return []


def test_each_run_has_a_line_where_nobody_looks_at_a_table(make_sweep, tmp_path):
    sweep = make_sweep(tmp_path, {"run": {"epochs": 2}})
    code, output, errors = sweep.run()
    assert code == 0, errors
    lines = [line for line in errors.splitlines() if "done" in line]
    assert len(lines) == 4
    assert all(re.search(r"gateway_rounds \d, seed \d: done, accuracy 0\.\d{4}", s) for s in lines)
    assert "(4 of 4 done)" in lines[-1]
    assert "written: " in output
    code, again, errors = sweep.run()
    assert code == 0
    assert "4 of 4 runs are done already" in errors
    assert again == output
    assert {path.name for path in sweep.out.iterdir()} == {
        "fedavg-gateway-rounds-1", "fedavg-gateway-rounds-2", "findings.csv", "findings.md",
        "curves.png", "scores.png", "study.json",
    }  # fmt: skip


def test_a_terminal_has_a_live_table(make_sweep, tmp_path):
    sweep = make_sweep(tmp_path, LONG)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        sweep.command(), stderr=slave, stdout=subprocess.PIPE, cwd=tmp_path, text=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(slave)
    awaited = [
        r"run +state +% +epoch +simulated +score",
        r"FedAvg, gateway_rounds \d, seed \d +running +\d+ +[\d,]+ +[\d,.]+ s",
        r"\d of 4 done, \d running, about (\d+ days?, )?\d+:\d\d:\d\d left",
    ]
    patience = threading.Timer(PATIENCE_S, process.kill)
    patience.start()
    seen = shown = ""
    while chunk := read_of(master):
        seen += chunk
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
        if awaited and all(re.search(text, shown) for text in awaited):
            awaited = []
            process.send_signal(signal.SIGINT)
    patience.cancel()
    assert awaited == [], shown
    assert process.wait() == 130


def read_of(terminal):
    """What comes next; nothing, when its other end is closed."""
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:
        return ""


def test_killed_and_begun_again(sweep, undisturbed):
    with sweep.unfinished():
        process = sweep.start("--jobs", "2")
        wait_for(sweep.is_under_way, process)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert not alive
    assert len(sweep.hashes()) < 4
    code, _, errors = sweep.run("--jobs", "2")
    assert code == 0, errors
    assert sweep.hashes() == undisturbed


@pytest.mark.slow
def test_killed_at_a_random_moment_three_times(make_sweep, tmp_path):
    """24 runs; what the tables and the figures say is the same, too."""
    seeds = "seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]"
    sweeps = []
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
        sweeps.append(make_sweep(tmp_path / name))
        sweeps[-1].file.write_text(sweeps[-1].file.read_text().replace("seeds = [1, 2]", seeds))
    undisturbed, killed = sweeps
    began = time.monotonic()
    assert undisturbed.run("--jobs", "2")[0] == 0
    took_s = time.monotonic() - began
    moments = random.Random()
    with killed.unfinished():
        for _ in range(3):
            process = killed.start("--jobs", "2")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0, 0.5 * took_s))
            process.kill()
            process.wait()
    code, _, errors = killed.run("--jobs", "2")
    assert code == 0, errors
    assert len(killed.hashes()) == 24
    assert killed.hashes() == undisturbed.hashes()
    for name in ("findings.csv", "findings.md"):
        assert (killed.out / name).read_text() == (undisturbed.out / name).read_text()


def test_an_interrupt_saves_all_runs(sweep, undisturbed):
    with sweep.unfinished():
        process = sweep.start("--jobs", "1")
        wait_for(sweep.is_under_way, process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert f"interrupted; the same command continues the study in {sweep.out}" in " ".join(
        output.split()
    )
    assert not list(sweep.out.glob(".sweep*"))
    assert len(sweep.hashes()) < 4
    code, _, errors = sweep.run("--jobs", "2")
    assert code == 0, errors
    assert sweep.hashes() == undisturbed


def test_a_process_that_dies_takes_one_run_along(sweep, undisturbed):
    with sweep.unfinished():
        process = sweep.start("--jobs", "1")  # its only worker always has a run
        wait_for(sweep.is_under_way, process)
        (worker,) = workers_of(process)
        worker.kill()
        worker.wait()
    output, errors = process.communicate()
    assert process.returncode == 2
    assert "1 of 4 runs failed" in errors
    assert "its process has died (killed; out of memory?); the same command" in errors
    assert len(sweep.hashes()) == 3
    assert "FedAvg, gateway_rounds" in output, "the variant that is whole has its row"
    code, _, errors = sweep.run("--jobs", "2")
    assert code == 0, errors
    assert sweep.hashes() == undisturbed


def test_two_sweeps_of_one_folder_share_the_work(sweep, undisturbed):
    first, second = sweep.start("--jobs", "1"), sweep.start("--jobs", "1")
    for process in (first, second):
        errors = process.communicate()[1]
        assert process.returncode == 0, errors
    assert sweep.hashes() == undisturbed
