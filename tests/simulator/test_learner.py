import numpy as np
import pytest
import torch

from simulator.events import Job
from simulator.learner import PoolLearner, SerialLearner
from simulator.model_section import ModelSection
from simulator.task import Task, batches, steps_of
from simulator.training import TrainingSection


def make_task(training=None, x=((1.0,),), y=((0.0,),), parts=None, regression=True):
    y = torch.tensor(y)
    return Task(
        x_train=torch.tensor(x),
        y_train=y,
        x_test=torch.tensor(x),
        y_test=y,
        outputs=1 if regression else 2,
        regression=regression,
        parts={5: np.arange(len(x))} if parts is None else parts,
        model=ModelSection(name="logistic"),
        training=TrainingSection(**(training or {})),
        seed=7,
    )


def local(training, **job):
    """Train from (w, b) = (1, 0) on the sample x = 1, y = 0: loss (w + b)^2, gradient 2(w + b)."""
    learner = SerialLearner(make_task(training))
    return learner.train(Job(node=5, start=torch.tensor([1.0, 0.0]), **job))


def test_one_step_of_sgd():
    update = local({"learning_rate": 0.1})
    assert update.model.tolist() == pytest.approx([0.8, -0.2])
    assert (update.num_samples, update.num_steps, update.loss) == (1, 1, 1.0)


def test_pull_draws_back_to_the_start():
    # second step: gradient 2 * (0.8 - 0.2) = 1.2; pull 0.5 * (-0.2) = -0.1 on both
    update = local({"learning_rate": 0.1, "steps": 2}, pull=0.5)
    assert update.model.tolist() == pytest.approx([0.8 - 0.11, -0.2 - 0.11])


def test_shift_is_added_to_every_step():
    update = local({"learning_rate": 0.1}, shift=torch.tensor([1.0, -1.0]))
    assert update.model.tolist() == pytest.approx([1 - 0.3, 0 - 0.1])


def test_momentum():
    # velocity: 2, then 0.5 * 2 + 1.2 = 2.2
    update = local({"learning_rate": 0.1, "steps": 2, "momentum": 0.5})
    assert update.model.tolist() == pytest.approx([0.8 - 0.22, -0.2 - 0.22])


def test_clipping_bounds_the_direction():
    # direction (2, 2) has norm 2 * sqrt(2); clipped to norm 1 it is (1, 1) / sqrt(2)
    update = local({"learning_rate": 0.1, "clip_norm": 1.0})
    assert update.model.tolist() == pytest.approx([1 - 0.1 / 2**0.5, -0.1 / 2**0.5])


def test_a_job_may_have_its_own_rate_and_steps():
    update = local({"learning_rate": 0.1}, learning_rate=0.05, steps=1)
    assert update.model.tolist() == pytest.approx([0.9, -0.1])
    assert local({"epochs": 3}, steps=2).num_steps == 2
    assert local({"steps": 3}, epochs=2).num_steps == 2


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({"batch_size": 4}, (3, 10)),
        ({"batch_size": 4, "epochs": 2}, (6, 20)),
        ({"batch_size": 20}, (1, 10)),
        ({"batch_size": 4, "steps": 4}, (4, 14)),
        ({"batch_size": 20, "steps": 3}, (3, 30)),
    ],
)
def test_steps_and_samples_of_a_job(training, expected):
    task = make_task(training, x=[[0.0]] * 10, y=[[0.0]] * 10)
    job = Job(node=5, start=torch.zeros(2))
    assert steps_of(task, job) == expected
    read = [len(b) for b in batches(task, job, expected[0])]
    assert sum(read) == expected[1]


def test_every_epoch_reads_every_sample_once_in_a_new_order():
    task = make_task({"batch_size": 4}, x=[[0.0]] * 10, y=[[0.0]] * 10)
    order = torch.cat(list(batches(task, Job(node=5, start=torch.zeros(2)), 6))).tolist()
    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
    assert order[:10] != order[10:]


def test_batches_depend_on_the_count_of_the_job():
    task = make_task({"batch_size": 10}, x=[[0.0]] * 10, y=[[0.0]] * 10)

    def order(count):
        return next(batches(task, Job(node=5, start=torch.zeros(2), count=count), 1)).tolist()

    assert order(0) == order(0)
    assert order(0) != order(1)


def test_the_start_model_is_left_alone():
    start = torch.tensor([1.0, 0.0])
    task = make_task({"steps": 3})
    update = SerialLearner(task).train(Job(node=5, start=start))
    assert len(update.model) == 2
    assert start.tolist() == [1.0, 0.0]
    assert update.model.data_ptr() != start.data_ptr()


def test_evaluation_counts_right_answers():
    task = make_task(x=[[1.0], [1.0], [-1.0], [1.0]], y=[0, 0, 1, 1], regression=False)
    learner = SerialLearner(task)
    score = learner.evaluate(torch.tensor([10.0, -10.0, 0.0, 0.0]))  # x > 0 is class 0
    assert score.accuracy == 0.75
    assert score.loss == pytest.approx(20 / 4, rel=1e-4)


def test_regression_has_a_loss_and_no_accuracy():
    learner = SerialLearner(make_task(x=[[1.0], [2.0]], y=[[0.0], [0.0]]))
    assert learner.evaluate(torch.tensor([1.0, 0.0])) == (None, pytest.approx(2.5))


def test_workers_give_the_same_bits():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 9)).astype("f"), rng.integers(0, 2, 60)
    parts = {i: np.arange(20 * i, 20 * i + 20) for i in range(3)}
    task = make_task({"steps": 7, "batch_size": 8}, x.tolist(), y.tolist(), parts, regression=False)
    serial, pool = SerialLearner(task), PoolLearner(task, 2)
    shift = torch.full((20,), 0.01)
    try:
        updates = [
            [
                learner.train(Job(node=i, start=learner.initial_model(), shift=shift, pull=0.1))
                for i in range(3)
            ]
            for learner in (serial, pool)
        ]
        for a, b in reversed(list(zip(*updates, strict=True))):
            assert torch.equal(a.model, b.model)
            assert (a.node, a.num_samples, a.num_steps, a.loss) == (
                b.node, b.num_samples, b.num_steps, b.loss,
            )  # fmt: skip
    finally:
        pool.close()
