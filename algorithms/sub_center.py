"""What sub-centers do in each of their rounds: the ``[algorithm.gateway]`` table of two-level.

- ``s-avg``: FedAvg, Algorithm 3 of HGA-FL's supplement; ``s-prox``: FedProx (Li et al., MLSys
  2020). Means by samples.
- ``s-dyn``: Xie et al., *Hierarchical Global Asynchronous Federated Learning Across Multi-Center*,
  ACML 2024, Algorithm 2: FedDyn (Acar et al., ICLR 2021) inside a sub-center. Plain means.
- ``s-scaffold-exp``: SCAFFOLD (Karimireddy et al., ICML 2020) with the server step of FedExP
  (Jhunjhunwala et al., ICLR 2023). Plain means. Control variates travel: messages between
  sub-center and device are two models long. Of SCAFFOLD's two kinds of c_i this is the cheaper: the
  mean gradient of the local steps, read off how far they went. With momentum it cannot be: such a
  scenario is refused. Where steps are clipped, it is what clipping has left.
  FedExP's public program moreover multiplies epsilon by the number of participants, lets it and the
  local steps shrink from round to round, clips gradients at 10, and tests the mean of the last two
  models; none of that is done here (``training.clip_norm = 10`` clips).

What a device keeps moves when its answer counts in a round. If the answer was lost or late, it is
what it was before, of which the device learns with its next model: one bit, not counted.

What HGA-FL leaves open, and what we do:

- N_j in (5) is called the number of participants. Of a sub-center's devices all take part in the
  paper; where some do not, h_j stays the mean of g_i over all of them, as in FedDyn, or else it
  would no longer be the gradient that it stands for. So h_j is not stored: it is that mean.
- g_i and h_j are kept when a new global model comes; ``on_new_model = "reset"`` sets them to 0. The
  same for SCAFFOLD's c_i and c.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from algorithms.rounds import GatewayRule, SampleMean
from simulator.device_state import DeviceState
from simulator.events import Job, Update
from simulator.section import Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch

Keeping = Literal["keep", "reset"]


class SAvgSection(Section):
    """FedAvg in a sub-center."""

    name: Literal["s-avg"] = "s-avg"


class SProxSection(Section):
    """FedProx in a sub-center."""

    name: Literal["s-prox"] = "s-prox"
    mu: float = Field(2.0, ge=0)
    """Pull of local training towards the sub-center's model."""


class SDynSection(Section):
    """FedDyn in a sub-center, HGA-FL's Algorithm 2."""

    name: Literal["s-dyn"] = "s-dyn"
    alpha: float = Field(2.0, gt=0)
    """Pull of local training towards the sub-center's model."""
    on_new_model: Keeping = "keep"
    """What becomes of g_i and h_j when a global model comes."""


class SScaffoldExpSection(Section):
    """SCAFFOLD with FedExP's server step in a sub-center."""

    name: Literal["s-scaffold-exp"] = "s-scaffold-exp"
    epsilon: float = Field(0.001, ge=0)
    """Keeps FedExP's step small where the devices' changes cancel out; its paper tunes it."""
    on_new_model: Keeping = "keep"
    """What becomes of c_i and c when a global model comes."""


SubCenterSection = Annotated[
    SAvgSection | SProxSection | SDynSection | SScaffoldExpSection, Field(discriminator="name")
]


def feddyn_gradient(update: Update, alpha: float) -> torch.Tensor:
    """g_i after a round; before it, it was what the job took away."""
    step = -alpha * (update.model - update.job.start)
    shift = update.job.whole_shift
    return step if shift is None else step - shift  # Eq. (4)


def scaffold_control(update: Update) -> torch.Tensor:
    """c_i after a round, from the job's c - c_i: the mean gradient of its local steps."""
    moved = (update.job.start - update.model) / (update.num_steps * update.learning_rate)
    shift = update.job.whole_shift
    return moved if shift is None else moved - shift  # SCAFFOLD


def fedexp_step(mean_square: float, square_of_mean: float, epsilon: float) -> float:
    """FedExP's server step from the devices' changes; never below 1."""
    half = 2 * (square_of_mean + epsilon)
    return max(1.0, mean_square / half) if half else 1.0  # FedExP


def mean_state(states: DeviceState, devices: Iterable[NodeId], like: torch.Tensor) -> torch.Tensor:
    """Over all devices; those without a state count as 0."""
    devices = list(devices)
    mean = like.new_zeros(len(like))
    for device in devices:
        if device in states:
            mean.add_(states[device], alpha=1 / len(devices))
    return mean


def forget(states: DeviceState, devices: list[NodeId], keeping: Keeping) -> None:
    for device in devices if keeping == "reset" else ():
        states.pop(device, None)


@dataclass
class SDyn:
    params: SDynSection
    gradients: DeviceState = field(default_factory=DeviceState)
    """g_i."""
    vectors: ClassVar[int] = 1

    def begin(self, devices: list[NodeId]) -> None:
        forget(self.gradients, devices, self.params.on_new_model)

    def control(self, model: torch.Tensor, devices: list[NodeId]) -> torch.Tensor | None:
        return None

    def job(
        self, device: NodeId, model: torch.Tensor, control: torch.Tensor | None, tag: object
    ) -> Job:
        own = self.gradients.kept(device)
        return Job(device, model, tag, pull=self.params.alpha, less=own)  # Eq. (3)

    def merge(
        self, model: torch.Tensor, answers: deque[Update], devices: list[NodeId]
    ) -> torch.Tensor:
        alpha, count = self.params.alpha, len(answers)
        mean = model.new_zeros(len(model))
        while answers:
            update = answers.popleft()
            mean.add_(update.model, alpha=1 / count)
            self.gradients[update.node] = feddyn_gradient(update, alpha)
        h = mean_state(self.gradients, devices, model)  # Eq. (5), summed over rounds
        return mean - h / alpha  # Eq. (6)


@dataclass
class SScaffoldExp:
    params: SScaffoldExpSection
    controls: DeviceState = field(default_factory=DeviceState)
    """c_i."""
    vectors: ClassVar[int] = 2

    def begin(self, devices: list[NodeId]) -> None:
        forget(self.controls, devices, self.params.on_new_model)

    def control(self, model: torch.Tensor, devices: list[NodeId]) -> torch.Tensor | None:
        return mean_state(self.controls, devices, model)  # SCAFFOLD

    def job(
        self, device: NodeId, model: torch.Tensor, control: torch.Tensor | None, tag: object
    ) -> Job:
        own = self.controls.kept(device)
        return Job(device, model, tag, shift=control, less=own)  # SCAFFOLD

    def merge(
        self, model: torch.Tensor, answers: deque[Update], devices: list[NodeId]
    ) -> torch.Tensor:
        count, mean_square = len(answers), 0.0
        mean = model.new_zeros(len(model))
        while answers:
            update = answers.popleft()
            change = update.model - model
            mean.add_(change, alpha=1 / count)
            mean_square += float(change.dot(change)) / count
            self.controls[update.node] = scaffold_control(update)
        step = fedexp_step(mean_square, float(mean.dot(mean)), self.params.epsilon)
        return model + step * mean  # SCAFFOLD with FedExP


def _s_avg(params: SAvgSection) -> SampleMean:
    return SampleMean()  # Alg. 3


def _s_prox(params: SProxSection) -> SampleMean:
    return SampleMean(params.mu)


SUB_CENTER_RULES: dict[str, Any] = {
    "s-avg": _s_avg,
    "s-prox": _s_prox,
    "s-dyn": SDyn,
    "s-scaffold-exp": SScaffoldExp,
}


def sub_center_rule(params: SubCenterSection) -> GatewayRule:
    rule: GatewayRule = SUB_CENTER_RULES[params.name](params)
    return rule
