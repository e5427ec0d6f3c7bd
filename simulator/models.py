"""The models that devices train, each one flat vector of parameters.

No batch normalisation and no dropout: a model has no buffers and a run no hidden randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from simulator.errors import UserError
from simulator.model_section import ModelSection

Shape = tuple[int, ...]


def logistic(input_shape: Shape, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), outputs))


def mlp(input_shape: Shape, outputs: int, hidden: Sequence[int] = (64,)) -> nn.Module:
    """Sync-time HFL (Ali and Arafa 2025) has one hidden layer of 50."""
    return nn.Sequential(nn.Flatten(), *_dense(prod(input_shape), *hidden, outputs))


def sensor_mlp(input_shape: Shape, outputs: int, hidden: Sequence[int] = (128,)) -> nn.Module:
    """Async-HFL (Yu et al. 2023) on human activity: its size, 285 KB, means 128 hidden units."""
    return mlp(input_shape, outputs, hidden)


def cnn_small(input_shape: Shape, outputs: int) -> nn.Module:
    features = nn.Sequential(
        *_conv_pool(input_shape[0], 8, kernel=3, padding=1),
        *_conv_pool(8, 16, kernel=3, padding=1),
        nn.Flatten(),
    )
    return nn.Sequential(features, *_dense(_width(features, input_shape), 32, outputs))


def cnn_async_hfl(input_shape: Shape, outputs: int) -> nn.Module:
    """Async-HFL (Yu et al. 2023) on MNIST and FashionMNIST: 431,080 parameters, 1.7 MB."""
    features = nn.Sequential(
        *_conv_pool(input_shape[0], 20, kernel=5), *_conv_pool(20, 50, kernel=5), nn.Flatten()
    )
    return nn.Sequential(features, *_dense(_width(features, input_shape), 500, outputs))


def cnn_sync_time(input_shape: Shape, outputs: int) -> nn.Module:
    """Sync-time HFL (Ali and Arafa 2025) on CIFAR-10; channels, not given there, as in LeNet-5."""
    features = nn.Sequential(
        *_conv_pool(input_shape[0], 6, kernel=5), *_conv_pool(6, 16, kernel=5), nn.Flatten()
    )
    return nn.Sequential(features, *_dense(_width(features, input_shape), 120, 84, outputs))


def vgg9(input_shape: Shape, outputs: int) -> nn.Module:
    """VGG-9 as in FedMA (Wang et al., ICLR 2020), less its dropout; He initialisation."""
    features = nn.Sequential(
        *_conv3(input_shape[0], 32), *_conv3(32, 64), nn.MaxPool2d(2),
        *_conv3(64, 128), *_conv3(128, 128), nn.MaxPool2d(2),
        *_conv3(128, 256), *_conv3(256, 256), nn.MaxPool2d(2),
        nn.Flatten(),
    )  # fmt: skip
    dense = nn.Sequential(*_dense(_width(features, input_shape), 512, 512), nn.ReLU())
    body = nn.Sequential(features, dense)
    _he_initialise(body)
    return nn.Sequential(body, nn.Linear(512, outputs))


class ResidualBlock(nn.Module):
    """ReLU(shortcut(x) + last(ReLU(first(x))))."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride, padding=1)
        self.last = nn.Conv2d(width, width, 3, padding=1)
        same = channels == width and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.shortcut(x) + self.last(torch.relu(self.first(x))))


def resnet10(input_shape: Shape, outputs: int) -> nn.Module:
    return _resnet(input_shape[0], outputs, blocks_per_stage=1)


def resnet18(input_shape: Shape, outputs: int) -> nn.Module:
    return _resnet(input_shape[0], outputs, blocks_per_stage=2)


def _resnet(channels: int, outputs: int, blocks_per_stage: int) -> nn.Module:
    """He et al. (CVPR 2016) with a 3x3 stem of stride 1, and biases for batch normalisation.

    It trains without normalisation because the last convolution of each branch starts at 0,
    as in Fixup (Zhang, Dauphin, Ma, ICLR 2019). Fixup's other parts, meant for far deeper
    networks, are left out; scaling the first convolutions slowed resnet18 at small steps.
    """
    layers = _conv3(channels, 64)
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for block in range(blocks_per_stage):
            layers.append(ResidualBlock(channels, width, stride if block == 0 else 1))
            channels = width
    body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    _he_initialise(body)
    for module in body:
        if isinstance(module, ResidualBlock):
            nn.init.zeros_(module.last.weight)
    return nn.Sequential(body, nn.Linear(channels, outputs))


class LastStep(nn.Module):
    """The output of an LSTM after the last step of its input."""

    def forward(self, lstm_result: tuple[Tensor, object]) -> Tensor:
        return lstm_result[0][:, -1]


def char_lstm(input_shape: Shape, outputs: int, layers: int = 2) -> nn.Module:
    """Async-HFL (Yu et al. 2023) on Shakespeare: int64 [batch, time] to the next character.

    Erratum: the paper says two layers and 208 KB, but two layers with 80 characters are 534 KB;
    one, as in the authors' program, is 211 KB. Built as written, with two layers;
    ``layers = 1`` is the other reading, ``transfer_bytes = 208000`` sends the printed size.
    """
    return nn.Sequential(
        nn.Embedding(outputs, 8),
        nn.LSTM(8, 100, num_layers=layers, batch_first=True),
        LastStep(),
        nn.Linear(100, outputs),
    )


def series_lstm(input_shape: Shape, outputs: int) -> nn.Module:
    """Async-HFL (Yu et al. 2023) on HPWREN: float [batch, time, features] to [batch, outputs]."""
    return nn.Sequential(
        nn.LSTM(input_shape[1], 128, batch_first=True), LastStep(), nn.Linear(128, outputs)
    )


MODELS: dict[str, Callable[..., nn.Module]] = {
    "logistic": logistic,
    "mlp": mlp,
    "cnn-small": cnn_small,
    "cnn-async-hfl": cnn_async_hfl,
    "cnn-sync-time": cnn_sync_time,
    "vgg9": vgg9,
    "resnet10": resnet10,
    "resnet18": resnet18,
    "char-lstm": char_lstm,
    "sensor-mlp": sensor_mlp,
    "series-lstm": series_lstm,
}

SMALLEST_SIDE = {  # of an image, in pixels
    "cnn-small": 4,
    "cnn-async-hfl": 16,
    "cnn-sync-time": 16,
    "vgg9": 8,
    "resnet10": 1,
    "resnet18": 1,
}
SEQUENCE_AXES = {"char-lstm": ("time",), "series-lstm": ("time", "features")}


def build_model(section: ModelSection, input_shape: Shape, outputs: int) -> nn.Module:
    """A fresh module; its parameters come from torch's global generator, see initial_model."""
    _check_shape(section.name, input_shape)
    options = section.model_dump(include={"hidden", "layers"}, exclude_none=True)
    return MODELS[section.name](input_shape, outputs, **options)


def flat_parameters(module: nn.Module) -> Tensor:
    """A float32 copy of all parameters as one vector, in the order of ``parameters()``."""
    return nn.utils.parameters_to_vector(module.parameters()).detach().float()


def initial_model(
    section: ModelSection, input_shape: Shape, outputs: int, rng: np.random.Generator
) -> Tensor:
    """The parameters to start from: a function of ``rng`` alone, aside of torch's generator."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the GPUs too, and only the CPU's state is restored.
        torch.default_generator.manual_seed(int(rng.integers(2**63)))
        return flat_parameters(build_model(section, input_shape, outputs))


def model_bytes(section: ModelSection, module: nn.Module | None) -> int:
    """What one transfer of the model costs; a section that says so needs no module."""
    if section.transfer_bytes is not None:
        return section.transfer_bytes
    assert module is not None
    return 4 * sum(parameter.numel() for parameter in module.parameters())


class FlatModule:
    """A module whose parameters and gradients are views into two flat vectors."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.values = flat_parameters(module)
        self.gradients = torch.zeros_like(self.values)
        parameters = list(module.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, value, gradient in zip(
            parameters,
            torch.split(self.values, sizes),
            torch.split(self.gradients, sizes),
            strict=True,
        ):
            parameter.data = value.view_as(parameter)
            parameter.grad = gradient.view_as(parameter)

    def __call__(self, x: Tensor) -> Tensor:
        result: Tensor = self.module(x)
        return result

    def load(self, flat: Tensor) -> None:
        self.values.copy_(flat)

    def zero_grad(self) -> None:
        """Not the module's own zero_grad, which would drop the views."""
        self.gradients.zero_()


def _check_shape(name: str, input_shape: Shape) -> None:
    if name in SMALLEST_SIDE:
        side = SMALLEST_SIDE[name]
        need = f"an image, channels x height x width, of at least {side}x{side} pixels"
        fits = len(input_shape) == 3 and min(input_shape[1:]) >= side
    elif name in SEQUENCE_AXES:
        axes = SEQUENCE_AXES[name]
        need = f"a sequence, {' x '.join(axes)}"
        fits = len(input_shape) == len(axes)
    else:
        return
    if not fits:
        raise UserError(
            f"[model] name = {name!r} cannot take the data's input shape "
            f"{'x'.join(map(str, input_shape))}: it needs {need}; use 'mlp' or 'logistic' (any "
            "shape), 'cnn-small' (images from 4x4), 'char-lstm' (characters) or 'series-lstm' "
            "(time series)"
        )


def _dense(*sizes: int) -> list[nn.Module]:
    """Linear layers from size to size with a ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return layers[:-1]


def _conv_pool(channels: int, width: int, kernel: int, padding: int = 0) -> list[nn.Module]:
    # ReLU and max-pool commute; pooling first leaves ReLU a quarter of the work.
    return [nn.Conv2d(channels, width, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]


def _conv3(channels: int, width: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]


def _width(features: nn.Module, input_shape: Shape) -> int:
    """How many numbers ``features`` makes of one input."""
    with torch.no_grad():
        return int(features(torch.zeros(1, *input_shape)).numel())


def _he_initialise(module: nn.Module) -> None:
    """He et al. (ICCV 2015): torch's default makes signals fade through stacked ReLU layers."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
