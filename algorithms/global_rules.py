"""What the cloud makes of sub-centers' uploads: the ``[algorithm.cloud]`` table of two-level.

- ``hga-g``: Xie et al., *Hierarchical Global Asynchronous Federated Learning Across Multi-Center*,
  ACML 2024, Algorithm 1.
- ``fedasync-g``: FedAsync (Xie, Koyejo, Gupta, 2019): each upload is mixed in as it comes.
- ``fedbuff-g``: FedBuff (Nguyen et al., AISTATS 2022): the mean of K differences.
- ``ca2fl-g``: CA2FL (Wang et al., 2023): that mean, calibrated by the differences that sub-centers
  uploaded last.
- ``sync-avg``: the cloud waits for all and takes the plain mean of their models, Eq. (2).

HGA-FL's errata and ambiguities, and what we do:

- Algorithm 2 l.18 has Delta_j = w_end - w_start, while Algorithm 1 l.11 subtracts it, and (47)
  takes it for a gradient: as printed, the model climbs. Here Delta_j = w_start - w_end, and
  Algorithm 1 stands as printed; ``sign = "printed"`` is the other one.
- The listing takes c in l.9 before l.13 renews c_j; Section 2.3 says that c_j is new there already
  for j in H. ``cached = "old"`` is the listing; with ``"new"``, v = 0 where K = M, and M = K = 1 is
  one center with its own rounds, as Section 3.2 says that it is.
- FedBuff-G has "a decay rate for the step size in (Nguyen et al., 2022)", who let a difference
  count less by its staleness and have no other decay. Both are here: ``staleness``, and ``decay``,
  by which the step shrinks after every global step.

Where K < M, hga-g does not weigh sub-centers alike, as ca2fl-g does: for a small step sub-center j
weighs 2 p_j - 1/M, p_j its share of uploads, which is below 0 where p_j is below 1/(2 M).

A staleness is Gamma_j: how many global steps were made since the sub-center got its model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

from pydantic import Field

from algorithms.rules import mix, weighted_mean
from algorithms.staleness import PolynomialStaleness, Staleness
from simulator.section import Section
from simulator.units import NodeId

if TYPE_CHECKING:
    import torch


class HgaGSection(Section):
    """HGA-FL's Algorithm 1."""

    name: Literal["hga-g"] = "hga-g"
    rate: float = Field(0.1, gt=0)
    """eta_g: global step rate."""
    buffer: int = Field(3, ge=1)
    """K: uploads that make a global step."""
    cached: Literal["old", "new"] = "old"
    """Whether c has the differences in the buffer already: the listing, or Section 2.3."""
    sign: Literal["descent", "printed"] = "descent"
    """Of Delta_j; as printed, the model climbs."""


class FedAsyncGSection(Section):
    """FedAsync over sub-centers."""

    name: Literal["fedasync-g"] = "fedasync-g"
    alpha: float = Field(0.6, gt=0, le=1)
    """Weight of a sub-center's model, before staleness."""
    staleness: Staleness = PolynomialStaleness()
    """How the weight falls with the global steps since the sub-center got its model."""


class FedBuffGSection(Section):
    """FedBuff over sub-centers."""

    name: Literal["fedbuff-g"] = "fedbuff-g"
    rate: float = Field(0.1, gt=0)
    """eta_g: global step rate at first."""
    decay: float = Field(0.99, gt=0, le=1)
    """What eta_g is multiplied by after every global step; 1: it stays."""
    buffer: int = Field(3, ge=1)
    """K: uploads that make a global step."""
    staleness: Staleness = PolynomialStaleness()
    """How the weight of a difference falls with the global steps since its start."""


class Ca2flGSection(Section):
    """CA2FL over sub-centers."""

    name: Literal["ca2fl-g"] = "ca2fl-g"
    rate: float = Field(0.1, gt=0)
    """eta_g: global step rate."""
    buffer: int = Field(3, ge=1)
    """K: uploads that make a global step."""


class SyncAvgSection(Section):
    """All sub-centers are waited for."""

    name: Literal["sync-avg"] = "sync-avg"


GlobalSection = Annotated[
    HgaGSection | FedAsyncGSection | FedBuffGSection | Ca2flGSection | SyncAvgSection,
    Field(discriminator="name"),
]


class Upload(NamedTuple):
    """What a sub-center has made of a global model."""

    gateway: NodeId
    start: torch.Tensor
    end: torch.Tensor
    staleness: int

    @property
    def change(self) -> torch.Tensor:
        """Delta_j, along which the loss climbs."""
        return self.start - self.end  # Alg. 2 l.18, its sign mended


class GlobalRule(Protocol):
    """A dataclass; what it keeps is saved with the algorithm."""

    @property
    def is_synchronous(self) -> bool:
        """Whether an upload counts only in the global step after the model that it began with."""
        ...

    def capacity(self, sub_centers: int) -> int:
        """K: how many uploads make a global step, of so many sub-centers."""
        ...

    def step(
        self, model: torch.Tensor, epoch: int, uploads: list[Upload], sub_centers: int
    ) -> torch.Tensor:
        """The global model of epoch + 1."""
        ...


def plain_mean(vectors: list[torch.Tensor]) -> torch.Tensor:
    return weighted_mean(vectors, [1] * len(vectors))


def hga_step(
    model: torch.Tensor, changes: list[torch.Tensor], cached_mean: torch.Tensor, rate: float
) -> torch.Tensor:
    mean = plain_mean(changes)  # Alg. 1 l.6
    offset = cached_mean - mean  # Alg. 1 l.10
    return model - rate * (mean - offset)  # Alg. 1 l.11


def fedbuff_step(
    model: torch.Tensor, changes: list[torch.Tensor], weights: list[float], rate: float
) -> torch.Tensor:
    weighed = [weight * change for weight, change in zip(weights, changes, strict=True)]
    return model - rate * plain_mean(weighed)  # FedBuff


def ca2fl_step(
    model: torch.Tensor,
    changes: list[torch.Tensor],
    cached: list[torch.Tensor],
    cached_mean: torch.Tensor,
    rate: float,
) -> torch.Tensor:
    residuals = [change - old for change, old in zip(changes, cached, strict=True)]
    return model - rate * (cached_mean + plain_mean(residuals))  # CA2FL


@dataclass
class Cache:
    """c_j: what each sub-center uploaded last; 0 before."""

    changes: dict[NodeId, torch.Tensor] = field(default_factory=dict)

    def of(self, gateway: NodeId, like: torch.Tensor) -> torch.Tensor:
        change = self.changes.get(gateway)
        return like.new_zeros(len(like)) if change is None else change

    def mean(self, sub_centers: int, like: torch.Tensor) -> torch.Tensor:
        total = like.new_zeros(len(like))
        for gateway in sorted(self.changes):
            total.add_(self.changes[gateway])
        return total / sub_centers  # Alg. 1 l.9

    def renew(self, uploads: list[Upload], changes: list[torch.Tensor]) -> None:
        for upload, change in zip(uploads, changes, strict=True):
            self.changes[upload.gateway] = change  # Alg. 1 l.13


@dataclass
class HgaG:
    params: HgaGSection
    cache: Cache = field(default_factory=Cache)
    is_synchronous: ClassVar[bool] = False

    def capacity(self, sub_centers: int) -> int:
        return self.params.buffer

    def step(
        self, model: torch.Tensor, epoch: int, uploads: list[Upload], sub_centers: int
    ) -> torch.Tensor:
        sign = -1 if self.params.sign == "printed" else 1
        changes = [sign * upload.change for upload in uploads]
        if self.params.cached == "new":
            self.cache.renew(uploads, changes)
        cached_mean = self.cache.mean(sub_centers, model)
        self.cache.renew(uploads, changes)
        return hga_step(model, changes, cached_mean, self.params.rate)


@dataclass
class FedAsyncG:
    params: FedAsyncGSection
    is_synchronous: ClassVar[bool] = False

    def capacity(self, sub_centers: int) -> int:
        return 1

    def step(
        self, model: torch.Tensor, epoch: int, uploads: list[Upload], sub_centers: int
    ) -> torch.Tensor:
        for upload in uploads:
            weight = self.params.alpha * self.params.staleness.weight(upload.staleness)
            model = mix(model, upload.end, weight)  # FedAsync
        return model


@dataclass
class FedBuffG:
    params: FedBuffGSection
    is_synchronous: ClassVar[bool] = False

    def capacity(self, sub_centers: int) -> int:
        return self.params.buffer

    def step(
        self, model: torch.Tensor, epoch: int, uploads: list[Upload], sub_centers: int
    ) -> torch.Tensor:
        weights = [self.params.staleness.weight(upload.staleness) for upload in uploads]
        rate = self.params.rate * self.params.decay**epoch
        return fedbuff_step(model, [upload.change for upload in uploads], weights, rate)


@dataclass
class Ca2flG:
    params: Ca2flGSection
    cache: Cache = field(default_factory=Cache)
    is_synchronous: ClassVar[bool] = False

    def capacity(self, sub_centers: int) -> int:
        return self.params.buffer

    def step(
        self, model: torch.Tensor, epoch: int, uploads: list[Upload], sub_centers: int
    ) -> torch.Tensor:
        changes = [upload.change for upload in uploads]
        cached = [self.cache.of(upload.gateway, model) for upload in uploads]
        cached_mean = self.cache.mean(sub_centers, model)
        self.cache.renew(uploads, changes)
        return ca2fl_step(model, changes, cached, cached_mean, self.params.rate)


@dataclass
class SyncAvg:
    params: SyncAvgSection
    is_synchronous: ClassVar[bool] = True

    def capacity(self, sub_centers: int) -> int:
        return sub_centers

    def step(
        self, model: torch.Tensor, epoch: int, uploads: list[Upload], sub_centers: int
    ) -> torch.Tensor:
        return plain_mean([upload.end for upload in uploads])  # Eq. (2)


GLOBAL_RULES: dict[str, Any] = {
    "hga-g": HgaG,
    "fedasync-g": FedAsyncG,
    "fedbuff-g": FedBuffG,
    "ca2fl-g": Ca2flG,
    "sync-avg": SyncAvg,
}


def global_rule(params: GlobalSection) -> GlobalRule:
    rule: GlobalRule = GLOBAL_RULES[params.name](params)
    return rule
