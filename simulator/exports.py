"""Finished runs for TensorBoard and MLflow.

Both are written from a run's tables, after its end: that changes no event log, nothing is written
twice after a resume, and runs of long ago can be looked at, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.errors import UserError
from simulator.folders import make_folder
from simulator.parts import BYTE_KINDS
from simulator.recorder import SCENARIO, STUDY, SUMMARY
from simulator.results import Results, labels
from simulator.scenario import flattened

if TYPE_CHECKING:
    import pandas as pd

    from simulator.scenario import RecordSection, Scenario

TENSORBOARD = "tensorboard"
EXPERIMENT = "meshfl"
_TAG = "meshfl.run_sha256"
_LOG = "events.out.tfevents"
"""What the names of TensorBoard's files begin with."""
_BATCH = 100
"""MLflow takes no more parameters at once, and no longer ones than this:"""
_LONGEST = 500


class Point(NamedTuple):
    name: str
    value: float
    epoch: int
    sim_time_s: float


def points(results: Results) -> Iterator[Point]:
    """Curves of the global model, and of gateways' own models where they were scored."""
    sent = [f"bytes_{kind}" for kind in BYTE_KINDS]
    yield from _points_of(results.curve, "", ["accuracy", "loss", *sent])
    for node in results.scored_gateways:
        yield from _points_of(results.gateway_curve(node), f"{node}/", ["accuracy", "loss"])


def _points_of(curve: pd.DataFrame, prefix: str, names: list[str]) -> Iterator[Point]:
    for name in names:
        for epoch, time_s, value in (
            curve[["epoch", "sim_time_s", name]].dropna().itertuples(index=False)
        ):
            yield Point(prefix + name, float(value), int(epoch), float(time_s))


def export(folders: Sequence[Path], target: str, out: Path, uri: str) -> Iterator[str]:
    """Every run in the folders; where each of them is now."""
    found = [run for folder in folders for run in _runs_in(folder)]
    once = {run.resolve(): run for run in found}
    runs = [Results.load(run) for run in once.values()]
    for name, results in zip(labels(runs), runs, strict=True):
        if target == "tensorboard":
            yield str(to_tensorboard(results, out / name))
        else:
            yield f"{uri}: {name}, run {to_mlflow(results, uri, name)}"


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself, or those of a study in it."""
    if (folder / STUDY).is_file():
        return sorted(path.parent for path in folder.rglob(SUMMARY))
    return [folder]


def require(target: str) -> Any:
    """The package that writes it."""
    module = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow"}[target]
    try:
        return import_module(module)
    except ImportError:
        raise UserError(
            f"writing for {target} needs a package: pip install 'meshfl[{target}]'"
        ) from None


def check_wishes(record: RecordSection) -> None:
    """What a scenario asks for can be written: said before the run and not after it."""
    if record.tensorboard:
        require("tensorboard")
    if record.mlflow is not None:
        require("mlflow")


def fulfil_wishes(scenario: Scenario, folder: Path) -> None:
    """What a scenario asks for, of its run that is done; what is there already stays."""
    record = scenario.record
    if record.tensorboard and not (folder / TENSORBOARD).exists():
        to_tensorboard(Results.load(folder), folder / TENSORBOARD)
    if record.mlflow is not None:
        results = Results.load(folder)
        to_mlflow(results, record.mlflow, results.name)


def to_tensorboard(results: Results, out: Path) -> Path:
    """Into a folder of its own, in the place of what was there.

    A point's step is its cloud epoch; its time is simulated, so TensorBoard's relative axis shows
    simulated time.
    """
    writer_class = require("tensorboard").SummaryWriter
    _check_replaceable(out)
    make_folder(out.parent, out)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as made:
        draft = Path(made) / "log"
        with writer_class(str(draft)) as writer:
            for point in points(results):
                writer.add_scalar(point.name, point.value, point.epoch, walltime=point.sim_time_s)
            writer.add_text("scenario", f"```\n{(results.folder / SCENARIO).read_text()}\n```")
        shutil.rmtree(out, ignore_errors=True)
        os.replace(draft, out)
    return out


def _check_replaceable(out: Path) -> None:
    """With -o at the folder of the runs, a run itself would be what was there."""
    is_log = out.is_dir() and all(path.name.startswith(_LOG) for path in out.iterdir())
    if out.exists() and not is_log:
        raise UserError(
            f"{out}: is there already, and is no log of TensorBoard that could be replaced; "
            "choose another -o"
        )


def to_mlflow(results: Results, uri: str, name: str) -> str:
    """As a run of the experiment "meshfl"; its id. What is there already stays as it is.

    A point's step is its cloud epoch, its time simulated; the scenario's keys are parameters.
    """
    mlflow = require("mlflow")
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
        digest = _digest(results)
        for run in client.search_runs([experiment], f"tags.`{_TAG}` = '{digest}'"):
            if run.info.status == "FINISHED":
                return str(run.info.run_id)
            client.delete_run(run.info.run_id)  # half of it, from when something was killed
        run = client.create_run(experiment, run_name=name, start_time=0, tags={_TAG: digest})
        _log(mlflow, client, run.info.run_id, results)
        end_ms = round(1000 * results.summary["sim_time_s"])
        client.set_terminated(run.info.run_id, end_time=end_ms)
    except (mlflow.exceptions.MlflowException, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"{uri}: MLflow cannot be written ({reason}); the run is complete, and "
            f"'meshfl export {results.folder} --to mlflow --uri URI' tries again"
        ) from None
    return str(run.info.run_id)


def _digest(results: Results) -> str:
    """Of what was to be run, and of what has happened."""
    said = (results.folder / SCENARIO).read_text() + results.summary["event_log_sha256"]
    return hashlib.sha256(said.encode()).hexdigest()


def _log(mlflow: Any, client: Any, run_id: str, results: Results) -> None:
    entities = mlflow.entities
    said = [
        entities.Param(key, (value if isinstance(value, str) else json.dumps(value))[:_LONGEST])
        for key, value in flattened(results.scenario.model_dump(mode="json")).items()
        if value is not None
    ]
    last = results.summary
    metrics = [
        entities.Metric(name, value, round(1000 * time_s), epoch)
        for name, value, epoch, time_s in points(results)
    ] + [
        entities.Metric(f"summary.{key}", float(value), round(1000 * last["sim_time_s"]), 0)
        for key, value in last.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    for i in range(0, len(said), _BATCH):
        client.log_batch(run_id, params=said[i : i + _BATCH])
    for i in range(0, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[i : i + _BATCH])
