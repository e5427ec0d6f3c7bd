"""What C++ is told of a model: a few numbers for each layer (``Kind`` in train.cc)."""

from __future__ import annotations

from math import prod

from torch import nn

from simulator.models import LastStep, Shape

WORDS = 8
"""That describe a layer; what is not given is 0."""
_DENSE, _CONV_POOL, _LSTM = range(3)

Words = tuple[int, ...]


def layers_of(module: nn.Module, input_shape: Shape) -> list[Words] | None:
    """None: there is a layer that C++ does not know."""
    layers: list[Words] = []
    modules, shape, positions = _flat(module), input_shape, 1
    learning = [id(part) for part in modules if list(part.parameters())]
    if len(set(learning)) < len(learning):
        return None  # a layer is used twice
    while modules:
        match modules:
            case [nn.Conv2d() as conv, nn.MaxPool2d() as pool, nn.ReLU(), *modules]:
                if not _is_plain(conv, pool):
                    return None
                kernel, padding = conv.kernel_size[0], int(conv.padding[0])
                layers.append((_CONV_POOL, *shape, conv.out_channels, kernel, padding))
                sides = ((side + 2 * padding - kernel + 1) // 2 for side in shape[1:])
                shape = (conv.out_channels, *sides)
            case [nn.Flatten(), *modules]:
                positions = prod(shape[1:]) if layers else 1
                shape = (prod(shape),)
            case [nn.Linear() as linear, *modules]:
                if linear.bias is None or shape != (linear.in_features,):
                    return None
                relu, modules = _starts_with_relu(modules)
                layers.append((_DENSE, linear.in_features, linear.out_features, relu, positions))
                positions, shape = 1, (linear.out_features,)
            case [nn.Embedding() as embedding, nn.LSTM() as lstm, LastStep(), *modules]:
                plain = embedding.max_norm is None and embedding.padding_idx is None
                if not (plain and _is_plain_lstm(lstm)) or layers:
                    return None
                layers += _lstm_layers(lstm, shape[0], embedding.num_embeddings)
                shape = (lstm.hidden_size,)
            case [nn.LSTM() as lstm, LastStep(), *modules]:
                if not _is_plain_lstm(lstm) or layers:
                    return None
                layers += _lstm_layers(lstm, shape[0], 0)
                shape = (lstm.hidden_size,)
            case _:
                return None
    return layers


def _flat(module: nn.Module) -> list[nn.Module]:
    if type(module) is nn.Sequential:  # a subclass may do more
        return [part for child in module for part in _flat(child)]
    return [module]


def _starts_with_relu(modules: list[nn.Module]) -> tuple[bool, list[nn.Module]]:
    relu = bool(modules) and isinstance(modules[0], nn.ReLU)
    return relu, modules[relu:]


def _is_plain(conv: nn.Conv2d, pool: nn.MaxPool2d) -> bool:
    """Without what C++ does not know, and alike along both axes."""
    return (
        conv.kernel_size == (conv.kernel_size[0],) * 2
        and conv.padding == (conv.padding[0],) * 2
        and (conv.stride, conv.dilation, conv.groups) == ((1, 1), (1, 1), 1)
        and (pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode) == (2, 2, 0, False)
        and conv.bias is not None
        and conv.padding_mode == "zeros"
    )


def _is_plain_lstm(lstm: nn.LSTM) -> bool:
    options = (lstm.bias, lstm.batch_first, lstm.dropout, lstm.bidirectional, lstm.proj_size)
    return options == (True, True, 0, False, 0)


def _lstm_layers(lstm: nn.LSTM, time: int, symbols: int) -> list[Words]:
    """All but the last hand the outputs of all their steps on."""
    inputs = [lstm.input_size] + [lstm.hidden_size] * (lstm.num_layers - 1)
    return [
        (_LSTM, time, features, lstm.hidden_size, 0 if i else symbols, i == lstm.num_layers - 1)
        for i, features in enumerate(inputs)
    ]
