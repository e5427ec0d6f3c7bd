"""The same runs on a Ray cluster, a Dask cluster, and through submitit: all of them real."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from simulator.errors import UserError
from simulator.sweeps import engine_named

from .conftest import wait_for

BIN = Path(sys.executable).parent


@contextmanager
def ended(process):
    try:
        yield process
    finally:
        family = [process, *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            member.kill()
        process.wait()


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """The address of a scheduler with two workers."""
    pytest.importorskip("distributed")
    place = tmp_path_factory.mktemp("dask")
    file = place / "scheduler.json"
    scheduler = [BIN / "dask", "scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1"]
    workers = [BIN / "dask", "worker", "--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
    with (
        ended(subprocess.Popen([*scheduler, "--scheduler-file", file], cwd=place)),
        ended(subprocess.Popen([*workers, "--scheduler-file", file], cwd=place)),
    ):
        import distributed

        with distributed.Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            yield client.scheduler.address


@pytest.fixture(scope="module")
def ray():
    """The address of a cluster of two CPUs."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    yield cluster.address
    cluster.shutdown()


@pytest.mark.parametrize(
    ("engine", "jobs"), [("ray", []), ("dask", []), ("ray", ["--jobs", "1"])], ids=str
)
def test_a_cluster_gives_the_same_runs(engine, jobs, sweep, undisturbed, request):
    address = request.getfixturevalue(engine)
    code, output, errors = sweep.run("--engine", engine, "--address", address, *jobs)
    assert code == 0, errors
    assert "gateway_rounds 2, seed 2: done, accuracy" in errors
    assert "written: " in output
    assert sweep.hashes() == undisturbed


@pytest.mark.parametrize("engine", [pytest.param("ray", marks=pytest.mark.slow), "dask"])
def test_without_an_address_a_cluster_is_made(engine, sweep, undisturbed):
    pytest.importorskip({"dask": "distributed"}.get(engine, engine))
    code, _, errors = sweep.run("--engine", engine, "--jobs", "2")
    assert code == 0, errors
    assert sweep.hashes() == undisturbed


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_killed_on_a_cluster_and_begun_again(engine, sweep, undisturbed, request):
    options = ["--engine", engine, "--address", request.getfixturevalue(engine)]
    with sweep.unfinished():
        process = sweep.start(*options)
        wait_for(sweep.is_under_way, process)
        process.kill()
        process.wait()
    code, _, errors = sweep.run(*options)
    assert code == 0, errors
    assert sweep.hashes() == undisturbed


def test_a_worker_of_dask_that_dies_costs_nothing(sweep, undisturbed, dask):
    with sweep.unfinished():
        process = sweep.start("--engine", "dask", "--address", dask)
        wait_for(sweep.is_under_way, process)
        for member in psutil.Process(os.getpid()).children(recursive=True):
            files = [file.path for file in member.open_files()]
            if any(file.startswith(str(sweep.out)) for file in files):
                member.kill()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert sweep.hashes() == undisturbed


@pytest.mark.parametrize("cluster", ["local", "debug"])
def test_submitit_gives_the_same_runs(cluster, sweep, undisturbed):
    pytest.importorskip("submitit")
    code, _, errors = sweep.run(
        "--engine", "slurm", "--slurm", f"cluster={cluster}", "--slurm", "timeout_min=5"
    )
    assert code == 0, errors
    assert sweep.hashes() == undisturbed


@pytest.mark.parametrize("engine", ["dask", pytest.param("slurm", marks=pytest.mark.slow)])
def test_a_run_that_fails_is_alone(engine, make_sweep, tmp_path):
    pytest.importorskip({"dask": "distributed", "slurm": "submitit"}[engine])
    sweep = make_sweep(tmp_path, {"run": {"epochs": 2}})
    failing = '\n[[variants]]\nname = "No"\nchange = {data = {name = "cinic10"}}\n[grid]'
    sweep.file.write_text(sweep.file.read_text().replace("\n[grid]", failing))
    options = ["--slurm", "cluster=local"] if engine == "slurm" else ["--jobs", "2"]
    code, output, errors = sweep.run("--engine", engine, *options)
    assert code == 2
    assert "4 of 8 runs failed" in errors
    assert errors.count("meshfl data fetch cinic10") >= 4
    assert len(sweep.hashes()) == 4
    assert "written: " in output


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("--address here: is for --engine ray and dask, not local", ("local", "here")),
        ("--slurm a=1: is for --engine slurm, not ray", ("ray", None, ["a=1"])),
        ("--slurm timeout_min: must read KEY=VALUE", ("slurm", None, ["timeout_min"])),
        ("no SLURM on this machine", ("slurm",)),
    ],
)
def test_what_does_not_go_together(message, arguments, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=message):
        engine_named(*arguments)


@pytest.mark.parametrize(
    ("engine", "package"), [("ray", "ray"), ("dask", "distributed"), ("slurm", "submitit")]
)
def test_what_is_missing_is_told_with_the_command(engine, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"--engine {engine} needs the package {package}: pip install 'meshfl\[{engine}\]'"
    with pytest.raises(UserError, match=message):
        engine_named(engine)


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_cluster_that_is_not_there(engine, sweep):
    pytest.importorskip({"dask": "distributed"}.get(engine, engine))
    code, _, errors = sweep.run("--engine", engine, "--address", "127.0.0.1:1")
    assert code == 2
    assert "answers" in errors
    assert "127.0.0.1:1" in errors


def test_a_parameter_that_submitit_does_not_know(sweep):
    pytest.importorskip("submitit")
    code, _, errors = sweep.run(
        "--engine", "slurm", "--slurm", "cluster=local", "--slurm", "memory=1"
    )
    assert code == 2
    assert "--slurm" in errors
    assert "memory" in errors
