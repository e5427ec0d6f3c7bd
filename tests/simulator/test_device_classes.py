import numpy as np
import pytest
import torch
from pydantic import ValidationError

from simulator.device_classes import ClassCompute, ClassDelay
from simulator.errors import UserError
from simulator.flops import training_flops
from simulator.model_section import ModelSection
from simulator.models import build_model

DEVICES = tuple(range(10, 210))
SLOW = {"slow": {"gflops": 0.001, "cores": 2, "idle_w": 1.0, "busy_w": 2.0}}


def compute(seed=1, flops=1000.0, **options):
    options = {"mix": {"slow": 1}, "classes": SLOW} | options
    return ClassCompute(ClassDelay(kind="classes", **options), DEVICES, seed, flops)


def test_a_job_takes_its_operations_by_the_rate_of_all_cores():
    """50 samples of 1000 operations each, on two cores of a million operations per second."""
    assert compute().duration(10, 0, steps=5, samples=50) == 25_000_000


def test_the_log_normal_has_mean_one_and_is_drawn_for_every_job():
    delays = compute(sigma=0.5)
    drawn = np.array([delays.duration(10, n, 1, 50) for n in range(4000)]) / 25e6
    assert drawn.mean() == pytest.approx(1, rel=0.03)
    assert np.log(drawn).std() == pytest.approx(0.5, rel=0.05)
    assert delays.duration(10, 3, 1, 50) == compute(sigma=0.5).duration(10, 3, 1, 50)
    assert delays.duration(10, 3, 1, 50) != compute(seed=2, sigma=0.5).duration(10, 3, 1, 50)


def test_devices_draw_their_class_from_the_mix():
    names = compute(mix={"phone": 1, "slow": 3}).names
    assert sum(name == "slow" for name in names.values()) == pytest.approx(150, abs=20)
    assert names == compute(mix={"slow": 30, "phone": 10}).names
    assert names != compute(mix={"phone": 1, "slow": 3}, seed=2).names


def test_a_class_of_ones_own_may_replace_a_built_in():
    delays = compute(mix={"phone": 1}, classes={"phone": SLOW["slow"]})
    assert delays.class_of(10).cores == 2


def test_dropouts_come_at_their_rate():
    delays = compute(dropout_probability=0.25)
    drawn = [delays.duration(10, n, 1, 50) for n in range(2000)]
    assert drawn.count(None) == pytest.approx(500, rel=0.15)


def test_bad_mixes_are_told():
    with pytest.raises(ValidationError, match="unknown device class 'slov'; did you mean 'slow'"):
        compute(mix={"slov": 1})
    with pytest.raises(ValidationError, match="greater than 0"):
        compute(mix={"slow": 0})


def test_a_job_of_centuries_is_told():
    with pytest.raises(UserError, match=r"takes 2.5e\+10 s on class 'slow', at most 1e\+09 s"):
        compute(flops=1e15).duration(10, 0, 1, 50)


def flops_of(name, shape, outputs, dtype=torch.float32, **options):
    return training_flops(
        build_model(ModelSection(name=name, **options), shape, outputs), shape, dtype
    )


def test_operations_of_a_dense_network():
    """Per weight 2 forward, 2 for its gradient, and 2 for its input's, which the data need not."""
    assert flops_of("mlp", (1, 8, 8), 10, hidden=(32,)) == 4 * 64 * 32 + 6 * 32 * 10


def test_operations_of_a_convolutional_network():
    """A weight of a convolution counts once for every pixel of its output."""
    first = 8 * 64 * 1 * 9
    second = 16 * 16 * 8 * 9
    dense = 16 * 4 * 32 + 32 * 10
    assert flops_of("cnn-small", (1, 8, 8), 10) == 4 * first + 6 * second + 6 * dense


def test_operations_of_an_lstm():
    """Four gates a step; the first step has neither input nor state to give gradients to."""
    steps, features, units, outputs = 24, 5, 128, 3
    gates = 4 * units
    expected = 4 * steps * features * gates + (6 * steps - 2) * units * gates + 6 * units * outputs
    assert flops_of("series-lstm", (steps, features), outputs) == expected


@pytest.mark.parametrize(
    "network",
    [
        {"kind": "flow"},
        {"kind": "linear", "d": 0.1, "b": 1.0, "e": 0.05, "f": 0.5, "d_g": 0.5, "b_g": 2.0, "e_g": 0.1, "f_g": 0.2},
    ],
)  # fmt: skip
def test_classes_on_every_network(scenario, run_in, network, tmp_path):
    """240 or 241 samples a device, 64 inputs, 10 outputs: 4 x 640 operations a sample."""
    classes = {"kind": "classes", "mix": {"slow": 1}, "classes": SLOW}
    run_in(scenario({"compute": classes, "network": network, "run": {"epochs": 1}}))
    events = [
        line.split("\t") for line in (tmp_path / "run" / "events.log").read_text().splitlines()
    ]
    begun = {e[4]: int(e[0]) for e in events if e[1] == "arrived" and e[5] == "down"}
    lasted = [int(e[0]) - begun[e[2]] for e in events if e[1] == "trained"]
    assert len(lasted) == 6
    assert set(lasted) == {240 * 1_280_000, 241 * 1_280_000}
