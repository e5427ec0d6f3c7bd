"""Copies of one model, one for each job, that take a step of training side by side.

Forward and backward passes are written by hand; autograd would cost more than the arithmetic of
small models. What becomes of a copy is a function of that copy and its batch alone, to the bit.
That holds because of what is used, and tests/simulator/test_cohort.py watches over it:

- ``bmm``: a slice does not depend on the others; nor, since MKL is asked for it, on its alignment
  (with AVX2, results of fewer than eight columns did). Only a single slice goes another way in MKL
  if one of its sides is 1; then there are never fewer than two.
- ``exp``, ``log``: MKL's do not depend on the place of a number in its tensor. (Those of
  ``torch.sigmoid`` do, at a tensor's end; ``tanh`` does not.)
- Sums are taken along one axis of a copy at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Slot:
    """A parameter of the module."""

    shape: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    """The order of axes in which it is stored, for the sake of fast products."""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self.shape if self.axes is None else tuple(self.shape[axis] for axis in self.axes)

    def to_stored(self, array: np.ndarray) -> np.ndarray:
        return array if self.axes is None else array.transpose(self.axes)


class Models:
    """Room for flat vectors of parameters, cut up: one block [copies, ...] for each slot."""

    def __init__(
        self, slots: Sequence[Slot], copies: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.slots = slots
        self.blocks = [torch.empty(copies, *slot.stored_shape, dtype=dtype) for slot in slots]
        self._arrays = [block.numpy() for block in self.blocks]  # torch is slow with small ones

    def load(self, vectors: Sequence[Tensor]) -> None:
        """Into the first copies."""
        for copy, vector in enumerate(vectors):
            if copy > 0 and vector is vectors[copy - 1]:
                for array in self._arrays:
                    array[copy] = array[copy - 1]
            else:
                for slot, piece, array in self._cut(vector.numpy()):
                    _copy(slot.to_stored(piece), array[copy])

    def vector(self, copy: int) -> Tensor:
        size = sum(array[0].size for array in self._arrays)
        vector = np.empty(size, self._arrays[0].dtype)
        for slot, piece, array in self._cut(vector):
            _copy(array[copy], slot.to_stored(piece))
        return torch.from_numpy(vector)

    def first(self, count: int) -> list[Tensor]:
        return [block[:count] for block in self.blocks]

    def _cut(self, vector: np.ndarray) -> Iterator[tuple[Slot, np.ndarray, np.ndarray]]:
        begin = 0
        for slot, array in zip(self.slots, self._arrays, strict=True):
            end = begin + array[0].size
            yield slot, vector[begin:end].reshape(slot.shape), array
            begin = end


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """Large transposed matrices in blocks that fit the cache, a third of torch's time."""
    if source.ndim != 2 or source.flags.c_contiguous == target.flags.c_contiguous:
        target[...] = source
        return
    size = 128
    for i in range(0, source.shape[0], size):
        for j in range(0, source.shape[1], size):
            block = slice(i, i + size), slice(j, j + size)
            target[block] = source[block]


class Parameter:
    """A slot's block, and where its gradient goes: another block, or off the block itself.

    In the latter case ``keep`` is what the block is multiplied by first.
    """

    def __init__(self, value: Tensor, gradient: Tensor | None, keep: float) -> None:
        self.value = value
        self._gradient = gradient
        self._keep = keep

    def seen(self, view: Callable[[Tensor], Tensor]) -> Parameter:
        """A part or another shape of it."""
        gradient = None if self._gradient is None else view(self._gradient)
        return Parameter(view(self.value), gradient, self._keep)

    def take(self, gradient: Tensor) -> None:
        if self._gradient is None:
            self.value.mul_(self._keep).sub_(gradient)
        else:
            self._gradient.copy_(gradient)

    def take_product(self, left: Tensor, right: Tensor) -> None:
        """The gradient is the product; descent costs nothing inside the multiplication."""
        if self._gradient is None:
            self.value.baddbmm_(left, right, beta=self._keep, alpha=-1)
        else:
            torch.bmm(left, right, out=self._gradient)


class Pass(Protocol):
    """A layer at work on the batches of a stack, [copies, batch, ...]."""

    def forward(self, x: Tensor) -> Tensor: ...

    def backward(self, gradient: Tensor) -> Tensor:
        """From the outputs' gradient, which may be overwritten, to the inputs'.

        The inputs' gradient is computed before the parameters change. A first layer, whose
        inputs need none, returns what it likes.
        """
        ...


class Layer(Protocol):
    @property
    def slots(self) -> Sequence[Slot]: ...

    def at_work(self, parameters: Sequence[Parameter], batch: int) -> Pass: ...


class Loss(Protocol):
    def __call__(self, prediction: Tensor, truth: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Each sample's loss, and the gradient of the losses' weighted sum.

        [copies, batch, outputs], [copies, batch, ...] and [copies, batch] to [copies, batch]
        and [copies, batch, outputs].
        """
        ...


FEW_STEPS = 8
"""From about here on it pays to store a first layer's weights swapped (docs/performance.md)."""


@dataclass(frozen=True)
class Kernel:
    layers: Sequence[Layer]
    loss: Loss
    jobs_at_once: int
    """How many copies are fastest."""
    for_few_steps: Kernel | None = None
    """The same for jobs of fewer than ``FEW_STEPS``."""

    @property
    def slots(self) -> list[Slot]:
        return [slot for layer in self.layers for slot in layer.slots]

    def fewest_copies(self, batch: int) -> int:
        """1, or 2 where a single slice of a product could differ from one among others."""
        matrices = ((slot.shape[0], prod(slot.shape[1:])) for slot in self.slots if slot.shape[1:])
        has_vectors = batch == 1 or any(1 in sides for sides in matrices)
        return 2 if has_vectors and self.jobs_at_once > 1 else 1

    def at_work(
        self,
        values: Sequence[Tensor],
        gradients: Sequence[Tensor] | None,
        batch: int,
        keep: float = 1.0,
    ) -> Step:
        """``gradients``: where they are written to; None: subtracted from ``keep * values``."""
        goals = [None] * len(values) if gradients is None else gradients
        parameters = [Parameter(*pair, keep) for pair in zip(values, goals, strict=True)]
        passes = []
        for layer in self.layers:
            own, parameters = parameters[: len(layer.slots)], parameters[len(layer.slots) :]
            passes.append(layer.at_work(own, batch))
        return Step(passes, self.loss)


@dataclass(frozen=True)
class Step:
    passes: Sequence[Pass]
    loss: Loss

    def __call__(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """The samples' losses, [copies, batch]; gradients go where ``at_work`` said."""
        for layer in self.passes:
            x = layer.forward(x)
        losses, gradient = self.loss(x, y, weight)
        for layer in reversed(self.passes):
            gradient = layer.backward(gradient)
        return losses
