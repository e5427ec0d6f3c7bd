"""Local training and evaluation: jobs in, updates out, computed as late as they may be.

``train`` only queues a job. When the first result is asked for, jobs that are due soon are trained
along with it, in one call; a job whose update nobody has any more (its device was lost, its round
closed) never is. What a job gives does not depend on its company (``simulator.native``): an update
is a function of its job, the scenario and the seed alone, and so logs are the same with every
engine, any number of workers, and after a resume.
"""

from __future__ import annotations

import heapq
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch

from simulator.engines import Engine
from simulator.events import Job, Result, Update
from simulator.models import FlatModule, initial_model, model_bytes
from simulator.parts import Score
from simulator.rng import Stream, generator
from simulator.task import Task, steps_of
from simulator.training import rate_of
from simulator.units import NodeId, Time

_EVALUATION_BATCH = 1024
_AHEAD_BYTES = 2**28
"""Of results that nobody has asked for yet."""


@dataclass(eq=False)
class _Chunk:
    """Jobs that were handed over together."""

    members: list[weakref.ref[Update]] = field(default_factory=list)
    handle: Any = None


class DeferredLearner:
    def __init__(self, task: Task, engine: Engine) -> None:
        self.task = task
        self._engine = engine
        self._net = task.build()
        self.model_bytes = model_bytes(task.model, self._net.module)
        most = _AHEAD_BYTES // (4 * engine.num_parameters)
        self._most_ahead = max(most, engine.jobs_at_once * max(1, engine.workers))
        self._most_chunks = engine.chunks_per_worker * engine.workers
        self._queue: list[tuple[Time, int, weakref.ref[Update]]] = []
        """What may be trained, the next due first; some is trained or gone already."""
        self._count = 0
        self._expected: deque[weakref.ref[Update]] = deque()
        self._chunks: weakref.WeakKeyDictionary[Update, _Chunk] = weakref.WeakKeyDictionary()
        """By update that is handed over and not yet back."""
        self._under_way: list[_Chunk] = []
        self._computed: weakref.WeakSet[Update] = weakref.WeakSet()

    def initial_model(self) -> torch.Tensor:
        shape = tuple(self.task.x_train.shape[1:])
        rng = generator(self.task.seed, Stream.MODEL)
        return initial_model(self.task.model, shape, self.task.outputs, rng)

    def num_samples(self, node: NodeId) -> int:
        return len(self.task.parts[node])

    def work(self, job: Job) -> tuple[int, int]:
        return steps_of(self.task, job)

    def train(self, job: Job, due: Time = 0) -> Update:
        steps, _ = steps_of(self.task, job)
        size, rate = len(self.task.parts[job.node]), rate_of(job, self.task.training)
        update = Update(job, size, steps, self._compute, rate)
        heapq.heappush(self._queue, (due, self._count, weakref.ref(update)))
        self._count += 1
        while not self._is_waiting(self._queue[0][2]()):
            heapq.heappop(self._queue)
        if (
            len(self._queue) >= self._engine.jobs_at_once
            and len(self._under_way) < self._most_chunks
        ):
            self._keep_busy()
        return update

    def expect(self, updates: Sequence[Update]) -> None:
        """These are going to be read, in this order: they may be trained together."""
        self._expected = deque(map(weakref.ref, updates))

    def evaluate(self, model: torch.Tensor) -> Score:
        return evaluate(self.task, self._net, model)

    def close(self) -> None:
        self._engine.close()

    def _compute(self, update: Update) -> Result:
        if update not in self._chunks:
            self._hand_over(update)
        self._keep_busy()
        self._collect(self._chunks[update])
        return update.result

    def _keep_busy(self) -> None:
        for chunk in [c for c in self._under_way if not any(ref() for ref in c.members)]:
            self._under_way.remove(chunk)
            self._engine.discard(chunk.handle)
        while len(self._under_way) < self._most_chunks and (first := self._next(self._room())):
            self._hand_over(first)

    def _hand_over(self, first: Update) -> None:
        """With as many others as are fastest; fewer towards the end, so that no worker is idle."""
        waiting = max(len(self._queue), len(self._expected)) + 1
        share = -(-waiting // max(1, 2 * self._engine.workers))
        chunk, room = _Chunk(), self._room()
        updates: list[Update] = []
        update: Update | None = first
        while update is not None:
            updates.append(update)
            self._chunks[update] = chunk
            more = len(updates) < min(self._engine.jobs_at_once, share)
            update = self._next(room - len(updates)) if more else None
        chunk.members = list(map(weakref.ref, updates))
        jobs = [update.job for update in updates]
        jobs = [job._replace(shift=job.whole_shift, less=None) for job in jobs]
        chunk.handle = self._engine.submit(jobs)
        self._under_way.append(chunk)

    def _room(self) -> int:
        """For results that nobody has asked for yet."""
        ahead = len(self._computed) + sum(len(chunk.members) for chunk in self._under_way)
        return self._most_ahead - ahead

    def _next(self, room: int) -> Update | None:
        """What is expected, then what is due next, as long as there is room for its result."""
        while self._expected:
            update = self._expected.popleft()()
            if self._is_waiting(update):
                return update
        while self._queue and room > 0:
            update = heapq.heappop(self._queue)[2]()
            if self._is_waiting(update):
                return update
        return None

    def _is_waiting(self, update: Update | None) -> TypeGuard[Update]:
        return update is not None and not update.is_computed and update not in self._chunks

    def _collect(self, chunk: _Chunk) -> None:
        self._under_way.remove(chunk)
        for ref, result in zip(chunk.members, self._engine.results(chunk.handle), strict=True):
            update = ref()
            if update is not None:
                update.take(result)
                self._computed.add(update)
                del self._chunks[update]


@torch.inference_mode()
def evaluate(task: Task, net: FlatModule, model: torch.Tensor) -> Score:
    net.load(model)
    total, right, count = 0.0, 0, len(task.x_test)
    for first in range(0, count, _EVALUATION_BATCH):
        x = task.x_test[first : first + _EVALUATION_BATCH]
        y = task.y_test[first : first + _EVALUATION_BATCH]
        prediction = net(x)
        total += float(task.loss(prediction, y)) * len(x)
        if not task.regression:
            right += int((prediction.argmax(1) == y).sum())
    return Score(None if task.regression else right / count, total / count)
