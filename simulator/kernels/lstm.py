"""LSTM layers, and the embedding of characters before them.

Everything is a product with one matrix: the input of a step is ``[2 h | x | 1]``, so recurrence,
input and bias are one product forward, one backward, and one for all steps' weight gradients.

A sigmoid is ``(1 + tanh(u / 2)) / 2``, so one tanh serves all gates ``a``. With the halves in the
weights, where powers of two change no bits, a step is

    c = ((1 + a_f) c + (1 + a_i) a_g) / 2        2 h = (1 + a_o) tanh(c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simulator.kernels.stack import Parameter, Pass, Slot


@dataclass(frozen=True)
class Embedding:
    """[copies, batch, time] to [copies, time, batch, features]; a first layer."""

    characters: int
    features: int

    @property
    def slots(self) -> Sequence[Slot]:
        return (Slot((self.characters, self.features)),)

    def at_work(self, parameters: Sequence[Parameter], batch: int) -> Pass:
        return _EmbeddingPass(parameters[0])


class _EmbeddingPass:
    def __init__(self, weight: Parameter) -> None:
        self._weight = weight
        copies, self._characters, self._features = weight.value.shape
        self._first_rows = torch.arange(0, copies * self._characters, self._characters)
        self._rows = self._first_rows

    def forward(self, x: Tensor) -> Tensor:
        self._rows = x.transpose(1, 2) + self._first_rows[:, None, None]
        found = self._weight.value.flatten(0, 1).index_select(0, self._rows.flatten())
        return found.view(*self._rows.shape, self._features)

    def backward(self, gradient: Tensor) -> Tensor:
        count = len(self._first_rows) * self._characters
        sums = torch.ops.aten.embedding_dense_backward(gradient, self._rows, count, -1, False)
        self._weight.take(sums.view_as(self._weight.value))
        return gradient


@dataclass(frozen=True)
class Lstm:
    """One layer: [copies, time, batch, inputs] to [copies, time, batch, 2 h]."""

    inputs: int
    hidden: int
    time: int
    is_first: bool
    """Then it is given data, [copies, batch, time, inputs], which needs no gradient."""
    after_lstm: bool
    """Then its inputs are doubled too."""

    @property
    def slots(self) -> Sequence[Slot]:
        gates = 4 * self.hidden
        of_inputs, of_hidden = (Slot((gates, n), (1, 0)) for n in (self.inputs, self.hidden))
        return of_inputs, of_hidden, Slot((gates,)), Slot((gates,))

    def at_work(self, parameters: Sequence[Parameter], batch: int) -> Pass:
        return _LstmPass(self, parameters, batch)


class _LstmPass:
    def __init__(self, layer: Lstm, parameters: Sequence[Parameter], batch: int) -> None:
        self._layer, self._parameters = layer, parameters
        like = parameters[0].value
        copies, time, hidden = len(like), layer.time, layer.hidden
        self._forward_scale = _forward_scale(layer).to(like)
        self._backward_scale = _gates_scale(hidden, 0.5, 0.5, 0.5, 1).to(like)
        self._forward_weight = like.new_empty(copies, hidden + layer.inputs + 1, 4 * hidden)
        back_to = hidden if layer.is_first else hidden + layer.inputs
        self._backward_weight = like.new_empty(copies, 4 * hidden, back_to)

        self._rows = like.new_zeros(copies, time + 1, batch, hidden + layer.inputs + 1)
        self._rows[..., -1] = 1
        self._gates = like.new_empty(copies, time, batch, 4 * hidden)
        cells = like.new_zeros(copies, time + 1, batch, hidden)
        tanh_cells = like.new_empty(copies, time, batch, hidden)
        hiddens = self._rows[..., :hidden]
        self._output = hiddens[:, 1:]
        gates = self._gates.view(copies, time, batch, 4, hidden)
        self._steps = list(
            zip(
                self._rows[:, :-1].unbind(1),
                self._gates.unbind(1),
                zip(*(gates[..., gate, :].unbind(1) for gate in range(4)), strict=True),
                cells[:, :-1].unbind(1),
                cells[:, 1:].unbind(1),
                tanh_cells.unbind(1),
                hiddens[:, 1:].unbind(1),
                strict=True,
            )
        )
        self._work = like.new_empty(copies, batch, 4 * hidden)
        self._work_gates = self._work.view(copies, batch, 4, hidden).unbind(2)
        self._one, self._other = (like.new_empty(copies, batch, hidden) for _ in range(2))
        self._row_gradient = like.new_empty(copies, batch, back_to)
        self._input_gradient = like.new_empty(copies, time, batch, back_to - hidden)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self._layer.hidden
        self._pack_weights()
        self._rows[:, :-1, :, hidden:-1] = x.transpose(1, 2) if self._layer.is_first else x
        new, kept = self._one, self._other
        for row, gates, (i, f, g, o), before, cell, tanh_cell, doubled in self._steps:
            torch.bmm(row, self._forward_weight, out=self._work)
            torch.tanh(self._work, out=gates)
            torch.addcmul(g, i, g, out=new)
            torch.addcmul(before, f, before, out=kept)
            torch.lerp(new, kept, 0.5, out=cell)
            torch.tanh(cell, out=tanh_cell)
            torch.addcmul(tanh_cell, o, tanh_cell, out=doubled)
        return self._output

    def backward(self, gradient: Tensor) -> Tensor:
        """``gradient``: of the last steps of time; those before have none.

        The place of the gates takes their gradients, all but the output gate's doubled.
        """
        tanh_backward = torch.ops.aten.tanh_backward.grad_input
        hidden, work = self._layer.hidden, self._work
        of_hidden = self._row_gradient[..., :hidden].zero_()
        of_inputs = self._row_gradient[..., hidden:]
        of_cell, of_tanh = self._one.zero_(), self._other
        of_i, of_f, of_g, of_o = self._work_gates
        from_above = dict(enumerate(gradient.unbind(1), self._layer.time - gradient.shape[1]))
        for time in reversed(range(self._layer.time)):
            _, gates, (i, f, g, o), before, _, tanh_cell, _ = self._steps[time]
            if time in from_above:
                of_hidden.add_(from_above[time])
            torch.addcmul(of_hidden, of_hidden, o, out=of_tanh)
            of_cell.add_(tanh_backward(of_tanh, tanh_cell, grad_input=of_tanh))
            torch.mul(of_hidden, tanh_cell, out=of_o)
            torch.mul(of_cell, before, out=of_f)
            torch.mul(of_cell, g, out=of_i)
            torch.addcmul(of_cell, of_cell, i, out=of_g)
            of_cell.addcmul_(of_cell, f).mul_(0.5)
            tanh_backward(work, gates, grad_input=gates)
            torch.bmm(gates, self._backward_weight, out=self._row_gradient)
            self._input_gradient[:, time] = of_inputs
        self._take_gradients()
        return self._input_gradient

    def _pack_weights(self) -> None:
        hidden, weight = self._layer.hidden, self._forward_weight
        of_inputs, of_hidden, bias, other_bias = (p.value for p in self._parameters)
        weight[:, :hidden] = of_hidden
        weight[:, hidden:-1] = of_inputs
        torch.add(bias, other_bias, out=weight[:, -1])
        weight.mul_(self._forward_scale)
        back_to = self._backward_weight.shape[2]
        self._backward_weight.copy_((weight[:, :back_to] * self._backward_scale).transpose(1, 2))

    def _take_gradients(self) -> None:
        rows, gates = self._rows[:, :-1].flatten(1, 2), self._gates.flatten(1, 2)
        gradient = torch.bmm(rows.transpose(1, 2), gates)
        gradient.mul_(self._forward_scale * self._backward_scale)
        of_inputs, of_hidden, bias, other_bias = self._parameters
        of_hidden.take(gradient[:, : self._layer.hidden])
        of_inputs.take(gradient[:, self._layer.hidden : -1])
        bias.take(gradient[:, -1])
        other_bias.take(gradient[:, -1])


def _gates_scale(hidden: int, *scales: float) -> Tensor:
    """For the input, forget, cell and output gates."""
    return torch.tensor(scales).repeat_interleave(hidden)


def _forward_scale(layer: Lstm) -> Tensor:
    """Of each row's and each gate's weight, for rows ``[2 h | x | 1]`` and tanh for sigmoids."""
    of_rows = torch.ones(layer.hidden + layer.inputs + 1, 1)
    of_rows[: layer.hidden] = 0.5
    if layer.after_lstm:
        of_rows[layer.hidden : -1] = 0.5
    return of_rows * _gates_scale(layer.hidden, 0.5, 0.5, 1, 0.5)


@dataclass(frozen=True)
class LastStep:
    """[copies, time, batch, 2 h] to the last [copies, batch, h]."""

    @property
    def slots(self) -> Sequence[Slot]:
        return ()

    def at_work(self, parameters: Sequence[Parameter], batch: int) -> Pass:
        return _LastStepPass()


class _LastStepPass:
    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1] * 0.5

    def backward(self, gradient: Tensor) -> Tensor:
        return gradient.mul_(0.5).unsqueeze(1)
