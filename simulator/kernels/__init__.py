"""Hand-written training of stacked models, for the models that are worth it."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from simulator.kernels.dense import Dense
from simulator.kernels.losses import cross_entropy, squared_error
from simulator.kernels.stack import Kernel, Layer, Models

__all__ = ["Kernel", "Models", "kernel_for"]

_MOST_JOBS = 32
_STACKED_PARAMETERS = 1_000_000
"""More copies of a model than have so many parameters gain nothing."""
_LARGE = 200_000
"""Parameters of a model that keeps a core busy by itself."""


def kernel_for(module: nn.Module, regression: bool) -> Kernel | None:
    """None: no kernel knows this module, train it with autograd."""
    layers = _layers(list(_flat(module)))
    if layers is None:
        return None
    size = sum(parameter.numel() for parameter in module.parameters())
    jobs_at_once = 1 if size > _LARGE else min(_MOST_JOBS, _STACKED_PARAMETERS // size)
    loss = squared_error if regression else cross_entropy
    return Kernel(layers, loss, jobs_at_once)


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    if isinstance(module, nn.Sequential):
        for child in module:
            yield from _flat(child)
    else:
        yield module


def _layers(modules: list[nn.Module]) -> list[Layer] | None:
    layers: list[Layer] = []
    while modules:
        is_first = not layers
        match modules:
            case [nn.Flatten(), *modules]:
                pass
            case [nn.Linear() as linear, nn.ReLU(), *modules]:
                layers.append(Dense(linear.in_features, linear.out_features, True, is_first))
            case [nn.Linear() as linear, *modules]:
                layers.append(Dense(linear.in_features, linear.out_features, False, is_first))
            case _:
                return None
    return layers
