"""Stacked training: a job's bits do not depend on its company, and agree with autograd's."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from simulator.cohort import train_together
from simulator.events import Job
from simulator.kernels import Models, kernel_for
from simulator.model_section import ModelSection
from simulator.models import build_model, flat_parameters
from simulator.task import Task
from simulator.trainer import train
from simulator.training import TrainingSection

MODELS = {
    "logistic": (ModelSection(name="logistic"), (1, 28, 28), 10, False),
    "mlp": (ModelSection(name="mlp"), (1, 28, 28), 10, False),
    "deep mlp": (ModelSection(name="mlp", hidden=(33, 7)), (13,), 3, False),
    "wide mlp": (ModelSection(name="mlp", hidden=(600,)), (784,), 10, False),
    "dense regression": (ModelSection(name="mlp", hidden=(5,)), (6,), 1, True),
    "cnn-small": (ModelSection(name="cnn-small"), (1, 28, 28), 10, False),
    "cnn-small, odd sizes": (ModelSection(name="cnn-small"), (2, 7, 10), 3, True),
    "cnn-async-hfl": (ModelSection(name="cnn-async-hfl"), (1, 28, 28), 10, False),
    "cnn-sync-time": (ModelSection(name="cnn-sync-time"), (3, 32, 32), 10, False),
    "line": (ModelSection(name="logistic"), (1,), 1, True),
}
"""Section, shape of a sample, outputs, whether a regression."""


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def samples_for(shape, outputs, regression, section, count, rng):
    if section.name == "char-lstm":
        x = torch.from_numpy(rng.integers(0, outputs, (count, *shape)))
    else:
        x = torch.from_numpy(rng.normal(size=(count, *shape)).astype("f"))
    y = rng.normal(size=(count, outputs)).astype("f")
    return x, torch.from_numpy(y if regression else rng.integers(0, outputs, count))


def make_task(name, sizes, **training):
    section, shape, outputs, regression = MODELS[name]
    x, y = samples_for(shape, outputs, regression, section, sum(sizes), np.random.default_rng(0))
    ends = np.cumsum(sizes)
    parts = {
        node: np.arange(end - size, end)
        for node, (size, end) in enumerate(zip(sizes, ends, strict=True))
    }
    training = TrainingSection(**training)
    return Task(x, y, x[:1], y[:1], outputs, regression, parts, section, training, seed=5)


def kernel_of(task):
    return kernel_for(task.build().module, task.x_train.shape[1:], task.regression)


def start_of(task, number):
    torch.manual_seed(number)
    return flat_parameters(build_model(task.model, tuple(task.x_train.shape[1:]), task.outputs))


def some_jobs(task, rng):
    """Every device once or more, in any order, each with options of its own."""
    nodes = [node for node in task.parts for _ in range(rng.choice((1, 1, 2)))]
    rng.shuffle(nodes)
    size = len(start_of(task, 0))
    return [
        Job(
            node=node,
            start=start_of(task, rng.randrange(3)),
            pull=rng.choice((0.0, 0.0, 0.3)),
            shift=rng.choice((None, None, 0.01 * torch.randn(size))),
            steps=rng.choice((None, 1, 2, 9)),
            learning_rate=rng.choice((None, 0.03)),
            count=count,
        )
        for count, node in enumerate(nodes)
    ]


SIZES = (20, 3, 41, 20, 8, 1, 25, 33, 40)
STEERINGS = ({}, {"momentum": 0.7}, {"clip_norm": 0.5})


@pytest.mark.parametrize("training", STEERINGS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_bits_of_a_job_do_not_depend_on_its_company(name, training):
    task = make_task(name, SIZES, learning_rate=0.1, batch_size=20, epochs=2, **training)
    kernel, rng = kernel_of(task), random.Random(1)
    jobs = some_jobs(task, rng)
    alone = [train_together(task, kernel, [job])[0] for job in jobs]
    for count in (2, 3, 7, len(jobs)):
        places = rng.sample(range(len(jobs)), count)
        for place, result in zip(
            places, train_together(task, kernel, [jobs[p] for p in places]), strict=True
        ):
            assert torch.equal(result.model, alone[place].model)
            assert result.loss == alone[place].loss


@pytest.mark.parametrize("training", STEERINGS, ids=str)
@pytest.mark.parametrize("first", ["with a shift", "without"])
def test_jobs_with_and_without_a_shift_do_not_mix(first, training):
    """Alike but for that, as FedDyn's when some devices train for the first time."""
    task = make_task("deep mlp", [40] * 6, learning_rate=0.1, batch_size=20, epochs=2, **training)
    kernel, start = kernel_of(task), start_of(task, 0)
    shift = 0.05 * torch.randn(len(start), generator=torch.Generator().manual_seed(1))
    odd = first == "without"
    jobs = [
        Job(node=n, start=start, pull=0.3, shift=shift if (n % 2) == odd else None)
        for n in task.parts
    ]
    net = task.build()
    for job, result in zip(jobs, train_together(task, kernel, jobs), strict=True):
        assert torch.equal(result.model, train_together(task, kernel, [job])[0].model)
        expected = train(task, net, job).model
        assert (result.model - expected).norm() < 1e-5 * (expected - start).norm()


@pytest.mark.parametrize(("pull", "rate"), [(0.3, 0.1), (10.0, 0.1), (15.0, 0.1), (2.0, 0.03)])
def test_a_step_with_pull_and_shift_is_autograds(pull, rate):
    """Also where the model is pulled back whole (rate * pull = 1), or beyond its start."""
    task = make_task("mlp", (40,), learning_rate=0.01, batch_size=20, epochs=2)
    start = start_of(task, 0)
    shift = 0.01 * torch.randn(len(start), generator=torch.Generator().manual_seed(1))
    job = Job(node=0, start=start, pull=pull, shift=shift, learning_rate=rate)
    expected = train(task, task.build(), job).model
    found = train_together(task, kernel_of(task), [job])[0].model
    assert (found - expected).norm() < 1e-5 * (expected - start).norm()


def test_products_do_not_depend_on_where_their_results_lie():
    """What the setting of MKL_CBWR is for; a process of its own, for MKL reads it only once."""
    code = """
import simulator, torch
torch.set_num_threads(1)
room = torch.empty(4096)
a, b = torch.randn(2, 20, 33), torch.randn(2, 33, 7)
first = None
for place in range(16):
    out = room[place : place + 280].view(2, 20, 7)
    torch.bmm(a, b, out=out)
    first = out.clone() if first is None else first
    assert torch.equal(out, first), place
"""
    for given in ({}, {"MKL_CBWR": ""}):
        environment = {k: v for k, v in os.environ.items() if k != "MKL_CBWR"} | given
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("name", ["mlp", "deep mlp", "dense regression", "cnn-small", "line"])
def test_the_bits_of_a_job_do_not_depend_on_its_company_in_batches_of_any_size(name, batch_size):
    task = make_task(name, (9, 2, 9, 15, 70), learning_rate=0.1, batch_size=batch_size, steps=3)
    kernel = kernel_of(task)
    jobs = [Job(node=node, start=start_of(task, node)) for node in task.parts]
    for job, result in zip(jobs, train_together(task, kernel, jobs), strict=True):
        alone = train_together(task, kernel, [job])[0]
        assert torch.equal(result.model, alone.model)
        assert result.loss == alone.loss


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_do_not_depend_on_the_size_of_a_large_cohort(name):
    task = make_task(name, [20] * 64, learning_rate=0.1, batch_size=20)
    kernel = kernel_of(task)
    jobs = [Job(node=node, start=start_of(task, node % 3)) for node in task.parts]
    together = train_together(task, kernel, jobs)
    for some in (jobs[:1], jobs[7:9], jobs[30:33], jobs[40:60], jobs[::-1]):
        for job, result in zip(some, train_together(task, kernel, some), strict=True):
            assert torch.equal(result.model, together[job.node].model)
            assert result.loss == together[job.node].loss


@pytest.mark.parametrize("training", STEERINGS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_same_training_as_one_job_at_a_time_with_autograd(name, training):
    task = make_task(name, SIZES, learning_rate=0.1, batch_size=20, epochs=2, **training)
    jobs, net = some_jobs(task, random.Random(2)), task.build()
    for job, result in zip(jobs, train_together(task, kernel_of(task), jobs), strict=True):
        expected = train(task, net, job)
        way = (expected.model - job.start).norm()
        # one max-pool that rounding decides otherwise may cost more than a thousandth
        assert (result.model - expected.model).norm() <= 1e-2 * way
        assert result.loss == pytest.approx(expected.loss, rel=1e-4)
        assert result.model.is_contiguous()
        assert len(result.model) == len(job.start)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=str
)
@pytest.mark.parametrize("few_steps", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_autograd(name, few_steps, dtype, tolerance):
    """Batches of 7 filled up to 9, in two rows that differ."""
    section, shape, outputs, regression = MODELS[name]
    x, y = samples_for(shape, outputs, regression, section, 18, np.random.default_rng(1))
    x = x.to(dtype) if x.is_floating_point() else x
    y = y.to(dtype) if regression else y
    weight = torch.zeros(2, 9, dtype=dtype)
    weight[:, :7] = 1 / 7
    modules = [build_model(section, shape, outputs).to(dtype) for _ in range(2)]
    starts = [nn.utils.parameters_to_vector(m.parameters()).detach() for m in modules]
    kernel = kernel_for(modules[0], shape, regression)
    kernel = kernel.for_few_steps if few_steps else kernel
    count = min(2, kernel.jobs_at_once)
    for first in range(0, 2, count):
        stack = slice(first, first + count)
        models, gradients = (Models(kernel.slots, count, dtype) for _ in range(2))
        models.load(starts[stack])
        step = kernel.at_work(models.blocks, gradients.blocks, 9)
        losses = step(x.unflatten(0, (2, 9))[stack], y.unflatten(0, (2, 9))[stack], weight[stack])
        for place in range(first, first + count):
            gradient = gradients.vector(place - first)
            module, batch = modules[place], slice(9 * place, 9 * place + 7)
            criterion = nn.functional.mse_loss if regression else nn.functional.cross_entropy
            loss = criterion(module(x[batch]), y[batch])
            loss.backward()
            expected = nn.utils.parameters_to_vector([p.grad for p in module.parameters()])
            assert (gradient - expected).norm() <= tolerance * expected.norm()
            found = float((losses[place - first] * weight[place]).sum())
            assert found == pytest.approx(float(loss.detach()), rel=tolerance)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("vgg9", (3, 16, 16)),
        ("resnet10", (3, 16, 16)),
        ("char-lstm", (9,)),
        ("series-lstm", (5, 2)),
    ],
)
def test_no_kernel_for_what_is_best_left_to_autograd(name, shape):
    module = build_model(ModelSection(name=name), shape, 10)
    assert kernel_for(module, shape, regression=False) is None


def test_no_jobs_no_results():
    task = make_task("line", [3])
    assert train_together(task, kernel_of(task), []) == []
