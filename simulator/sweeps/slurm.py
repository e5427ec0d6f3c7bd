"""Runs as jobs of SLURM, through submitit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from simulator.errors import UserError
from simulator.scenario import value_of
from simulator.sweeps.notes import Note, give_up
from simulator.sweeps.work import Task, perform

_DEFAULTS = {"timeout_min": 24 * 60, "cpus_per_task": 1, "name": "meshfl"}
_LOGS = "slurm"
CLUSTER = "cluster"
"""A parameter of ours: slurm, or submitit's own executors on this machine, local and debug."""


class SlurmEngine:
    """``settings`` are KEY=VALUE, submitit's parameters: timeout_min, mem_gb, slurm_partition."""

    def __init__(self, settings: Sequence[str]) -> None:
        try:
            import submitit
        except ImportError:
            raise UserError(
                "--engine slurm needs the package submitit: pip install 'meshfl[slurm]', or choose "
                "--engine local"
            ) from None
        self._submitit = submitit
        self._parameters = _DEFAULTS | dict(_parsed(setting) for setting in settings)
        self._cluster = str(self._parameters.pop(CLUSTER, "slurm"))
        if self._cluster == "slurm" and not shutil.which("sbatch"):
            raise UserError(
                "--engine slurm: no SLURM on this machine (sbatch is not found); run this where "
                "jobs are submitted, or choose --engine local"
            )

    def execute(self, tasks: Sequence[Task], jobs: int | None) -> list[str]:
        if not tasks:
            return []
        executor = self._executor(tasks, jobs)
        submitted: list[Any] = []
        try:
            with executor.batch():
                submitted += [executor.submit(perform, task) for task in tasks]
            return [self._outcome(job, task) for job, task in zip(submitted, tasks, strict=True)]
        except KeyboardInterrupt:
            give_up(tasks)  # those that run save themselves; those that wait see it and end
            raise

    def _executor(self, tasks: Sequence[Task], jobs: int | None) -> Any:
        parameters = dict(self._parameters)
        if jobs and self._cluster == "slurm":
            parameters["slurm_array_parallelism"] = jobs
        try:
            executor = self._submitit.AutoExecutor(
                folder=tasks[0].note.parent.parent / _LOGS, cluster=self._cluster
            )
            executor.update_parameters(**parameters)
        except (NameError, TypeError, ValueError) as error:
            raise UserError(f"--slurm: {error}") from None
        return executor

    def _outcome(self, job: Any, task: Task) -> str:
        try:
            return str(job.result())
        except Exception as error:  # the job was cancelled, killed, or ran out of its time
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        problem = f"its job {job.job_id} has failed ({reason}); the same command continues it"
        Note.read(task.note).failed(problem).write(task.note)
        return problem


def _parsed(setting: str) -> tuple[str, Any]:
    key, equals, value = setting.partition("=")
    if not (equals and key.strip()):
        raise UserError(f"--slurm {setting}: must read KEY=VALUE, as timeout_min=600")
    return key.strip(), value_of(value)
