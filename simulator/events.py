"""What happens, as plain data: events can be saved, logged, replayed and made by hand in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from simulator.device_state import Vector, read
from simulator.units import FlowId, NodeId

if TYPE_CHECKING:
    import torch


class Job(NamedTuple):
    """All that a device needs to train. Each local step moves along

    ``gradient + pull * (w - start) + shift - less``

    FedProx: pull = mu. FedDyn: pull = alpha, less = g_i. SCAFFOLD: shift = c, less = c_i.
    """

    node: NodeId
    start: torch.Tensor
    tag: object = None
    """Comes back untouched with the result: whose round this is, say. Plain data."""
    pull: float = 0.0
    shift: torch.Tensor | None = None
    """The same vector for many jobs."""
    less: Vector | None = None
    """The device's own, where that is kept: thousands of jobs under way have no copy each."""
    epochs: int | None = None
    """None: as the scenario's [training] says; the same for steps and learning_rate."""
    steps: int | None = None
    learning_rate: float | None = None
    count: int = 0  # type: ignore[assignment] # a tuple's method, which nobody misses
    """The node's how many-th job this is; set by ``Simulation.train``, seeds the batches."""

    @property
    def whole_shift(self) -> torch.Tensor | None:
        """``shift - less``, a vector of its own if there is any of the latter."""
        if self.less is None:
            return self.shift
        own = read(self.less)
        return -own if self.shift is None else self.shift - own


class Result(NamedTuple):
    model: torch.Tensor
    loss: float
    """Mean training loss over the local steps."""


class Update:
    """What local training gives back, computed when first asked for.

    Algorithms pass it on in messages. Nobody can tell when it was computed, so an update that is
    lost or ignored is never trained, and the thousands under way hold no model each.
    """

    __slots__ = (
        "__weakref__", "_compute", "_result", "job", "learning_rate", "num_samples", "num_steps",
    )  # fmt: skip

    def __init__(
        self,
        job: Job,
        num_samples: int,
        num_steps: int,
        compute: Callable[[Update], Result],
        learning_rate: float = 1.0,
    ) -> None:
        self.job = job
        self.num_samples = num_samples
        """The weight of the device: how many samples it has."""
        self.num_steps = num_steps
        self.learning_rate = learning_rate
        """Of these steps."""
        self._compute = compute
        self._result: Result | None = None

    @property
    def is_computed(self) -> bool:
        return self._result is not None

    @property
    def node(self) -> NodeId:
        return self.job.node

    @property
    def result(self) -> Result:
        if self._result is None:
            self._result = self._compute(self)
        return self._result

    def take(self, result: Result) -> None:
        """Have a result that was computed before."""
        self._result = result

    @property
    def model(self) -> torch.Tensor:
        return self.result.model

    @property
    def loss(self) -> float:
        return self.result.loss


class Arrived(NamedTuple):
    flow: FlowId
    src: NodeId
    dst: NodeId
    message: object


class Lost(NamedTuple):
    flow: FlowId
    src: NodeId
    dst: NodeId
    message: object
    reason: str


class Trained(NamedTuple):
    update: Update


class Alarm(NamedTuple):
    tag: object


Event = Arrived | Lost | Trained | Alarm
