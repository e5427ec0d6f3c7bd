import pytest
import torch

from simulator.build import build
from simulator.errors import UserError
from simulator.events import Job
from simulator.no_learning import NoLearner
from simulator.training import TrainingSection

NONE = {"run": {"learning": "none"}}


def learner(samples=50, **training):
    return NoLearner(1000, TrainingSection(**training), samples)


@pytest.mark.parametrize(
    ("training", "job", "expected"),
    [
        ({"batch_size": 20}, {}, (3, 50)),
        ({"batch_size": 20, "epochs": 4}, {}, (12, 200)),
        ({"batch_size": 20, "steps": 4}, {}, (4, 70)),
        ({"batch_size": 20, "steps": 4}, {"epochs": 1}, (3, 50)),
        ({"batch_size": 100}, {"steps": 2}, (2, 100)),
    ],
)
def test_the_work_is_that_of_so_many_samples(training, job, expected):
    assert learner(**training).work(Job(node=7, start=torch.zeros(1), **job)) == expected


def test_an_update_is_where_it_started():
    start = torch.zeros(1)
    update = learner(batch_size=20).train(Job(node=7, start=start))
    assert update.model is start
    assert (update.num_samples, update.num_steps, learner().num_samples(3)) == (50, 3, 50)


def test_nothing_to_score():
    assert learner().evaluate(torch.zeros(1)) == (None, None)


def test_a_given_size_needs_no_data_and_a_named_model_does(scenario, tmp_path, monkeypatch):
    monkeypatch.setenv("MESHFL_DATA", str(tmp_path))
    absent = {"data": {"name": "cinic10"}}
    world = build(scenario(NONE, absent, {"model": {"transfer_bytes": 12345}}), tmp_path)
    assert world.learner.model_bytes == 12345
    assert world.learner.num_samples(world.topology.devices[0]) == 100
    with pytest.raises(UserError, match="meshfl data fetch cinic10"):
        build(scenario(NONE, absent), tmp_path)
    assert build(scenario(NONE), tmp_path).learner.model_bytes == 4 * (64 * 10 + 10)


def test_machines_take_the_time_of_the_named_model(scenario, tmp_path):
    classes = {"compute": {"kind": "classes", "mix": {"phone": 1}}}
    nominal = {"data": {"samples_per_device": 240}, "model": {"transfer_bytes": 12345}}
    world = build(scenario(NONE, classes, nominal), tmp_path)
    learned = build(scenario(classes), tmp_path)
    device = world.topology.devices[0]
    job = Job(node=device, start=torch.zeros(1))
    assert world.learner.work(job) == (12, 240)
    assert world.compute.duration(device, 0, 12, 240) == learned.compute.duration(
        device, 0, 12, 240
    )
