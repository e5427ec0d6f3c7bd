"""What a run is made of, as the kernel sees it: its parts, its goals and its progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from simulator.events import Job, Update
from simulator.network import Network
from simulator.units import FlowId, NodeId, Time
from topologies import Topology

if TYPE_CHECKING:
    import torch

    from simulator.kernel import Algorithm
    from simulator.management import Manager

FOREVER: Time = 2**62
BYTE_KINDS = ("up", "down", "backhaul", "peer", "overhead")


class Score(NamedTuple):
    """A model on the global test set; ``accuracy`` is None for regression.

    Both are None where nothing is learned.
    """

    accuracy: float | None
    loss: float | None


class Learner(Protocol):
    model_bytes: int

    def initial_model(self) -> torch.Tensor: ...
    def num_samples(self, node: NodeId) -> int: ...
    def work(self, job: Job) -> tuple[int, int]:
        """How many local steps the job is, and how many samples they read."""
        ...

    def train(self, job: Job, due: Time = 0) -> Update:
        """``due``: when its result may be asked for first."""
        ...

    def expect(self, updates: Sequence[Update]) -> None:
        """These are going to be read, in this order: they may be trained together."""
        ...

    def evaluate(self, model: torch.Tensor) -> Score: ...
    def close(self) -> None: ...


class Compute(Protocol):
    def duration(self, node: NodeId, count: int, steps: int, samples: int) -> Time | None:
        """How long a job takes; None: the device never finishes it."""
        ...

    def estimate(self, node: NodeId, steps: int, samples: int) -> Time:
        """How long a job should take: a belief for selectors, never the clock."""
        ...


class Recorder(Protocol):
    def transfer(
        self, end: Time, status: str, flow: FlowId, src: NodeId, dst: NodeId,
        kind: str, nbytes: int, start: Time, reason: str, overhead_bytes: int,
        radio_j: float | None,
    ) -> None: ...  # fmt: skip
    def trained(self, time: Time, update: Update) -> None: ...
    def alarm(self, time: Time, tag: object) -> None: ...
    def row(self, time: Time, row: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Goals:
    """When to look at the model, and when to stop."""

    max_time: Time = FOREVER
    max_epochs: int | None = None
    target: float | None = None
    """Accuracy to reach; for regression the loss to come down to."""
    stop_at_target: bool = False
    evaluate_every_epochs: int | None = 1
    evaluate_every: Time | None = None
    evaluate_gateway_rounds: int | None = None


@dataclass
class Progress:
    """What has become of the run so far; all of it is saved and resumed."""

    now: Time = 0
    events: int = 0
    epoch: int = 0
    stop_reason: str = ""
    bytes_by_kind: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BYTE_KINDS, 0))
    lost_transfers: int = 0
    jobs_started: int = 0
    jobs_abandoned: int = 0
    accuracy: float | None = None
    loss: float | None = None
    best_accuracy: float | None = None
    best_loss: float | None = None
    time_to_target: Time | None = None
    bytes_to_target: dict[str, int] | None = None

    def keep_best(self) -> None:
        best, new = self.best_accuracy, self.accuracy
        if new is not None and (best is None or new > best):
            self.best_accuracy = new
        best, new = self.best_loss, self.loss
        if new is not None and (best is None or new < best):
            self.best_loss = new


@dataclass(frozen=True)
class World:
    """All that a run is made of, besides where its results go."""

    topology: Topology
    network: Network
    compute: Compute
    learner: Learner
    algorithm: Algorithm
    manager: Manager
    association: dict[NodeId, NodeId]
    goals: Goals
    seed: int
