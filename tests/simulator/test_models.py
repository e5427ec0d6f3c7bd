from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional

from simulator.errors import UserError
from simulator.model_section import MODEL_DESCRIPTIONS, ModelSection
from simulator.models import (
    MODELS,
    SMALLEST_SIDE,
    FlatModule,
    build_model,
    flat_parameters,
    initial_model,
    model_bytes,
)

Shape = tuple[int, ...]

CHARACTERS = 80
MNIST, CIFAR, DIGITS = (1, 28, 28), (3, 32, 32), (1, 8, 8)

# Weights + biases, layer by layer.
VGG9_CONVOLUTIONS_AFTER_FIRST = (
    (32 * 9 * 64 + 64)
    + (64 * 9 * 128 + 128)
    + (128 * 9 * 128 + 128)
    + (128 * 9 * 256 + 256)
    + (256 * 9 * 256 + 256)
)
LSTM_100_OF_8 = 4 * 100 * (8 + 100) + 2 * 4 * 100
LSTM_100_OF_100 = 4 * 100 * (100 + 100) + 2 * 4 * 100
RESNET10_AFTER_STEM = (
    2 * (64 * 9 * 64 + 64)
    + ((64 * 9 * 128 + 128) + (128 * 9 * 128 + 128) + (64 * 128 + 128))
    + ((128 * 9 * 256 + 256) + (256 * 9 * 256 + 256) + (128 * 256 + 256))
    + ((256 * 9 * 512 + 512) + (512 * 9 * 512 + 512) + (256 * 512 + 512))
    + (512 * 10 + 10)
)
RESNET18_SECOND_BLOCKS = sum(2 * (w * 9 * w + w) for w in (64, 128, 256, 512))

SIZES: list[tuple[str, Shape, int, int]] = [
    ("logistic", MNIST, 10, 7_850),
    ("mlp", MNIST, 10, (784 * 64 + 64) + (64 * 10 + 10)),
    ("cnn-small", DIGITS, 10, (9 * 8 + 8) + (8 * 9 * 16 + 16) + (64 * 32 + 32) + (32 * 10 + 10)),
    ("cnn-async-hfl", MNIST, 10, 431_080),
    ("cnn-async-hfl", CIFAR, 10, (3 * 25 * 20 + 20) + 25_050 + (50 * 25 * 500 + 500) + 5_010),
    ("cnn-sync-time", CIFAR, 10, 456 + 2_416 + 48_120 + 10_164 + 850),
    ("cnn-sync-time", MNIST, 62, 156 + 2_416 + (256 * 120 + 120) + 10_164 + (84 * 62 + 62)),
    ("vgg9", CIFAR, 10, 3_491_530),
    ("vgg9", DIGITS, 10, 320 + VGG9_CONVOLUTIONS_AFTER_FIRST + 131_584 + 262_656 + 5_130),
    ("resnet10", MNIST, 10, (9 * 64 + 64) + RESNET10_AFTER_STEM),
    ("resnet18", CIFAR, 10, (27 * 64 + 64) + RESNET10_AFTER_STEM + RESNET18_SECOND_BLOCKS),
    ("char-lstm", (80,), CHARACTERS, 8 * 80 + LSTM_100_OF_8 + LSTM_100_OF_100 + 101 * 80),
    ("sensor-mlp", (561,), 6, (561 * 128 + 128) + (128 * 6 + 6)),
    ("series-lstm", (48, 11), 11, (4 * 128 * (11 + 128) + 2 * 4 * 128) + (128 * 11 + 11)),
]

# One small input shape for each model, and a step size for plain SGD on it.
SMALL: dict[str, tuple[Shape, int, float]] = {
    "logistic": (DIGITS, 10, 0.1),
    "mlp": (DIGITS, 10, 0.1),
    "cnn-small": (DIGITS, 10, 0.1),
    "cnn-async-hfl": ((1, 16, 16), 10, 0.1),
    "cnn-sync-time": ((3, 16, 16), 10, 0.1),
    "vgg9": (DIGITS, 10, 0.03),
    "resnet10": (DIGITS, 10, 0.03),
    "resnet18": (DIGITS, 10, 0.03),
    "char-lstm": ((12,), 20, 1.0),
    "sensor-mlp": ((561,), 6, 0.1),
    "series-lstm": ((12, 5), 3, 0.1),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def section(name: str) -> ModelSection:
    return ModelSection(name=name)


def batch(name: str, shape: Shape, outputs: int, size: int = 4) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(7)
    if name == "series-lstm":
        series = rng.standard_normal((size, *shape), dtype=np.float32)
        return torch.from_numpy(series), torch.from_numpy(rng.random((size, outputs), np.float32))
    labels = torch.from_numpy(rng.integers(outputs, size=size))
    if name == "char-lstm":
        return torch.from_numpy(rng.integers(outputs, size=(size, *shape))), labels
    return torch.from_numpy(rng.standard_normal((size, *shape), dtype=np.float32)), labels


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    if target.is_floating_point():
        return functional.mse_loss(output, target)
    return functional.cross_entropy(output, target)


def fresh(name: str, shape: Shape, outputs: int) -> nn.Module:
    module = build_model(section(name), shape, outputs)
    start = initial_model(section(name), shape, outputs, np.random.default_rng(3))
    nn.utils.vector_to_parameters(start, module.parameters())
    return module


def test_every_model_is_described_and_tried() -> None:
    assert list(MODELS) == list(MODEL_DESCRIPTIONS)
    assert set(SMALL) == {name for name, *_ in SIZES} == set(MODELS)


@pytest.mark.parametrize(("name", "shape", "outputs", "count"), SIZES)
def test_size(name: str, shape: Shape, outputs: int, count: int) -> None:
    module = build_model(section(name), shape, outputs)
    assert flat_parameters(module).shape == (count,)
    assert model_bytes(section(name), module) == 4 * count


@pytest.mark.parametrize(
    ("name", "shape", "outputs", "published_bytes"),
    [
        ("cnn-async-hfl", MNIST, 10, 1.7e6),
        ("resnet18", CIFAR, 10, 43e6),
        ("sensor-mlp", (561,), 6, 285e3),
        ("series-lstm", (48, 11), 11, 292e3),
    ],
)
def test_sizes_published_in_async_hfl_table_4(
    name: str, shape: Shape, outputs: int, published_bytes: float
) -> None:
    """Within 5 %: the table does not say whether its MB are 10^6 or 2^20 bytes."""
    module = build_model(section(name), shape, outputs)
    assert model_bytes(section(name), module) == pytest.approx(published_bytes, rel=0.05)


def test_transfer_bytes_override_the_size() -> None:
    paper = ModelSection(name="char-lstm", transfer_bytes=208_000)
    assert model_bytes(paper, build_model(paper, (80,), CHARACTERS)) == 208_000


def test_one_lstm_layer_is_the_published_size() -> None:
    single = ModelSection(name="char-lstm", layers=1)
    module = build_model(single, (80,), CHARACTERS)
    assert model_bytes(single, module) == 4 * (8 * 80 + LSTM_100_OF_8 + 101 * 80) == 210_880


def test_hidden_layers() -> None:
    sync_time = ModelSection(name="mlp", hidden=(50,))
    deep = ModelSection.model_validate({"name": "sensor-mlp", "hidden": [5, 3]})
    assert flat_parameters(build_model(sync_time, MNIST, 10)).numel() == 785 * 50 + 51 * 10
    assert flat_parameters(build_model(deep, (2, 2), 2)).numel() == 5 * 5 + 6 * 3 + 4 * 2


@pytest.mark.parametrize("name", SMALL)
def test_output_shape_and_no_state_besides_parameters(name: str) -> None:
    shape, outputs, _ = SMALL[name]
    module = build_model(section(name), shape, outputs)
    x, _ = batch(name, shape, outputs, size=3)
    assert module(x).shape == (3, outputs)
    assert list(module.buffers()) == []
    assert all(parameter.dtype == torch.float32 for parameter in module.parameters())
    assert torch.equal(module(x), module(x))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (name, shape)
        for name, side in SMALLEST_SIDE.items()
        for shape in (DIGITS, MNIST, CIFAR)
        if shape[1] >= side
    ],
)
def test_image_models_take_every_image_set_they_are_large_enough_for(
    name: str, shape: Shape
) -> None:
    assert build_model(section(name), shape, 10)(torch.zeros(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize("name", SMALLEST_SIDE)
def test_smallest_side_is_the_smallest(name: str) -> None:
    side = SMALLEST_SIDE[name]
    shape = (2, side, side + 1)
    assert build_model(section(name), shape, 3)(torch.zeros(1, *shape)).shape == (1, 3)
    if side > 1:
        with pytest.raises(RuntimeError):
            MODELS[name]((2, side - 1, side), 3)(torch.zeros(1, 2, side - 1, side))


@pytest.mark.parametrize("name", ["cnn-async-hfl", "cnn-sync-time"])
def test_image_too_small(name: str) -> None:
    with pytest.raises(UserError) as error:
        build_model(section(name), DIGITS, 10)
    for part in (repr(name), "1x8x8", "at least 16x16", "'mlp'", "'logistic'", "'cnn-small'"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("name", "shape", "need"),
    [
        ("resnet18", (561,), "channels x height x width"),
        ("char-lstm", MNIST, "needs a sequence, time;"),
        ("series-lstm", (80,), "needs a sequence, time x features;"),
    ],
)
def test_wrong_kind_of_input(name: str, shape: Shape, need: str) -> None:
    with pytest.raises(UserError, match=need) as error:
        build_model(section(name), shape, 10)
    assert repr(name) in str(error.value)
    assert "x".join(map(str, shape)) in str(error.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "resnet81"}, "unknown model 'resnet81'; did you mean 'resnet18'?"),
        ({"name": "zzz"}, "unknown model 'zzz'; known: char-lstm, cnn-async-hfl"),
        ({"name": "vgg9", "hidden": [64]}, "hidden does not apply to model 'vgg9', only"),
        ({"name": "mlp", "layers": 2}, "layers does not apply to model 'mlp', only to char-lstm"),
        ({"name": "mlp", "hidden": []}, "hidden = [] has no layer, at least 1 is needed"),
        ({"name": "mlp", "hidden": [64, 0]}, "greater than 0"),
        ({"name": "mlp", "transfer_bytes": 0}, "greater than or equal to 1"),
        ({"name": "mlp", "depth": 3}, "Extra inputs are not permitted"),
        ({}, "Field required"),
    ],
)
def test_bad_section(table: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        ModelSection.model_validate(table)
    assert message in str(error.value)


def test_section_does_not_import_torch() -> None:
    code = "import sys, simulator.model_section; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_flat_parameters_are_a_copy_in_order() -> None:
    module = nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 2.0]]))
        module.bias.copy_(torch.tensor([3.0]))
    flat = flat_parameters(module)
    assert flat.tolist() == [1.0, 2.0, 3.0]
    assert not flat.requires_grad
    flat.zero_()
    assert flat_parameters(module).tolist() == [1.0, 2.0, 3.0]


def test_flat_parameters_of_one_parameter_are_a_copy() -> None:
    module = nn.Linear(2, 1, bias=False)
    before = module.weight.tolist()
    flat_parameters(module).zero_()
    assert module.weight.tolist() == before


@pytest.mark.parametrize("name", SMALL)
def test_initial_model_is_a_function_of_its_generator(name: str) -> None:
    shape, outputs, _ = SMALL[name]
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = initial_model(section(name), shape, outputs, np.random.default_rng(5))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again = initial_model(section(name), shape, outputs, np.random.default_rng(5))
    other = initial_model(section(name), shape, outputs, np.random.default_rng(6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.float32
    assert first.dim() == 1
    assert not first.requires_grad


def test_initial_model_takes_the_next_number_of_its_generator() -> None:
    rng = np.random.default_rng(5)
    first, second = (initial_model(section("logistic"), (4,), 2, rng) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", SMALL)
def test_flat_module_has_the_gradients_of_the_plain_module(name: str) -> None:
    shape, outputs, _ = SMALL[name]
    x, target = batch(name, shape, outputs)
    plain = fresh(name, shape, outputs)
    torch.autograd.backward(loss_of(plain(x), target))
    expected = torch.cat([p.grad.flatten() for p in plain.parameters() if p.grad is not None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = FlatModule(build_model(section(name), shape, outputs))
        flat.load(flat_parameters(plain))
        for _ in range(2):
            flat.zero_grad()
            torch.autograd.backward(loss_of(flat(x), target))
    torch.testing.assert_close(flat(x), plain(x))
    torch.testing.assert_close(flat.gradients, expected)
    assert flat.gradients.abs().sum() > 0


@pytest.mark.parametrize("name", ["mlp", "char-lstm"])
def test_flat_module_shares_its_memory_with_the_module(name: str) -> None:
    shape, outputs, _ = SMALL[name]
    flat = FlatModule(fresh(name, shape, outputs))
    x, target = batch(name, shape, outputs)
    torch.autograd.backward(loss_of(flat(x), target))
    parameters = list(flat.module.parameters())
    offset = 0
    for parameter in parameters:
        assert parameter.grad is not None
        assert parameter.data_ptr() == flat.values.data_ptr() + 4 * offset
        assert parameter.grad.data_ptr() == flat.gradients.data_ptr() + 4 * offset
        offset += parameter.numel()
    assert offset == flat.values.numel() == flat.gradients.numel()


def test_load_copies() -> None:
    flat = FlatModule(fresh("logistic", (3,), 2))
    model = torch.arange(8.0)
    flat.load(model)
    flat.values += 1
    assert model.tolist() == list(range(8))
    assert flat_parameters(flat.module).tolist() == list(range(1, 9))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_vector_step_is_a_step_of_every_parameter(
    hidden: list[int], features: int, outputs: int
) -> None:
    mlp = ModelSection(name="mlp", hidden=tuple(hidden))
    start = initial_model(mlp, (features,), outputs, np.random.default_rng(0))
    plain = build_model(mlp, (features,), outputs)
    flat = FlatModule(build_model(mlp, (features,), outputs))
    nn.utils.vector_to_parameters(start.clone(), plain.parameters())
    flat.load(start)
    x, target = torch.ones(2, features), torch.zeros(2, dtype=torch.int64)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        torch.autograd.backward(loss_of(plain(x), target))
        optimizer.step()
        flat.zero_grad()
        torch.autograd.backward(loss_of(flat(x), target))
        flat.values -= 0.5 * flat.gradients
    torch.testing.assert_close(flat.values, flat_parameters(plain))


@pytest.mark.parametrize("name", SMALL)
def test_loss_falls(name: str) -> None:
    shape, outputs, step_size = SMALL[name]
    flat = FlatModule(fresh(name, shape, outputs))
    x, target = batch(name, shape, outputs)
    losses = []
    for _ in range(25):
        flat.zero_grad()
        loss = loss_of(flat(x), target)
        torch.autograd.backward(loss)
        flat.values -= step_size * flat.gradients
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses


@pytest.mark.parametrize("name", ["char-lstm", "series-lstm"])
@pytest.mark.parametrize("step", [0, -1])
def test_lstm_hears_the_first_and_the_last_step(name: str, step: int) -> None:
    shape, outputs, _ = SMALL[name]
    module = fresh(name, shape, outputs)
    x, _ = batch(name, shape, outputs)
    changed = x.clone()
    changed[:, step] = (x[:, step] + 1) % outputs
    assert (module(changed) != module(x)).any(dim=1).all()


def test_residual_branches_start_at_zero_but_learn() -> None:
    """At first the output does not depend on the branches; yet their last layers get gradients."""
    module = fresh("resnet10", DIGITS, 10)
    x, target = batch("resnet10", DIGITS, 10)
    before = module(x)
    torch.autograd.backward(loss_of(before, target))
    last = [p for name, p in module.named_parameters() if name.endswith("last.weight")]
    first = [p for name, p in module.named_parameters() if name.endswith("first.weight")]
    assert len(last) == len(first) == 4
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in last)
    with torch.no_grad():
        for parameter in first:
            parameter.mul_(3)
    assert torch.equal(module(x), before)
