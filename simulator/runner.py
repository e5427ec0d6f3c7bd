"""A run in its folder: started, checkpointed, interrupted, resumed, finished."""

from __future__ import annotations

import errno
import gc
import hashlib
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from safetensors.torch import save

from simulator.build import build, with_files
from simulator.energy import energy_of, totals, write_energy
from simulator.errors import UserError
from simulator.exports import check_wishes, fulfil_wishes
from simulator.folders import FolderBusy, alone_in, make_folder
from simulator.kernel import Algorithm, Simulation
from simulator.network import Energy
from simulator.parts import BYTE_KINDS, World
from simulator.recorder import CHECKPOINT, SCENARIO, SUMMARY, FolderRecorder, write_text
from simulator.results import read_summary
from simulator.scenario import Scenario
from simulator.state import load_state, save_state
from simulator.units import NodeId, to_seconds

INPUTS, MODEL = "inputs", "model.safetensors"
_TICK_S = 0.1
_APART = 9
"""At least so many times as long as a checkpoint takes, nothing but the run goes on."""
_COLLECT_EVERY = 50_000
"""New objects between two looks for garbage: a run makes many, hardly ever in circles."""

Watch = Callable[[Simulation], None]
"""Called about ten times a second while the run goes on."""


def start(
    scenario: Scenario, base: Path, folder: Path, workers: int = 1, watch: Watch | None = None,
    algorithm: Algorithm | None = None,
) -> dict[str, Any] | None:  # fmt: skip
    """Run a scenario into a new folder; the summary, or None when interrupted.

    A given ``algorithm`` takes the place of the scenario's.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"{folder}: exists already; continue it with 'meshfl resume {folder}', "
            "or choose another place with --out"
        )

    check_wishes(scenario.record)
    scenario = with_files(scenario, base)
    world = build(scenario, base, workers)
    own = None if algorithm is None else type(algorithm).__name__
    if algorithm is not None:
        world = replace(world, algorithm=algorithm)
    try:
        _make_folder(scenario, base, folder)
        with alone_in(folder, "running it"):
            sim = Simulation(world, FolderRecorder(folder, _names(world)))
            try:
                sim.start()
            except UserError:
                shutil.rmtree(folder)
                raise
            return _Run(scenario, folder, sim, 0.0, own).execute(watch)
    finally:
        _close(world)


def resume(folder: Path, workers: int = 1, watch: Watch | None = None) -> dict[str, Any] | None:
    """Continue a run from its last checkpoint, or from the start if it has none."""
    if not (folder / SCENARIO).is_file():
        raise UserError(f"{folder}: holds no run ({SCENARIO} is missing)")
    scenario = Scenario.load(folder / SCENARIO)
    check_wishes(scenario.record)
    if (folder / SUMMARY).is_file():
        fulfil_wishes(scenario, folder)
        return read_summary(folder)
    world = build(scenario, folder, workers)
    try:
        with alone_in(folder, "running it"):
            if (folder / CHECKPOINT).exists():
                sim, spent_s = _restored(world, folder)
            else:
                sim, spent_s = Simulation(world, FolderRecorder(folder, _names(world))), 0.0
                sim.start()
            return _Run(scenario, folder, sim, spent_s).execute(watch)
    finally:
        _close(world)


def _restored(world: World, folder: Path) -> tuple[Simulation, float]:
    """The simulation as its checkpoint has it, and the wall-clock time spent on it before."""
    state = load_state(folder / CHECKPOINT, world.learner.train)
    if state["meshfl_version"] != version("meshfl"):
        raise UserError(
            f"{folder / CHECKPOINT}: written by meshfl {state['meshfl_version']}, this is "
            f"{version('meshfl')}; use that version, or delete the file to start afresh"
        )
    sim = Simulation(world, FolderRecorder(folder, _names(world), state["recorder"]))
    sim.load(state["simulation"])
    return sim, state["wall_time_s"]


def _close(world: World) -> None:
    world.learner.close()
    world.network.close()


def _make_folder(scenario: Scenario, base: Path, folder: Path) -> None:
    """All at once: a kill leaves either no folder or one that can be resumed."""
    make_folder(folder.parent, folder)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        draft = Path(made) / "run"
        draft.mkdir()
        own = _copy_inputs(scenario, base, draft)
        write_text(draft / SCENARIO, own.to_toml())
        try:
            os.replace(draft, folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            raise FolderBusy(f"{folder}: another process has just made it; wait for it") from None


def _names(world: World) -> list[str]:
    return [node.name for node in world.topology.nodes]


class _Run:
    def __init__(
        self, scenario: Scenario, folder: Path, sim: Simulation, spent_s: float,
        algorithm: str | None = None,
    ) -> None:  # fmt: skip
        self.scenario = scenario
        self.algorithm = algorithm or scenario.algorithm.name
        self.folder = folder
        self.sim = sim
        self._recorder: FolderRecorder = sim.recorder  # type: ignore[assignment]
        self._began = time.monotonic() - spent_s

    def execute(self, watch: Watch | None) -> dict[str, Any] | None:
        every = self.scenario.record.checkpoint_every_s
        checkpoint_at = time.monotonic() + every

        def tick() -> float:
            nonlocal checkpoint_at
            if watch:
                watch(self.sim)
            if (began := time.monotonic()) >= checkpoint_at:
                self._checkpoint()
                ended = time.monotonic()
                checkpoint_at = ended + max(every, _APART * (ended - began))
            return time.monotonic() + min(_TICK_S, every)

        try:
            with _interruptible(self.sim), _few_collections():
                self.sim.run(tick)
            if self.sim.interrupted and not self.sim.progress.stop_reason:
                self._checkpoint()
                return None
            summary = self._finish()
            fulfil_wishes(self.scenario, self.folder)
            return summary
        finally:
            self._recorder.close()

    def _checkpoint(self) -> None:
        state = {
            "meshfl_version": version("meshfl"),
            "wall_time_s": time.monotonic() - self._began,
            "recorder": self._recorder.save(),
            "simulation": self.sim.save(),
        }
        save_state(self.folder / CHECKPOINT, state)

    def _finish(self) -> dict[str, Any]:
        self.sim.finish()
        used = energy_of(self.sim)
        write_energy(self.sim, used, self.folder)
        model = self.sim.model
        assert model is not None
        if self.scenario.run.learning != "none":
            partial = self.folder / f"{MODEL}.partial"
            partial.write_bytes(save({"model": model}))  # save_file's is for its owner alone
            os.replace(partial, self.folder / MODEL)
        return self._recorder.finish(self._summary(model, used))

    def _summary(self, model: torch.Tensor, used: dict[NodeId, Energy]) -> dict[str, Any]:
        progress, topology = self.sim.progress, self.sim.topology
        reached = progress.time_to_target
        to_target = progress.bytes_to_target
        return {
            "meshfl_version": version("meshfl"),
            "seed": self.scenario.run.seed,
            "algorithm": self.algorithm,
            "learning": self.scenario.run.learning,
            "topology": topology.name,
            "gateways": len(topology.gateways),
            "devices": len(topology.devices),
            "stop_reason": progress.stop_reason,
            "epochs": progress.epoch,
            "sim_time_s": to_seconds(progress.now),
            "wall_time_s": round(time.monotonic() - self._began, 3),
            "events": progress.events,
            "final_accuracy": progress.accuracy,
            "best_accuracy": progress.best_accuracy,
            "final_loss": _finite(progress.loss),
            "best_loss": _finite(progress.best_loss),
            "target": self.scenario.run.target,
            "time_to_target_s": None if reached is None else to_seconds(reached),
            "bytes_to_target": None if to_target is None else sum(to_target.values()),
            **{f"bytes_{kind}": progress.bytes_by_kind[kind] for kind in BYTE_KINDS},
            "model_bytes": self.sim.learner.model_bytes,
            "lost_transfers": progress.lost_transfers,
            "jobs_started": progress.jobs_started,
            "jobs_abandoned": progress.jobs_abandoned,
            **totals(used),
            **self.sim.manager.told(),
            "model_sha256": hashlib.sha256(model.numpy().tobytes()).hexdigest(),
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
                "mkl_cbwr": os.environ.get("MKL_CBWR", ""),
            },
        }


def _finite(number: float | None) -> float | None:
    """JSON has no name for what a diverged run ends with."""
    return number if number is not None and np.isfinite(number) else None


@contextmanager
def _interruptible(sim: Simulation) -> Iterator[None]:
    """SIGINT and SIGTERM pause the run between two events instead of tearing it.

    One event may train many devices; a second signal does not wait for it.
    """

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's; the run belongs to a program of more than a run
        return

    def pause(signum: int, frame: object) -> None:
        if sim.interrupted:
            raise KeyboardInterrupt
        sim.interrupted = True

    before = {s: signal.signal(s, pause) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def _few_collections() -> Iterator[None]:
    """What was built before the run lives as long as the run: no use to look through it again."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _copy_inputs(scenario: Scenario, base: Path, folder: Path) -> Scenario:
    """Bring the files that the scenario names along, so that the folder stands alone."""

    def adopt(section: BaseModel, keys: tuple[str, ...]) -> BaseModel:
        changed: dict[str, Any] = {}
        for name in type(section).model_fields:
            value, own = getattr(section, name), (*keys, name)
            if isinstance(value, BaseModel):
                changed[name] = adopt(value, own)
            elif isinstance(value, Path) and (base / value).is_file():
                (folder / INPUTS).mkdir(exist_ok=True)
                changed[name] = Path(INPUTS) / f"{'-'.join(own)}{value.suffix}"
                shutil.copyfile(base / value, folder / changed[name])
        return section.model_copy(update=changed)

    return adopt(scenario, ())  # type: ignore[return-value]
