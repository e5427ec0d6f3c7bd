"""What TensorBoard and MLflow read is what the tables say, once."""

import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simulator import Results, run
from simulator.cli import app
from simulator.errors import UserError
from simulator.exports import export, points, to_mlflow, to_tensorboard
from simulator.runner import resume, start


@pytest.fixture(scope="module")
def results(scenario, tmp_path_factory):
    wanted = scenario({"record": {"evaluate_gateway_rounds": 1}})
    return run(wanted, tmp_path_factory.mktemp("runs") / "run")


def curves_in(folder):
    """By name: (epoch, simulated seconds, value) of each point that TensorBoard reads there."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    return {
        name: [(e.step, e.wall_time, e.value) for e in read.Scalars(name)]
        for name in read.Tags()["scalars"]
    }


def curve_of(results, name):
    rows = results.curve[["epoch", "sim_time_s", name]].itertuples(index=False)
    return [(epoch, pytest.approx(at), pytest.approx(value)) for epoch, at, value in rows]


def test_tensorboard_reads_the_curves(results, tmp_path):
    pytest.importorskip("tensorboard")
    to_tensorboard(results, tmp_path / "log")
    curves = curves_in(tmp_path / "log")
    assert curves["accuracy"] == curve_of(results, "accuracy")
    assert curves["bytes_up"] == curve_of(results, "bytes_up")
    (gateway, _) = results.scored_gateways
    own = results.gateway_curve(gateway)["loss"].tolist()
    assert [value for *_, value in curves[f"{gateway}/loss"]] == pytest.approx(own)
    to_tensorboard(results, tmp_path / "log")
    assert curves_in(tmp_path / "log") == curves, "in the place of what was there"


def test_a_scenario_may_ask_for_it(scenario, tmp_path, results):
    pytest.importorskip("tensorboard")
    asked = scenario({"record": {"evaluate_gateway_rounds": 1, "tensorboard": True}})
    folder = tmp_path / "run"

    def pause(sim):
        sim.interrupted = sim.progress.epoch >= 2

    eager = asked.changed("record.checkpoint_every_s=1e-6")
    assert start(eager, Path(), folder, watch=pause) is None
    assert not (folder / "tensorboard").exists(), "nothing is written by halves"
    summary = resume(folder)
    assert summary["event_log_sha256"] == results.summary["event_log_sha256"]
    assert curves_in(folder / "tensorboard")["accuracy"] == curve_of(results, "accuracy")
    (log,) = (folder / "tensorboard").iterdir()
    log.unlink()
    (folder / "tensorboard").rmdir()
    resume(folder)
    assert (folder / "tensorboard").is_dir(), "killed after its end, before this"


def test_the_command_takes_runs_and_studies(tmp_path, scenario):
    pytest.importorskip("tensorboard")
    (tmp_path / "small.toml").write_text(scenario().to_toml())
    (tmp_path / "study.toml").write_text(
        'title = "t"\nscenario = "small.toml"\nreference = "A"\nseeds = [1, 2]\n'
        '[[variants]]\nname = "A"\n'
    )
    study, log = tmp_path / "out", tmp_path / "log"
    command = ["sweep", str(tmp_path / "study.toml"), "--out", str(study), "--jobs", "1"]
    assert CliRunner().invoke(app, command).exit_code == 0
    told = CliRunner().invoke(app, ["export", str(study), "--to", "tensorboard", "-o", str(log)])
    assert told.exit_code == 0, told.output
    for name in ("seed-1", "seed-2"):
        there = Results.load(study / "a" / name)
        assert curves_in(log / name)["accuracy"] == curve_of(there, "accuracy")


@pytest.mark.parametrize("out", ["", "other/.."])
def test_a_run_is_not_taken_for_an_old_log(results, tmp_path, out):
    """Its log would be named as the run is, and lie where the run lies."""
    pytest.importorskip("tensorboard")
    folder = shutil.copytree(results.folder, tmp_path / "run")
    (tmp_path / "other").mkdir()
    command = ["export", str(folder), "--to", "tensorboard", "-o", str(tmp_path / out)]
    told = CliRunner().invoke(app, command)
    assert isinstance(told.exception, UserError)
    assert "no log of TensorBoard" in str(told.exception)
    assert Results.load(folder).curve.equals(results.curve)


def test_a_run_that_is_named_twice_is_written_once(results, tmp_path):
    pytest.importorskip("tensorboard")
    folder = shutil.copytree(results.folder, tmp_path / "run")
    named = [folder, tmp_path / "." / "run", folder / ".." / "run"]
    assert list(export(named, "tensorboard", tmp_path / "log", "")) == [
        str(tmp_path / "log" / "run")
    ]
    assert curves_in(tmp_path / "log" / "run")["accuracy"] == curve_of(results, "accuracy")
    assert Results.load(folder).curve.equals(results.curve)


@pytest.mark.parametrize("target", ["tensorboard", "mlflow"])
def test_what_is_missing_is_told_before_the_run(target, scenario, tmp_path, monkeypatch):
    for name in ("torch.utils.tensorboard", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
    wish = {"tensorboard": True, "mlflow": "sqlite:///mlflow.db"}[target]
    with pytest.raises(UserError, match=rf"for {target} needs .*pip install 'meshfl\[{target}\]'"):
        start(scenario({"record": {target: wish}}), Path(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def mlflow():
    """It is large, and asks for other versions: CI has none. Its own folders are files no more."""
    reason = "no MLflow here; pip install 'meshfl[mlflow]' into an environment of its own"
    pytest.importorskip("sqlalchemy", reason=reason)
    return pytest.importorskip("mlflow", reason=reason)


def test_mlflow_has_each_run_once(results, tmp_path, mlflow):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    told = to_mlflow(results, uri, "first")
    assert to_mlflow(results, uri, "first") == told
    client = mlflow.MlflowClient(tracking_uri=uri)
    (experiment,) = client.search_experiments(filter_string="name = 'meshfl'")
    (there,) = client.search_runs([experiment.experiment_id])
    assert there.info.status == "FINISHED"
    assert there.info.end_time == round(1000 * results.summary["sim_time_s"])
    assert there.data.params["training.learning_rate"] == "0.1"
    assert there.data.params["algorithm.name"] == "fedavg"
    assert there.data.metrics["summary.best_accuracy"] == results.summary["best_accuracy"]
    history = client.get_metric_history(told, "accuracy")
    expected = [(p.epoch, p.value) for p in points(results) if p.name == "accuracy"]
    assert [(point.step, point.value) for point in history] == expected
    assert [point.timestamp for point in history] == [
        round(1000 * at) for at in results.curve["sim_time_s"]
    ]


def test_half_a_run_in_mlflow_is_written_again(results, tmp_path, mlflow, monkeypatch):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with monkeypatch.context() as patch:
        patch.setattr("simulator.exports._log", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            to_mlflow(results, uri, "first")
    to_mlflow(results, uri, "first")
    client = mlflow.MlflowClient(tracking_uri=uri)
    (experiment,) = client.search_experiments(filter_string="name = 'meshfl'")
    (there,) = client.search_runs([experiment.experiment_id])
    assert there.info.status == "FINISHED"


def test_a_server_of_mlflow_that_is_not_there(results, mlflow, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UserError, match=r"MLflow cannot be written .*meshfl export"):
        to_mlflow(results, "http://127.0.0.1:1", "first")


def test_mlflow_after_a_run(scenario, tmp_path, mlflow):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    done = run(scenario({"record": {"mlflow": uri}}), tmp_path / "run")
    client = mlflow.MlflowClient(tracking_uri=uri)
    (experiment,) = client.search_experiments(filter_string="name = 'meshfl'")
    (there,) = client.search_runs([experiment.experiment_id])
    assert there.info.run_name == "run"
    assert there.data.metrics["accuracy"] == done.summary["final_accuracy"]
