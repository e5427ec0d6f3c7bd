"""Training on a Ray cluster: one that runs already, or one made on this machine for the run."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import fields
from itertools import cycle
from typing import Any

import numpy as np
import torch

from simulator.errors import UserError
from simulator.events import Job, Result
from simulator.task import Task
from simulator.trainer import Trainer


class RayEngine:
    chunks_per_worker = 3

    def __init__(self, task: Task, workers: int, address: str | None) -> None:
        self._ray = ray = import_ray("[run] engine = 'ray'")
        trainer = Trainer(task)
        self.workers = workers
        self.num_parameters = trainer.num_parameters
        self.jobs_at_once = trainer.jobs_at_once
        connect(ray, workers, address, "[run] ray_address")
        actor = ray.remote(num_cpus=1, max_restarts=0)(RayWorker)
        shared = ray.put(_as_arrays(task))  # once per machine, however many workers it has
        self._actors = [actor.remote(shared) for _ in range(workers)]
        self._next = cycle(self._actors)

    def submit(self, jobs: Sequence[Job]) -> Any:
        starts = {id(job.start): job.start.numpy() for job in jobs}
        orders = [
            (
                job._replace(start=_NOTHING, shift=None, tag=None),
                id(job.start),
                None if job.shift is None else job.shift.numpy(),
            )
            for job in jobs
        ]
        return next(self._next).train.remote(starts, orders)

    def results(self, chunk: Any) -> list[Result]:
        try:
            models, losses = self._ray.get(chunk)
        except self._ray.exceptions.RayError as error:
            raise UserError(
                f"a Ray worker has failed ({str(error).strip().splitlines()[-1]}); the run can be "
                "resumed from its last checkpoint"
            ) from None
        return [Result(torch.tensor(m), loss) for m, loss in zip(models, losses, strict=True)]

    def discard(self, chunk: Any) -> None:
        pass  # a method of an actor, once asked for, cannot be taken back

    def close(self) -> None:
        self._ray.shutdown()


_NOTHING = torch.empty(0)


def import_ray(who: str) -> Any:
    try:
        import ray
    except ImportError:
        raise UserError(
            f"{who} needs the package ray: pip install 'meshfl[ray]', or choose another engine"
        ) from None
    return ray


def connect(ray: Any, workers: int | None, address: str | None, key: str) -> None:
    """To the cluster that ``key`` names, or to one that is made here for so many workers."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    try:
        if address is None:
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        else:
            _knock(address)
            ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"{key} = {address!r}: no Ray cluster answers ({reason}); start one with "
            "'ray start --head', or leave it out for one on this machine"
        ) from None
    cores = int(ray.cluster_resources().get("CPU", 0))
    if cores < (workers or 1):
        ray.shutdown()
        raise UserError(f"{workers} workers: the Ray cluster has {cores} CPUs; ask for no more")


def _knock(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _as_arrays(task: Task) -> dict[str, Any]:
    """Arrays lie in Ray's store and are read there; tensors would be copied to each worker."""
    content = {field.name: getattr(task, field.name) for field in fields(task)}
    content |= {"x_test": task.x_test[:0], "y_test": task.y_test[:0]}
    return {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in content.items()}


class RayWorker:
    def __init__(self, content: dict[str, Any]) -> None:
        import warnings

        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensors = ("x_train", "y_train", "x_test", "y_test")
        self._trainer = Trainer(
            Task(**(content | {k: torch.from_numpy(content[k]) for k in tensors}))
        )

    def train(
        self, starts: dict[int, np.ndarray], orders: list[Any]
    ) -> tuple[list[np.ndarray], list[float]]:
        models = {key: torch.from_numpy(array) for key, array in starts.items()}
        jobs = [
            job._replace(start=models[key], shift=None if shift is None else torch.tensor(shift))
            for job, key, shift in orders
        ]
        results = self._trainer.train(jobs)
        return [result.model.numpy() for result in results], [result.loss for result in results]
