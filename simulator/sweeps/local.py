"""Runs in processes of this machine, which are kept for one run after the other.

Workers are forked from a server that has imported everything already: PyTorch alone takes more than
a second. Each lives in a session of its own: an interrupt at the terminal is the sweep's alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import TYPE_CHECKING

from simulator.interrupts import withheld_from_workers
from simulator.orphans import end_with_parent
from simulator.sweeps.notes import Note, give_up

if TYPE_CHECKING:
    from simulator.sweeps.work import Task

_CONTEXT = multiprocessing.get_context("forkserver")
_IMPORTED = ["simulator.cli", "simulator.sweeps.work"]


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


class LocalEngine:
    def __init__(self) -> None:
        """Its server begins to import; meanwhile the study can be read."""
        _CONTEXT.set_forkserver_preload(_IMPORTED)
        with withheld_from_workers(signal.SIGINT):
            ensure_running()

    def execute(self, tasks: Sequence[Task], jobs: int | None) -> list[str]:
        workers = [_Worker() for _ in range(min(jobs or usable_cores(), len(tasks)))]
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def carry_out(task: Task) -> str:
            worker = idle.get()
            try:
                return worker.perform(task)
            finally:
                idle.put(worker)

        pool = ThreadPoolExecutor(max(len(workers), 1))
        try:
            return list(pool.map(carry_out, tasks))
        except KeyboardInterrupt:
            give_up(tasks)
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """Its process carries out one task after the other; if it dies, a new one takes its place."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._line: Connection

    def perform(self, task: Task) -> str:
        process = self._process = self._process or self._start()
        try:
            self._line.send(task)
            return str(self._line.recv())
        except (EOFError, OSError):
            process.join()
            self._process = None
        problem = (
            f"its process has died ({_cause(process.exitcode)}); the same command continues it"
        )
        Note.read(task.note).failed(problem).write(task.note)
        return problem

    def _start(self) -> BaseProcess:
        self._line, its_end = multiprocessing.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(its_end, dict(os.environ)))
        process.start()
        its_end.close()
        return process

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _cause(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "killed; out of memory?"
    return signal.Signals(-code).name if code and code < 0 else f"exit code {code}"


def _serve(line: Connection, environment: dict[str, str]) -> None:
    from simulator.sweeps.work import perform

    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    end_with_parent()
    while True:
        try:
            task = line.recv()
        except EOFError:
            return
        line.send(perform(task))
