"""Training in threads of the run's process, for models that C++ knows: it needs no Python lock.

Nothing is handed over: data, starts and results are where the run has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from simulator.events import Job, Result
from simulator.task import Task
from simulator.trainer import Trainer


class ThreadEngine:
    chunks_per_worker = 2
    """One at work and one that waits: a worker need not wait for the run to look after it."""

    def __init__(self, task: Task, workers: int) -> None:
        self.workers = workers
        self._idle: SimpleQueue[Trainer] = SimpleQueue()
        for _ in range(workers):
            self._idle.put(trainer := Trainer(task))
        self.num_parameters = trainer.num_parameters
        self.jobs_at_once = trainer.jobs_at_once
        self._pool = ThreadPoolExecutor(workers, "training")

    def submit(self, jobs: Sequence[Job]) -> Future[list[Result]]:
        return self._pool.submit(self._train, jobs)

    def results(self, chunk: Future[list[Result]]) -> list[Result]:
        return chunk.result()

    def discard(self, chunk: Future[list[Result]]) -> None:
        chunk.cancel()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _train(self, jobs: Sequence[Job]) -> list[Result]:
        trainer = self._idle.get()
        try:
            return trainer.train(jobs)
        finally:
            self._idle.put(trainer)
