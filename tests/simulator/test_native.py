"""Training in C++: a job's bits do not depend on its company, and agree with autograd's."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from simulator.events import Job
from simulator.model_section import ModelSection
from simulator.models import build_model, flat_parameters
from simulator.native import NativeTrainer
from simulator.native.layers import layers_of
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
    "char-lstm": (ModelSection(name="char-lstm", layers=1), (17,), 30, False),
    "char-lstm, two layers": (ModelSection(name="char-lstm"), (7,), 30, False),
    "series-lstm": (ModelSection(name="series-lstm"), (11, 3), 2, True),
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


def trainer_of(task):
    trainer = NativeTrainer.make(task)
    assert trainer is not None
    return trainer


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
    trainer, rng = trainer_of(task), random.Random(1)
    jobs = some_jobs(task, rng)
    alone = [trainer.train([job])[0] for job in jobs]
    for count in (2, 3, 7, len(jobs)):
        places = rng.sample(range(len(jobs)), count)
        for place, result in zip(places, trainer.train([jobs[p] for p in places]), strict=True):
            assert torch.equal(result.model, alone[place].model)
            assert result.loss == alone[place].loss


@pytest.mark.parametrize("training", STEERINGS, ids=str)
@pytest.mark.parametrize("first", ["with a shift", "without"])
def test_jobs_with_and_without_a_shift_do_not_mix(first, training):
    """Alike but for that, as FedDyn's when some devices train for the first time."""
    task = make_task("deep mlp", [40] * 6, learning_rate=0.1, batch_size=20, epochs=2, **training)
    trainer, start = trainer_of(task), start_of(task, 0)
    shift = 0.05 * torch.randn(len(start), generator=torch.Generator().manual_seed(1))
    odd = first == "without"
    jobs = [
        Job(node=n, start=start, pull=0.3, shift=shift if (n % 2) == odd else None)
        for n in task.parts
    ]
    net = task.build()
    for job, result in zip(jobs, trainer.train(jobs), strict=True):
        assert torch.equal(result.model, trainer.train([job])[0].model)
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
    found = trainer_of(task).train([job])[0].model
    assert (found - expected).norm() < 1e-5 * (expected - start).norm()


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("name", ["mlp", "deep mlp", "dense regression", "cnn-small", "line"])
def test_the_bits_of_a_job_do_not_depend_on_its_company_in_batches_of_any_size(name, batch_size):
    task = make_task(name, (9, 2, 9, 15, 70), learning_rate=0.1, batch_size=batch_size, steps=3)
    trainer = trainer_of(task)
    jobs = [Job(node=node, start=start_of(task, node)) for node in task.parts]
    for job, result in zip(jobs, trainer.train(jobs), strict=True):
        alone = trainer.train([job])[0]
        assert torch.equal(result.model, alone.model)
        assert result.loss == alone.loss


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_do_not_depend_on_the_size_of_a_large_cohort(name):
    task = make_task(name, [20] * 64, learning_rate=0.1, batch_size=20)
    trainer = trainer_of(task)
    jobs = [Job(node=node, start=start_of(task, node % 3)) for node in task.parts]
    together = trainer.train(jobs)
    for some in (jobs[:1], jobs[7:9], jobs[30:33], jobs[40:60], jobs[::-1]):
        for job, result in zip(some, trainer.train(some), strict=True):
            assert torch.equal(result.model, together[job.node].model)
            assert result.loss == together[job.node].loss


@pytest.mark.parametrize("training", STEERINGS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_same_training_as_one_job_at_a_time_with_autograd(name, training):
    task = make_task(name, SIZES, learning_rate=0.1, batch_size=20, epochs=2, **training)
    jobs, net = some_jobs(task, random.Random(2)), task.build()
    for job, result in zip(jobs, trainer_of(task).train(jobs), strict=True):
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
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_autograd(name, dtype, tolerance):
    """A step of length 1 from a model shows its gradient."""
    task = make_task(name, (7, 9), learning_rate=1.0, batch_size=9, steps=1)
    if task.x_train.is_floating_point():
        task = replace(task, x_train=task.x_train.to(dtype))
    y = task.y_train.to(dtype) if task.regression else task.y_train
    trainer = NativeTrainer.make(task, dtype)
    for node, part in task.parts.items():
        module = build_model(task.model, tuple(task.x_train.shape[1:]), task.outputs).to(dtype)
        start = nn.utils.parameters_to_vector(module.parameters()).detach()
        [result] = trainer.train([Job(node=node, start=start)])
        criterion = nn.functional.mse_loss if task.regression else nn.functional.cross_entropy
        loss = criterion(module(task.x_train[part]), y[part])
        loss.backward()
        expected = nn.utils.parameters_to_vector([p.grad for p in module.parameters()])
        assert (start - result.model - expected).norm() <= tolerance * expected.norm()
        assert result.loss == pytest.approx(float(loss.detach()), rel=tolerance)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("vgg9", (3, 16, 16)),
        ("resnet10", (3, 16, 16)),
    ],
)
def test_what_is_left_to_autograd(name, shape):
    module = build_model(ModelSection(name=name), shape, 10)
    assert layers_of(module, shape) is None


UNKNOWN = {
    "no bias": nn.Sequential(nn.Flatten(), nn.Linear(6, 4, bias=False)),
    "rows are not flattened": nn.Linear(3, 4),
    "a border that is not of zeros": nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.MaxPool2d(2), nn.ReLU()
    ),
    "a layer used twice": nn.Sequential(nn.Flatten(), *[nn.Linear(6, 6)] * 2),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_only_looks_like_a_known_layer_is_left_to_autograd(name):
    shape = (1, 8, 8) if "border" in name else (2, 3)
    assert layers_of(UNKNOWN[name], shape) is None


@pytest.mark.parametrize("name", ["mlp", "cnn-small", "char-lstm"])
def test_what_is_broken_stays_broken(name):
    """A model with a NaN that is used has no healthy loss."""
    task = make_task(name, (20,), learning_rate=0.1, batch_size=20)
    start = start_of(task, 0)
    start[len(start) // 100] = torch.nan
    expected = train(task, task.build(), Job(node=0, start=start))
    [found] = trainer_of(task).train([Job(node=0, start=start)])
    assert torch.equal(found.model.isnan(), expected.model.isnan())
    assert np.isnan(found.loss) == np.isnan(expected.loss)


def test_data_that_have_moved_are_not_read():
    task = make_task("line", [3])
    trainer, job = trainer_of(task), Job(node=0, start=start_of(task, 0))
    task.x_train.share_memory_()
    with pytest.raises(RuntimeError, match="the data have moved"):
        trainer.train([job])


def test_no_jobs_no_results():
    task = make_task("line", [3])
    assert trainer_of(task).train([]) == []
