"""Sketches: short vectors whose dot products stand for those of gradients (Async-HFL, §5.4).

Learning utility (9) is made of dot products of gradients, so every sketch here is linear, and none
subtracts a mean: centred sketches would have the dot products of centred gradients. Nobody needs
the mean, and it is not among what is sent.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, Self

import numpy as np
import torch
from pydantic import Field

from simulator.rng import Stream, generator
from simulator.section import LONGEST_S, SHORTEST_S, Section

_FLOAT_BYTES = 4
_SEED_BYTES = 8
_COLUMNS = 8192
"""Gradients are read in slices of so many values: no copy of all of them is ever made."""


class Sketch(Protocol):
    """State is plain data in dataclass fields, saved with the algorithm that holds it."""

    def sketch_bytes(self, model_bytes: int) -> int:
        """What a device sends with each update, if a gradient has as many bytes as a model."""
        ...

    def parameter_bytes(self, model_bytes: int) -> int:
        """What must be sent once to whoever is to make sketches."""
        ...

    def sketch(self, gradient: torch.Tensor) -> np.ndarray: ...


class SketchBase(Section):
    kind: str
    where: Literal["device", "gateway"] = "device"
    """Who computes sketches: devices, as in the paper, or gateways, from the models they get."""
    warm_up: Literal["none", "network", "free"] = "none"
    """Every device reports its gradient before the run: over the network, or at no cost at all."""
    warm_up_share: float = Field(0.5, gt=0, le=1)
    """A gateway passes gradients on when so many of its devices have reported; the paper: all."""
    warm_up_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A device that has not reported after this time is given up; unset: as the algorithm does."""

    @property
    def has_parameters(self) -> bool:
        """Whoever computes sketches must be told how."""
        return False


class PcaSection(SketchBase):
    kind: Literal["pca"] = "pca"
    warm_up: Literal["network", "free"] = "network"
    """Gradients and parameters travel; or cost nothing, as in the authors' program."""

    @property
    def has_parameters(self) -> bool:
        return True

    components: int = Field(30, ge=1)
    """Length of a sketch; at most as many as the warm-up has linearly independent gradients, which
    summary.json tells."""
    centred: bool = False
    """Fit to the gradients' deviations from their mean, as PCA proper does. Without, the dot
    products of the warm-up gradients are approximated as well as so few components can."""


@dataclass(frozen=True)
class PcaSketch:
    """Coordinates along the principal components of the warm-up gradients.

    Uncentred components are the right singular vectors of the matrix of gradients: no other
    sketches of that length come nearer to its Gram matrix. Centred components differ only in the
    span; the sketch is the same projection, with the mean's added back.
    """

    components: torch.Tensor

    @classmethod
    def fit(
        cls, params: PcaSection, *, length: int, seed: int, gradients: Sequence[torch.Tensor]
    ) -> Self:
        """From the N x N Gram matrix: its eigenvectors times the gradients, scaled to length 1."""
        count = len(gradients)
        if not count:  # all were lost in the warm-up
            return cls(torch.empty(0, length))
        gram = np.zeros((count, count))
        for _, part in _slices(gradients, length):
            gram += (part @ part.T).numpy()
        if params.centred:
            from_mean = np.eye(count) - 1 / count
            gram = from_mean @ gram @ from_mean
        values, vectors = np.linalg.eigh(gram)
        rank = int((values > values[-1:] * count * np.finfo(np.float32).eps).sum())
        best = np.arange(count)[::-1][: min(params.components, rank)]
        weights = torch.from_numpy((vectors[:, best] / np.sqrt(values[best])).T).float()
        components = torch.empty(len(best), length)
        for columns, part in _slices(gradients, length):
            torch.matmul(weights, part, out=components[:, columns])
        return cls(_same_signs(components))

    def sketch_bytes(self, model_bytes: int) -> int:
        return _FLOAT_BYTES * len(self.components)

    def parameter_bytes(self, model_bytes: int) -> int:
        return len(self.components) * model_bytes

    def sketch(self, gradient: torch.Tensor) -> np.ndarray:
        return (self.components @ gradient).numpy()


def _slices(gradients: Sequence[torch.Tensor], length: int) -> Iterator[tuple[slice, torch.Tensor]]:
    for start in range(0, length, _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        yield columns, torch.stack([g[columns] for g in gradients])


def _same_signs(components: torch.Tensor) -> torch.Tensor:
    """The largest value of each is positive: an eigenvector has no sign of its own."""
    if len(components):
        at = components.abs().argmax(dim=1, keepdim=True)
        components *= components.gather(1, at).sign()
    return components


class RandomProjectionSection(SketchBase):
    kind: Literal["random-projection"]
    components: int = Field(30, ge=1, le=10_000)
    """Length of a sketch."""


@dataclass(frozen=True)
class RandomProjectionSketch:
    """Products with independent normal vectors; dot products are right in the mean.

    All that anybody needs is the seed: the matrix is made from it, once in a process.
    """

    components: int
    length: int
    seed: int

    @classmethod
    def fit(
        cls,
        params: RandomProjectionSection,
        *,
        length: int,
        seed: int,
        gradients: Sequence[torch.Tensor] = (),
    ) -> Self:
        return cls(params.components, length, seed)

    def sketch_bytes(self, model_bytes: int) -> int:
        return _FLOAT_BYTES * self.components

    def parameter_bytes(self, model_bytes: int) -> int:
        return _SEED_BYTES

    def sketch(self, gradient: torch.Tensor) -> np.ndarray:
        return (_normal_matrix(self.components, self.length, self.seed) @ gradient).numpy()


@functools.lru_cache(maxsize=1)
def _normal_matrix(components: int, length: int, seed: int) -> torch.Tensor:
    rng = generator(seed, Stream.SKETCH)
    matrix = rng.standard_normal((components, length), np.float32)
    return torch.from_numpy(matrix).div_(components**0.5)


class FullSection(SketchBase):
    kind: Literal["full"]


@dataclass(frozen=True)
class FullSketch:
    """The gradient itself: what the others are compared with."""

    length: int

    @classmethod
    def fit(
        cls,
        params: FullSection,
        *,
        length: int,
        seed: int,
        gradients: Sequence[torch.Tensor] = (),
    ) -> Self:
        return cls(length)

    def sketch_bytes(self, model_bytes: int) -> int:
        return model_bytes

    def parameter_bytes(self, model_bytes: int) -> int:
        return 0

    def sketch(self, gradient: torch.Tensor) -> np.ndarray:
        return gradient.numpy()


SKETCHES: dict[str, Any] = {
    "pca": PcaSketch,
    "random-projection": RandomProjectionSketch,
    "full": FullSketch,
}

SketchSection = Annotated[
    PcaSection | RandomProjectionSection | FullSection, Field(discriminator="kind")
]
