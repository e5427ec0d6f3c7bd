"""How many floating-point operations training on one sample takes."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from simulator.models import Shape


def training_flops(module: nn.Module, input_shape: Shape, dtype: torch.dtype) -> int:
    """Multiplications and additions of one forward and backward pass; biases, ReLUs do not count.

    On torch's meta device nothing is computed, and an LSTM, which the CPU's library does in one
    uncounted piece, is made of the products that it is made of.
    """
    shadow = copy.deepcopy(module).to("meta")
    sample = torch.zeros(1, *input_shape, dtype=dtype, device="meta")
    with FlopCounterMode(display=False) as counter:
        shadow(sample).sum().backward()
    return int(counter.get_total_flops())
