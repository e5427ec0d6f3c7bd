"""Linear layers, one batched product per layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simulator.kernels.stack import Parameter, Slot


def relu_backward(gradient: Tensor, output: Tensor) -> None:
    """In place: no gradient where a ReLU's output is 0."""
    torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)


@dataclass(frozen=True)
class Dense:
    inputs: int
    outputs: int
    relu: bool
    is_first: bool
    """Then its inputs need no gradient."""
    swapped: bool
    """Its weights, which for wide inputs makes steps faster, but loading and reading out slower."""

    @property
    def slots(self) -> Sequence[Slot]:
        axes = (1, 0) if self.swapped else None
        return Slot((self.outputs, self.inputs), axes), Slot((self.outputs,))

    def at_work(self, parameters: Sequence[Parameter], batch: int) -> DensePass:
        return DensePass(self, parameters, batch)


class DensePass:
    def __init__(self, layer: Dense, parameters: Sequence[Parameter], batch: int) -> None:
        self._layer = layer
        self._weight, self._bias = weight, bias = parameters
        self._by_input = weight.value if layer.swapped else weight.value.transpose(1, 2)
        self._bias_row = bias.value.unsqueeze(1)
        copies = len(weight.value)
        self._output = weight.value.new_empty(copies, batch, layer.outputs)
        self._input_gradient = weight.value.new_empty(
            copies, batch, 0 if layer.is_first else layer.inputs
        )
        self._input = self._output

    def forward(self, x: Tensor) -> Tensor:
        self._input = x.flatten(2)
        torch.baddbmm(self._bias_row, self._input, self._by_input, out=self._output)
        return self._output.relu_() if self._layer.relu else self._output

    def backward(self, gradient: Tensor) -> Tensor:
        if self._layer.relu:
            relu_backward(gradient, self._output)
        if not self._layer.is_first:
            torch.bmm(gradient, self._weight.value, out=self._input_gradient)
        if self._layer.swapped:
            self._weight.take_product(self._input.transpose(1, 2), gradient)
        else:
            self._weight.take_product(gradient.transpose(1, 2), self._input)
        self._bias.take(gradient.sum(1))
        return self._input_gradient
