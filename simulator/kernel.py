"""The event loop: a heap of plain-data events merged with the network's completions.

Order at one instant: what the network delivers, then ends of training, then alarms; among
equals the order in which they were asked for. A network that computes too, as ns-3, ends training
itself, and what ends at one instant there comes in its order. An algorithm sees the simulation
only through the methods below and never learns how long anything is going to take.
"""

from __future__ import annotations

import contextlib
import heapq
import time as wall_clock
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from simulator.association import Association
from simulator.events import Alarm, Arrived, Event, Job, Lost, Trained, Update
from simulator.network import ComputingNetwork
from simulator.parts import Progress, Recorder, World
from simulator.rng import Stream, generator
from simulator.units import FlowId, NodeId, Time, to_ns
from topologies import Tier

if TYPE_CHECKING:
    import torch


class Algorithm(Protocol):
    """A dataclass that keeps ALL of its state in fields, so that it can be saved."""

    def start(self, sim: Simulation) -> None: ...

    def handle(self, sim: Simulation, event: Event) -> None: ...


_Flow = tuple[NodeId, NodeId, object, str, int, int, Time]
"""src, dst, message, kind, bytes, of them overhead, start: plain, for there are very many."""


class _Stopped(Exception):
    """Unwinds the handler in which the run came to its end."""


_JOB_FIRST, _ALARM_NEXT = 0, 1
_HeapEntry = tuple[Time, int, int, Alarm | None]
"""When, priority, number, content; a job's is in ``_training`` under its number."""


class Simulation:
    """One run. ``run()`` drives it; everything public above it is for algorithms."""

    def __init__(self, world: World, recorder: Recorder) -> None:
        self.topology = world.topology
        self.network = world.network
        self._computer = self.network if isinstance(self.network, ComputingNetwork) else None
        self.compute = world.compute
        self.learner = world.learner
        self.recorder = recorder
        self.algorithm = world.algorithm
        self.manager = world.manager
        """Who trains next, and with which gateway."""
        self.association = Association(world.association)
        """Which gateway each device belongs to now; algorithms may change it."""
        self.goals = world.goals
        self.seed = world.seed
        self.progress = Progress()
        self.model: torch.Tensor | None = None
        """The newest global model that the algorithm has reported."""
        self._scored: torch.Tensor | None = None
        self._next_evaluation = world.goals.evaluate_every
        self._heap: list[_HeapEntry] = []
        self._counter = 0
        self._flows: dict[FlowId, _Flow] = {}
        self._training: dict[int, Update] = {}
        """What is being computed, by the number of the event, or of the flow, that ends it."""
        self._running: dict[NodeId, int] = {}
        self._job_counts: dict[NodeId, int] = {}
        self._rng_counts: dict[tuple[int, NodeId], int] = {}
        self.interrupted = False
        """Set from a signal handler; the run then pauses between two events."""
        self._tier = [_TIER_LEVEL[node.tier] for node in self.topology.nodes]

    # What algorithms may ask for

    @property
    def now(self) -> Time:
        return self.progress.now

    def send(
        self,
        src: NodeId,
        dst: NodeId,
        message: object,
        nbytes: int | None = None,
        overhead: bool = False,
        extra_bytes: int = 0,
    ) -> FlowId:
        """Start a transfer of a model (or of ``nbytes``); it ends as Arrived or Lost.

        ``overhead`` marks what is no model: sketches, losses, decisions; ``extra_bytes`` of
        such travel along with a model.
        """
        if nbytes is None:
            nbytes = self.learner.model_bytes
        tier, progress = self._tier, self.progress
        kind = "overhead" if overhead else _KINDS[tier[src]][tier[dst]]
        now = progress.now
        total = nbytes + extra_bytes
        flow = self.network.send(now, src, dst, total)
        of_it = total if overhead else extra_bytes
        self._flows[flow] = (src, dst, message, kind, total, of_it, now)
        progress.bytes_by_kind[kind] += nbytes
        progress.bytes_by_kind["overhead"] += extra_bytes
        return flow

    def is_transferring(self, node: NodeId) -> bool:
        """Whether anything is on its way to or from the node."""
        return any(node in (src, dst) for src, dst, *_ in self._flows.values())

    def train(self, job: Job) -> None:
        """Start local training; it ends as Trained. A node's earlier unfinished job is dropped."""
        node = job.node
        self._abandon_job_of(node)
        count = self._count_job(node)
        self.progress.jobs_started += 1
        steps, samples = self.learner.work(job)
        duration = self.compute.duration(node, count, steps, samples)
        if duration is None:
            return
        due = self.now + duration
        if self._computer is None:
            number = self._push(due, _JOB_FIRST, None)
        else:
            number = self._computer.compute(self.now, node, duration)
        self._training[number] = self.learner.train(job._replace(count=count), due)
        self._running[node] = number

    def train_for_nothing(self, job: Job) -> Update:
        """Local training that takes no time, but counts among the node's jobs."""
        return self.learner.train(job._replace(count=self._count_job(job.node)))

    def expect(self, updates: Sequence[Update]) -> None:
        """Tell that these updates are going to be read now: training them together is faster."""
        self.learner.expect(updates)

    def after(self, delay_s: float, tag: object) -> None:
        """Ask for an Alarm carrying ``tag``, which is plain data."""
        if delay_s < 0:
            raise ValueError(f"an alarm cannot ring in the past: {delay_s} s from now")
        self._push(self.now + to_ns(delay_s), _ALARM_NEXT, Alarm(tag))

    def record(self, **row: Any) -> None:
        """Add a row to metrics.parquet."""
        self.recorder.row(self.now, row)

    def report(self, epoch: int, model: torch.Tensor) -> None:
        """Tell that cloud epoch ``epoch`` is done with this global model.

        Does not return when that was the last thing the run was for.
        """
        self.progress.epoch, self.model = epoch, model
        every = self.goals.evaluate_every_epochs
        last = self.goals.max_epochs is not None and epoch >= self.goals.max_epochs
        if last or (every and epoch % every == 0):
            self._evaluate(self.now)
        if last:
            self.stop("epochs")
        if self.progress.stop_reason:
            raise _Stopped

    def gateway_scores(self, number: int, model: torch.Tensor) -> dict[str, float | None]:
        """Of a gateway's model after its round of that number, if the scenario asks for them."""
        every = self.goals.evaluate_gateway_rounds
        return self.learner.evaluate(model)._asdict() if every and number % every == 0 else {}

    def rng(self, stream: Stream, node: NodeId = 0) -> np.random.Generator:
        """A fresh generator at every call, the same in every run with this seed."""
        key = (int(stream), node)
        count = self._rng_counts.get(key, 0)
        self._rng_counts[key] = count + 1
        return generator(self.seed, stream, node, count)

    def estimate(self, src: NodeId, dst: NodeId) -> Time:
        """The network's belief about a lone model transfer; for selectors and associators."""
        return self.network.estimate(src, dst, self.learner.model_bytes)

    def estimate_round(self, gateway: NodeId, device: NodeId) -> Time:
        """A belief about a model's way to the device, an ordinary job there, and the way back."""
        assert self.model is not None
        steps, samples = self.learner.work(Job(node=device, start=self.model))
        computing = self.compute.estimate(device, steps, samples)
        return self.estimate(gateway, device) + computing + self.estimate(device, gateway)

    def devices_of(self, gateway: NodeId) -> list[NodeId]:
        return self.association.members(gateway)

    # Running

    def start(self) -> None:
        self.model = self.learner.initial_model()
        self._evaluate(0)
        self.algorithm.start(self)

    def stop(self, reason: str) -> None:
        self.progress.stop_reason = self.progress.stop_reason or reason

    def run(self, tick: Callable[[], float]) -> None:
        """Handle events until something stops the run.

        ``tick`` is called between events, not before the wall-clock time it gave last.
        """
        with contextlib.suppress(_Stopped):
            self._run(tick)

    def _run(self, tick: Callable[[], float]) -> None:
        progress, heap, flows = self.progress, self._heap, self._flows
        advance, handle = self.network.advance, self.algorithm.handle
        monotonic = wall_clock.monotonic
        computing = {} if self._computer is None else self._training
        horizon, next_tick = self._horizon(), monotonic()
        event: Event | None
        while not progress.stop_reason and not self.interrupted:
            limit = heap[0][0] if heap and heap[0][0] <= horizon else horizon
            if (flows or computing) and (completion := advance(limit)) is not None:
                event = self._end_flow(*completion)
            elif heap and heap[0][0] == limit:
                event = self._end_own(heapq.heappop(heap))
            else:
                self._reach(limit)
                horizon = self._horizon()
                continue
            if event is not None:
                progress.events += 1
                handle(self, event)
            if monotonic() >= next_tick:
                next_tick = tick()

    def finish(self) -> None:
        """Score the last model, and write down what was still under way."""
        if self._scored is not self.model:
            self._evaluate(self.now)
        for number, (src, dst, _, kind, nbytes, extra, start) in sorted(self._flows.items()):
            self.recorder.transfer(
                self.now, "in-flight", number, src, dst, kind, nbytes, start, "", extra, None
            )

    # Saving

    def save(self) -> dict[str, object]:
        return {
            "progress": self.progress, "association": dict(self.association), "model": self.model,
            "scored": self._scored, "next_evaluation": self._next_evaluation,
            "heap": self._heap, "counter": self._counter, "flows": self._flows,
            "training": self._training, "running": self._running, "job_counts": self._job_counts,
            "rng_counts": self._rng_counts, "network": self.network.save(),
            "algorithm": self.algorithm, "manager": self.manager,
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.progress, self.association = state["progress"], Association(state["association"])
        self.model, self._scored = state["model"], state["scored"]
        self._next_evaluation = state["next_evaluation"]
        self._heap, self._counter, self._flows = state["heap"], state["counter"], state["flows"]
        self._training, self._running = state["training"], state["running"]
        self._job_counts, self._rng_counts = state["job_counts"], state["rng_counts"]
        self.network.load(state["network"])
        self.algorithm, self.manager = state["algorithm"], state["manager"]

    # The rest is the kernel's own

    def _push(self, time: Time, priority: int, content: Alarm | None) -> int:
        number = self._counter
        self._counter = number + 1
        heapq.heappush(self._heap, (time, priority, number, content))
        return number

    def _count_job(self, node: NodeId) -> int:
        count = self._job_counts.get(node, 0)
        self._job_counts[node] = count + 1
        return count

    def _abandon_job_of(self, node: NodeId) -> None:
        number = self._running.pop(node, None)
        if number is not None:
            del self._training[number]
            self.progress.jobs_abandoned += 1
            if self._computer is not None:
                self._computer.cancel(number)

    def _end_flow(
        self, number: FlowId, time: Time, lost: str, radio_j: float | None
    ) -> Event | None:
        self.progress.now = time
        if number not in self._flows:
            return self._end_job(number)
        src, dst, message, kind, nbytes, extra, start = self._flows.pop(number)
        if not lost:
            self.recorder.transfer(
                time, "arrived", number, src, dst, kind, nbytes, start, "", extra, radio_j
            )
            return Arrived(number, src, dst, message)
        self.progress.lost_transfers += 1
        self.recorder.transfer(
            time, "lost", number, src, dst, kind, nbytes, start, lost, extra, radio_j
        )
        return Lost(number, src, dst, message, lost)

    def _end_own(self, entry: _HeapEntry) -> Event | None:
        time, _, number, content = entry
        self.progress.now = time
        if isinstance(content, Alarm):
            self.recorder.alarm(time, content.tag)
            return content
        return self._end_job(number)

    def _end_job(self, number: int) -> Event | None:
        update = self._training.pop(number, None)
        if update is None:
            return None  # abandoned
        del self._running[update.node]
        self.recorder.trained(self.now, update)
        return Trained(update)

    def _horizon(self) -> Time:
        """Events up to here come before anything that the kernel does by the clock."""
        next_evaluation, max_time = self._next_evaluation, self.goals.max_time
        if next_evaluation is None or next_evaluation > max_time:
            return max_time
        return next_evaluation

    def _reach(self, time: Time) -> None:
        if not self._heap and not self._flows and not self._training:
            self.stop("stalled")
            return
        self.progress.now = time
        if time == self._next_evaluation and self.goals.evaluate_every is not None:
            self._next_evaluation = time + self.goals.evaluate_every
            self._evaluate(time)
        if time == self.goals.max_time:
            self.stop("time")

    def _evaluate(self, at: Time) -> None:
        progress = self.progress
        if self.model is not self._scored:
            assert self.model is not None
            progress.accuracy, progress.loss = self.learner.evaluate(self.model)
            self._scored = self.model
        if progress.loss is not None and not np.isfinite(progress.loss):
            self.stop("diverged")
        progress.keep_best()
        sent = {f"bytes_{kind}": n for kind, n in progress.bytes_by_kind.items()}
        row = {"epoch": progress.epoch, "tier": "cloud", "accuracy": progress.accuracy}
        self.recorder.row(at, row | {"loss": progress.loss} | sent)
        self._check_target(at)

    def _check_target(self, at: Time) -> None:
        progress, target = self.progress, self.goals.target
        if target is None or progress.time_to_target is not None:
            return
        accuracy, loss = progress.accuracy, progress.loss
        assert loss is not None
        if accuracy >= target if accuracy is not None else loss <= target:
            progress.time_to_target = at
            progress.bytes_to_target = dict(progress.bytes_by_kind)
            if self.goals.stop_at_target:
                self.stop("target")


_TIER_LEVEL = {Tier.CLOUD: 0, Tier.GATEWAY: 1, Tier.DEVICE: 2}


_KINDS = (("backhaul", "backhaul", "down"), ("backhaul", "backhaul", "down"), ("up", "up", "peer"))
"""By the tiers of source and destination."""
