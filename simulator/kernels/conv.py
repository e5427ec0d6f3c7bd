"""Convolution, 2x2 max-pool and ReLU, as products of matrices.

Between these layers images are stored as [copies, y, batch, x, channel]. So only shifts along x
have to be unfolded: shifts along y are parts of the unfolded matrix, and one product for each
row of the kernel adds up the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simulator.kernels.dense import relu_backward
from simulator.kernels.stack import Parameter, Pass, Slot

Size = tuple[int, int, int]
"""Channels, height and width of an image."""


@dataclass(frozen=True)
class ConvPool:
    image: Size
    outputs: int
    kernel: int
    padding: int
    is_first: bool

    @property
    def padded(self) -> Size:
        channels, height, width = self.image
        return channels, height + 2 * self.padding, width + 2 * self.padding

    @property
    def places(self) -> tuple[int, int]:
        """In how many rows and columns the kernel fits."""
        _, height, width = self.padded
        return height - self.kernel + 1, width - self.kernel + 1

    @property
    def pooled(self) -> Size:
        height, width = self.places
        return self.outputs, height // 2, width // 2

    @property
    def slots(self) -> Sequence[Slot]:
        shape = (self.outputs, self.image[0], self.kernel, self.kernel)
        return Slot(shape, (1, 2, 3, 0) if self.is_first else (2, 0, 3, 1)), Slot((self.outputs,))

    def at_work(self, parameters: Sequence[Parameter], batch: int) -> Pass:
        return _ConvPoolPass(self, parameters, batch)


class _ConvPoolPass:
    def __init__(self, layer: ConvPool, parameters: Sequence[Parameter], batch: int) -> None:
        weight, self._bias = parameters
        convolution = _FirstConvolution if layer.is_first else _Convolution
        self._convolution = convolution(layer, weight, batch)
        self._pool = _MaxPool(layer, self._convolution.output)
        self._output = self._bias_row = self._bias.value[:, None, None, None]

    def forward(self, x: Tensor) -> Tensor:
        self._convolution.forward(x)
        self._output = self._pool.forward().add_(self._bias_row).relu_()
        return self._output

    def backward(self, gradient: Tensor) -> Tensor:
        relu_backward(gradient, self._output)
        self._bias.take(gradient.flatten(1, 3).sum(1))
        return self._convolution.backward(self._pool.backward(gradient))


class _FirstConvolution:
    """Of images as data has them, [copies, batch, channel, y, x], unfolded along y and x."""

    def __init__(self, layer: ConvPool, weight: Parameter, batch: int) -> None:
        self._padding = layer.padding
        self._weight = weight.seen(lambda block: block.flatten(1, 3))
        like, (height, width) = weight.value, layer.places
        self._windows = like.new_empty(*like.shape[:4], height, batch, width)
        self._matrix = self._windows.flatten(4).flatten(1, 3)
        self.output = like.new_empty(len(like), height, batch, width, layer.outputs)
        self._product = self.output.flatten(1, 3)

    def forward(self, x: Tensor) -> None:
        padded = nn.functional.pad(x, [self._padding] * 4) if self._padding else x
        copy, sample, channel, row, column = padded.stride()
        strides = (copy, channel, row, column, row, sample, column)
        self._windows.copy_(padded.as_strided(self._windows.shape, strides))
        torch.bmm(self._matrix.transpose(1, 2), self._weight.value, out=self._product)

    def backward(self, gradient: Tensor) -> Tensor:
        self._weight.take_product(self._matrix, gradient.flatten(1, 3))
        return gradient


class _Convolution:
    """Of [copies, y, batch, x, channel], unfolded along x."""

    def __init__(self, layer: ConvPool, weight: Parameter, batch: int) -> None:
        like, copies = weight.value, len(weight.value)
        channels, height, width = layer.padded
        rows, columns = layer.places
        self._padded = like.new_zeros(copies, height, batch, width, channels)
        self._padded_gradient = torch.empty_like(self._padded)
        self._inside = (
            slice(None),
            slice(layer.padding, height - layer.padding),
            slice(None),
            slice(layer.padding, width - layer.padding),
        )
        copy, row, sample, column, _ = self._padded.stride()
        self._shifted = self._padded.as_strided(
            (copies, height, batch, columns, layer.kernel * channels),
            (copy, row, sample, column, 1),
        )
        self._windows = torch.empty_like(self._shifted, memory_format=torch.contiguous_format)
        self._windows_gradient = torch.zeros_like(self._windows)
        self.output = like.new_empty(copies, rows, batch, columns, layer.outputs)
        self._product = self.output.flatten(1, 3)
        self._kernel_rows = [
            (
                weight.seen(lambda block, i=i: block[:, i].flatten(2)),  # type: ignore[misc]
                self._windows[:, i : i + rows].flatten(1, 3),
                self._windows_gradient[:, i : i + rows].flatten(1, 3),
            )
            for i in range(layer.kernel)
        ]
        self._beyond = self._windows_gradient[:, rows:]
        apart = self._windows_gradient.view(*self._windows.shape[:4], layer.kernel, channels)
        self._columns = [
            (self._padded_gradient[:, :, :, j : j + columns], apart[:, :, :, :, j])
            for j in range(layer.kernel)
        ]

    def forward(self, x: Tensor) -> None:
        self._padded[self._inside] = x
        self._windows.copy_(self._shifted)
        for i, (weight, windows, _) in enumerate(self._kernel_rows):
            torch.baddbmm(
                self._product, windows, weight.value.transpose(1, 2),
                beta=min(i, 1), out=self._product,
            )  # fmt: skip

    def backward(self, gradient: Tensor) -> Tensor:
        of_product = gradient.flatten(1, 3)
        self._beyond.zero_()
        for i, (weight, _, windows_gradient) in enumerate(self._kernel_rows):
            windows_gradient.baddbmm_(of_product, weight.value, beta=min(i, 1))
        for weight, windows, _ in self._kernel_rows:
            weight.take_product(of_product.transpose(1, 2), windows)
        self._padded_gradient.zero_()
        for goal, part in self._columns:
            goal.add_(part)
        return self._padded_gradient[self._inside]


class _MaxPool:
    """2x2, of [copies, y, batch, x, channel]; a last row or column without a partner is left out.

    The place of the input serves also for what decides where the gradient goes, and for the
    gradient: half the memory is in cache twice as often.
    """

    def __init__(self, layer: ConvPool, images: Tensor) -> None:
        channels, height, width = layer.pooled
        copies, _, batch, columns, _ = images.shape
        tall = images.new_empty(copies, height, batch, columns, channels)
        self._images, self._tall = images, tall
        self._upper, self._lower = images[:, 0 : 2 * height : 2], images[:, 1 : 2 * height : 2]
        self._left, self._right = (tall[:, :, :, i : 2 * width : 2] for i in (0, 1))
        self._left_out = images[:, 2 * height :], tall[:, :, :, 2 * width :]
        self._output = images.new_empty(copies, height, batch, width, channels)

    def forward(self) -> Tensor:
        torch.maximum(self._upper, self._lower, out=self._tall)
        self._lower.sub_(self._upper)
        torch.maximum(self._left, self._right, out=self._output)
        self._right.sub_(self._left)
        return self._output

    def backward(self, gradient: Tensor) -> Tensor:
        """Of equal numbers the left gets the gradient, then the upper one."""
        for left_out in self._left_out:
            left_out.zero_()
        _share(gradient, self._left, self._right)
        _share(self._tall, self._upper, self._lower)
        return self._images


def _share(gradient: Tensor, first: Tensor, second: Tensor) -> None:
    """The second, which holds by how much it was larger, gets the gradient if it was."""
    torch.ops.aten.threshold_backward.grad_input(gradient, second, 0, grad_input=second)
    torch.sub(gradient, second, out=first)


@dataclass(frozen=True)
class FlattenImages:
    """[copies, y, batch, x, channel] to [copies, batch, features] in the order of nn.Flatten."""

    image: Size

    @property
    def slots(self) -> Sequence[Slot]:
        return ()

    def at_work(self, parameters: Sequence[Parameter], batch: int) -> Pass:
        return _FlattenPass(self.image)


class _FlattenPass:
    def __init__(self, image: Size) -> None:
        self._image = image

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 4, 1, 3).flatten(2)

    def backward(self, gradient: Tensor) -> Tensor:
        images = gradient.view(*gradient.shape[:2], *self._image)
        return images.permute(0, 3, 1, 4, 2).contiguous()
