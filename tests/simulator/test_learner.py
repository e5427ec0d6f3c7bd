import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from simulator.engines import build_engine
from simulator.engines.serial import SerialEngine
from simulator.errors import UserError
from simulator.events import Job
from simulator.learner import DeferredLearner
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


def serial(task):
    return DeferredLearner(task, SerialEngine(task))


def local(training, **job):
    """Train from (w, b) = (1, 0) on the sample x = 1, y = 0: loss (w + b)^2, gradient 2(w + b)."""
    learner = serial(make_task(training))
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
    update = serial(task).train(Job(node=5, start=start))
    assert len(update.model) == 2
    assert start.tolist() == [1.0, 0.0]
    assert update.model.data_ptr() != start.data_ptr()


def test_evaluation_counts_right_answers():
    task = make_task(x=[[1.0], [1.0], [-1.0], [1.0]], y=[0, 0, 1, 1], regression=False)
    learner = serial(task)
    score = learner.evaluate(torch.tensor([10.0, -10.0, 0.0, 0.0]))  # x > 0 is class 0
    assert score.accuracy == 0.75
    assert score.loss == pytest.approx(20 / 4, rel=1e-4)


def test_regression_has_a_loss_and_no_accuracy():
    learner = serial(make_task(x=[[1.0], [2.0]], y=[[0.0], [0.0]]))
    assert learner.evaluate(torch.tensor([1.0, 0.0])) == (None, pytest.approx(2.5))


class Watched(SerialEngine):
    """Tells which jobs were trained together."""

    def __init__(self, task, at_once=3):
        super().__init__(task)
        self.jobs_at_once = at_once
        self.chunks = []

    def results(self, chunk):
        self.chunks.append([job.node for job in chunk])
        return super().results(chunk)


def many(count=20, features=9):
    """A task of devices with 20 samples each."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20 * count, features)).astype("f"), rng.integers(0, 2, 20 * count)
    parts = {i: np.arange(20 * i, 20 * i + 20) for i in range(count)}
    return make_task({"steps": 7, "batch_size": 8}, x.tolist(), y.tolist(), parts, regression=False)


def watched(**options):
    task = many()
    engine = Watched(task, **options)
    learner = DeferredLearner(task, engine)
    start = learner.initial_model()
    return learner, engine, lambda node, due=0: learner.train(Job(node=node, start=start), due)


def test_nothing_is_trained_before_it_is_asked_for():
    _, engine, train = watched()
    updates = [train(node) for node in range(5)]
    assert engine.chunks == []
    assert updates[0].model is not None
    assert len(engine.chunks) == 1


def test_what_is_due_next_is_trained_along():
    _, engine, train = watched()
    due = {0: 50, 1: 40, 2: 10, 3: 30, 4: 20}
    updates = {node: train(node, time) for node, time in due.items()}
    assert updates[0].loss > 0
    assert engine.chunks == [[0, 2, 4]]
    assert [updates[node].is_computed for node in due] == [True, False, True, False, True]
    assert updates[4].loss > 0
    assert updates[1].loss > 0
    assert engine.chunks == [[0, 2, 4], [1, 3]]


def test_what_is_expected_comes_first():
    learner, engine, train = watched()
    updates = [train(node, due=node) for node in range(8)]
    learner.expect([updates[7], updates[5], updates[6], updates[4]])
    assert updates[7].loss > 0
    assert updates[4].loss > 0
    assert engine.chunks == [[7, 5, 6], [4, 0, 1]]


def test_a_job_that_nobody_has_any_more_is_never_trained():
    _, engine, train = watched()
    updates = [train(node) for node in range(5)]
    del updates[1:4]
    gc.collect()
    assert [update.loss > 0 for update in updates] == [True, True]
    assert engine.chunks == [[0, 4]]


def test_few_results_lie_about_unasked_for():
    learner, _, train = watched()
    learner._most_ahead = 5
    updates = [train(node) for node in range(20)]
    for update in reversed(updates):
        assert update.loss > 0
        assert sum(u.is_computed for u in updates[: update.node]) <= 5


def test_results_that_were_saved_are_not_computed_again():
    _, engine, train = watched()
    updates = [train(node) for node in range(3)]
    updates[1].take(updates[0].result)
    engine.chunks.clear()
    assert updates[1].loss == updates[0].loss
    assert engine.chunks == []


@pytest.mark.parametrize(
    ("name", "workers"),
    [("threads", 1), ("threads", 3), ("processes", 1), ("processes", 3), ("ray", 2)],
)
def test_engines_give_the_same_bits(name, workers):
    task = many()
    jobs = [
        Job(node=node, start=torch.full((20,), 0.1 * (node % 4)), pull=0.1 * (node % 2),
            shift=torch.full((20,), 0.01 * node) if node % 3 else None, steps=1 + node % 5)
        for node in range(20)
    ]  # fmt: skip
    alone = [serial(task).train(job).result for job in jobs]
    learner = DeferredLearner(task, build_engine(name, task, workers, None))
    try:
        for _ in range(3):
            updates = [learner.train(job) for job in jobs]
            del updates[17]  # nobody waits for it
            for update in reversed(updates):
                model, loss = alone[update.node]
                assert torch.equal(update.model, model)
                assert update.loss == loss
    finally:
        learner.close()


@pytest.mark.parametrize("workers", [1, 3])
def test_threads_give_the_same_bits_of_what_torch_trains(workers):
    task = many()
    task = replace(task, training=task.training.model_copy(update={"kernels": "autograd"}))
    jobs = [Job(node=node, start=torch.zeros(20), steps=1 + node % 5) for node in range(20)]
    alone = [serial(task).train(job).result for job in jobs]
    learner = DeferredLearner(task, build_engine("threads", task, workers, None))
    try:
        updates = [learner.train(job) for job in jobs]
        for update, (model, loss) in zip(updates, alone, strict=True):
            assert torch.equal(update.model, model)
            assert update.loss == loss
    finally:
        learner.close()


def test_models_from_workers_outlive_their_chunk():
    """They lie in memory that is used again when nobody has any of a chunk's models."""
    task = many()
    learner = DeferredLearner(task, build_engine("processes", task, 2, None))
    start = learner.initial_model()
    try:
        kept = {}
        for turn in range(30):
            updates = [learner.train(Job(node=n, start=start, count=turn)) for n in range(20)]
            kept[turn] = updates[turn % 20].model[3:]  # a view
            assert all(update.loss > 0 for update in updates)
            del updates
        for turn, part in kept.items():
            again = serial(task).train(Job(node=turn % 20, start=start, count=turn))
            assert torch.equal(part, again.model[3:])
    finally:
        learner.close()


@pytest.mark.parametrize("when", ["idle", "at work"])
def test_a_worker_that_dies_ends_the_run_with_a_word_and_no_wait(when):
    task = many()
    engine = build_engine("processes", task, 2, None)
    learner = DeferredLearner(task, engine)
    start = learner.initial_model()
    assert learner.train(Job(node=0, start=start)).loss > 0
    workers = multiprocessing.active_children()
    steps = 1 if when == "idle" else 200_000
    updates = [learner.train(Job(node=n, start=start, steps=steps)) for n in range(20)]
    if when == "at work":
        learner.expect(updates)
        threading.Timer(0.3, workers[0].kill).start()
    else:
        workers[0].kill()
        workers[0].join()

    def go_on():
        for update in updates:
            assert update.loss > 0
        for _ in range(2000):
            assert learner.train(Job(node=0, start=start)).loss > 0

    with pytest.raises(UserError, match="a worker process has died"):
        go_on()
    began = time.monotonic()
    learner.close()
    assert time.monotonic() - began < 20


def test_an_engine_that_is_closed_does_not_wait_for_what_its_workers_are_at():
    task = many()
    engine = build_engine("processes", task, 2, None)
    engine.results(engine.submit([Job(node=0, start=torch.zeros(20))]))
    engine.submit([Job(node=0, start=torch.zeros(20), steps=20_000_000)])  # minutes
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 20


def test_rounds_that_are_given_up_at_work_leave_room_for_others():
    task = many()
    learner = DeferredLearner(task, build_engine("processes", task, 1, None))
    start = learner.initial_model()
    try:
        kept = []
        for turn in range(12):
            updates = [learner.train(Job(node=n, start=start, count=turn)) for n in range(20)]
            kept.append(updates[0].model)
            del updates  # most of them are at work or wait for it
        for turn in range(20):
            lost = [learner.train(Job(node=n, start=start, steps=300)) for n in range(20)]
            learner.expect(lost)
            assert lost[turn].loss > 0
            del lost
    finally:
        learner.close()


@pytest.mark.parametrize(
    ("kernels", "workers", "name"),
    [("native", 1, "Serial"), ("native", 2, "Thread"), ("autograd", 2, "Process")],
)
def test_the_engine_that_is_fastest(kernels, workers, name):
    task = many()
    task = replace(task, training=task.training.model_copy(update={"kernels": kernels}))
    engine = build_engine("auto", task, workers, None)
    assert type(engine).__name__ == f"{name}Engine"
    engine.close()


def test_what_a_thread_cannot_train_is_said_where_it_is_asked_for():
    """And the thread trains what comes after it."""
    task = many()
    engine = build_engine("threads", task, 1, None)
    bad = engine.submit([Job(node=99, start=torch.zeros(20))])
    good = engine.submit([Job(node=0, start=torch.zeros(20))])
    with pytest.raises(KeyError, match="99"):
        engine.results(bad)
    assert len(engine.results(good)) == 1
    engine.close()


def test_a_serial_engine_has_no_workers():
    with pytest.raises(UserError, match="engine = 'serial' trains in one process, not in 2"):
        build_engine("serial", many(), 2, None)


def test_a_cluster_that_is_not_there():
    with pytest.raises(UserError, match="no Ray cluster answers"):
        build_engine("ray", many(), 1, "127.0.0.1:1")


def test_torchs_products_do_not_depend_on_where_their_results_lie():
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


def test_a_program_that_ends_by_an_error_ends_its_workers():
    code = """
import numpy as np, torch
from simulator.engines import build_engine
from simulator.events import Job
from simulator.model_section import ModelSection
from simulator.task import Task
from simulator.training import TrainingSection

if __name__ == "__main__":
    x = torch.zeros(1, 1)
    section, training = ModelSection(name="logistic"), TrainingSection()
    task = Task(x, x, x, x, 1, True, {5: np.arange(1)}, section, training, seed=7)
    engine = build_engine("processes", task, 2, None)
    chunk = engine.submit([Job(node=5, start=torch.zeros(2))])
    raise SystemExit(3)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
