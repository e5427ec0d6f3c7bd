"""Training in the process of the run."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.events import Job, Result
from simulator.task import Task
from simulator.trainer import Trainer


class SerialEngine:
    workers = chunks_per_worker = 0

    def __init__(self, task: Task) -> None:
        self._trainer = Trainer(task)
        self.num_parameters = self._trainer.num_parameters
        self.jobs_at_once = self._trainer.jobs_at_once

    def submit(self, jobs: Sequence[Job]) -> Sequence[Job]:
        return jobs

    def results(self, chunk: Sequence[Job]) -> list[Result]:
        return self._trainer.train(chunk)

    def discard(self, chunk: Sequence[Job]) -> None:
        pass

    def close(self) -> None:
        pass
