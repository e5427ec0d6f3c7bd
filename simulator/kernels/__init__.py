"""Hand-written training of stacked models, for the models that are worth it."""

from __future__ import annotations

from math import prod

from torch import nn

from simulator.kernels.conv import ConvPool, FlattenImages, Size
from simulator.kernels.dense import Dense
from simulator.kernels.losses import cross_entropy, squared_error
from simulator.kernels.stack import FEW_STEPS, Kernel, Layer, Models
from simulator.models import Shape

__all__ = ["FEW_STEPS", "Kernel", "Models", "kernel_for"]

_MOST_JOBS = 32
_STACKED_PARAMETERS = 600_000
"""More copies of a model than have so many parameters leave the cache too often."""
_LARGE = 200_000
"""Parameters of a model that keeps a core busy by itself."""


def kernel_for(module: nn.Module, input_shape: Shape, regression: bool) -> Kernel | None:
    """None: no kernel knows this module, train it with autograd."""
    layers, for_few_steps = (_layers(_flat(module), input_shape, swap) for swap in (True, False))
    if layers is None or for_few_steps is None:
        return None
    size = sum(parameter.numel() for parameter in module.parameters())
    busy_alone = size > _LARGE or any(isinstance(layer, ConvPool) for layer in layers)
    jobs_at_once = 1 if busy_alone else min(_MOST_JOBS, _STACKED_PARAMETERS // size)
    loss = squared_error if regression else cross_entropy
    return Kernel(layers, loss, jobs_at_once, Kernel(for_few_steps, loss, jobs_at_once))


def _flat(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, nn.Sequential):
        return [part for child in module for part in _flat(child)]
    return [module]


def _layers(modules: list[nn.Module], shape: Shape, swap: bool) -> list[Layer] | None:
    """``shape``: of the samples that the modules are given; ``swap``: a first Dense's weights."""
    layers: list[Layer] = []
    while modules:
        match modules:
            case [nn.Conv2d() as conv, nn.MaxPool2d() as pool, nn.ReLU(), *modules]:
                if not _is_plain(conv, pool):
                    return None
                layer = _conv_pool(conv, shape, is_first=not layers)
                layers.append(layer)
                shape = layer.pooled
            case [nn.Flatten(), *modules]:
                if layers:
                    layers.append(FlattenImages(_image(shape)))
                shape = (prod(shape),)
            case [nn.Linear() as linear, nn.ReLU(), *modules]:
                layers.append(_dense(linear, True, not layers, swap))
            case [nn.Linear() as linear, *modules]:
                layers.append(_dense(linear, False, not layers, swap))
            case _:
                return None
    return layers


def _dense(linear: nn.Linear, relu: bool, is_first: bool, swap: bool) -> Dense:
    return Dense(linear.in_features, linear.out_features, relu, is_first, is_first and swap)


def _is_plain(conv: nn.Conv2d, pool: nn.MaxPool2d) -> bool:
    """Without what ConvPool does not know, and alike along both axes."""
    return (
        conv.kernel_size == (conv.kernel_size[0],) * 2
        and conv.padding == (conv.padding[0],) * 2
        and (conv.stride, conv.dilation, conv.groups) == ((1, 1), (1, 1), 1)
        and (pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode) == (2, 2, 0, False)
    )


def _conv_pool(conv: nn.Conv2d, shape: Shape, is_first: bool) -> ConvPool:
    kernel, padding = conv.kernel_size[0], int(conv.padding[0])
    return ConvPool(_image(shape), conv.out_channels, kernel, padding, is_first)


def _image(shape: Shape) -> Size:
    channels, height, width = shape
    return channels, height, width
