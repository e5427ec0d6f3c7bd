"""The kernel's order and clock, on a network of known delays."""

from dataclasses import dataclass, field

import pytest
import torch

from simulator.events import Alarm, Arrived, Job, Lost, Result, Trained, Update
from simulator.kernel import Simulation
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.table import TableNetwork
from simulator.parts import FOREVER, Goals, Score, World
from simulator.rng import Stream
from topologies import Link, Node, Tier, Topology

SECOND = 10**9
CLOUD, GATEWAY, DEVICE, OTHER = range(4)
TOPOLOGY = Topology(
    "line",
    (
        Node("cloud", Tier.CLOUD), Node("g0", Tier.GATEWAY),
        Node("d0", Tier.DEVICE), Node("d1", Tier.DEVICE),
    ),
    tuple(Link(a, b, 1e6, 0.0) for a, b in [(0, 1), (1, 2), (1, 3)]),
    (),
)  # fmt: skip


class Learner:
    model_bytes = 100

    def __init__(self):
        self.trained, self.evaluated = [], 0

    def initial_model(self):
        return torch.zeros(1)

    def work(self, job):
        return 1, 1

    def train(self, job, due=0):
        def compute(_):
            self.trained.append(job.tag)
            return Result(job.start, 0.5)

        return Update(job, 1, 1, compute)

    def expect(self, updates):
        pass

    def evaluate(self, model):
        self.evaluated += 1
        return Score(float(model[0]), 1.0)


class Compute:
    def estimate(self, node, steps, samples):
        return 0

    def duration(self, node, count, steps, samples):
        return 2 * SECOND


@dataclass
class Recorder:
    rows: list = field(default_factory=list)
    transfers: list = field(default_factory=list)

    def transfer(self, end, status, flow, src, dst, kind, nbytes, start, reason, *_):
        self.transfers.append((status, kind, nbytes))

    def trained(self, time, update):
        pass

    def alarm(self, time, tag):
        pass

    def row(self, time, row):
        self.rows.append((time / SECOND, row["epoch"], row["accuracy"]))


@dataclass
class Script:
    """Does what it is told at the start, writes down what happens, reacts if told how."""

    begin: object
    react: object = None
    seen: list = field(default_factory=list)

    def start(self, sim):
        self.begin(sim)

    def handle(self, sim, event):
        label = {
            Arrived: lambda: event.message,
            Lost: lambda: event.message,
            Trained: lambda: event.update.job.tag,
            Alarm: lambda: event.tag,
        }[type(event)]()
        self.seen.append((sim.now / SECOND, type(event).__name__, label))
        if self.react:
            self.react(sim, event)


def simulate(begin, react=None, **goals):
    delays = {(a, b): SECOND for a in range(4) for b in range(4) if a != b}
    script = Script(begin, react)
    world = World(
        topology=TOPOLOGY,
        network=TableNetwork(TOPOLOGY, delays, Noise(NoisySection(), 0), "test"),
        compute=Compute(),
        learner=Learner(),
        algorithm=script,
        manager=None,
        association={DEVICE: GATEWAY, OTHER: GATEWAY},
        goals=Goals(**goals),
        seed=1,
    )
    sim = Simulation(world, Recorder())
    sim.start()
    sim.run(lambda: float("inf"))
    sim.finish()
    return sim


def job(node=DEVICE, tag="job"):
    return Job(node=node, start=torch.zeros(1), tag=tag)


def test_at_one_instant_arrivals_come_first_then_training_then_alarms():
    def begin(sim):
        sim.after(2, "alarm")
        sim.train(job())
        sim.send(CLOUD, GATEWAY, "first")

    def react(sim, event):
        if event == Arrived(0, CLOUD, GATEWAY, "first"):
            sim.send(GATEWAY, DEVICE, "second")

    sim = simulate(begin, react)
    assert sim.algorithm.seen == [
        (1, "Arrived", "first"),
        (2, "Arrived", "second"),
        (2, "Trained", "job"),
        (2, "Alarm", "alarm"),
    ]


def test_among_equals_the_order_of_asking():
    def begin(sim):
        for name in "cab":
            sim.after(1, name)
        for name in "zxy":
            sim.send(CLOUD, GATEWAY, name)

    assert [label for _, _, label in simulate(begin).algorithm.seen] == list("zxycab")


def test_an_alarm_after_no_time_comes_now():
    sim = simulate(lambda sim: sim.after(0, "now"))
    assert sim.algorithm.seen == [(0, "Alarm", "now")]


def test_when_nothing_is_left_the_run_is_stalled():
    sim = simulate(lambda sim: sim.after(3, "last"))
    assert sim.progress.stop_reason == "stalled"
    assert sim.now == 3 * SECOND


def test_time_limit():
    sim = simulate(lambda sim: sim.after(9, "late"), max_time=5 * SECOND)
    assert (sim.now, sim.progress.stop_reason) == (5 * SECOND, "time")
    assert sim.algorithm.seen == []


def test_an_event_at_the_time_limit_still_happens():
    sim = simulate(lambda sim: sim.send(CLOUD, GATEWAY, "x"), max_time=SECOND)
    assert sim.algorithm.seen == [(1, "Arrived", "x")]


def test_epoch_limit_ends_the_handler_that_reports():
    def react(sim, event):
        sim.report(sim.progress.epoch + 1, torch.ones(1))
        sim.after(1, "again")
        sim.send(CLOUD, GATEWAY, "more")

    sim = simulate(lambda sim: sim.after(1, "go"), react, max_epochs=1)
    assert sim.progress.stop_reason == "epochs"
    assert sim.progress.bytes_by_kind["backhaul"] == 0


def test_evaluation_by_epochs_and_once_per_model():
    def react(sim, event):
        epoch = sim.progress.epoch + 1
        sim.report(epoch, torch.full((1,), float(epoch)))
        sim.after(1, "go")

    sim = simulate(lambda sim: sim.after(1, "go"), react, max_epochs=5, evaluate_every_epochs=2)
    assert sim.recorder.rows == [(0, 0, 0), (2, 2, 2), (4, 4, 4), (5, 5, 5)]
    assert sim.learner.evaluated == 4


def test_a_model_is_scored_once_however_often_it_is_looked_at():
    model = torch.ones(1)

    def react(sim, event):
        sim.report(sim.progress.epoch + 1, model)
        sim.after(1, "go")

    goals = {"max_epochs": 3, "evaluate_every": SECOND // 2}
    sim = simulate(lambda sim: sim.after(1, "go"), react, **goals)
    assert len(sim.recorder.rows) == 1 + 3 + 5  # the first, by epochs, by the clock
    assert sim.learner.evaluated == 2


def test_evaluation_by_time_sees_the_model_of_that_time():
    def react(sim, event):
        epoch = sim.progress.epoch + 1
        sim.report(epoch, torch.full((1,), float(epoch)))
        sim.after(2, "go")

    sim = simulate(
        lambda sim: sim.after(1, "go"), react, max_time=6 * SECOND,
        evaluate_every_epochs=None, evaluate_every=2 * SECOND,
    )  # fmt: skip
    # reports at 1, 3, 5 s
    assert sim.recorder.rows == [(0, 0, 0), (2, 1, 1), (4, 2, 2), (6, 3, 3)]


def test_target_time_and_stop():
    def react(sim, event):
        epoch = sim.progress.epoch + 1
        sim.send(CLOUD, GATEWAY, None, nbytes=7)
        sim.report(epoch, torch.full((1,), epoch / 10))
        sim.after(1, "go")

    sim = simulate(
        lambda sim: sim.after(1, "go"), react, max_time=99 * SECOND, target=0.3, stop_at_target=True
    )
    assert sim.progress.time_to_target == sim.now
    assert sim.progress.bytes_to_target["backhaul"] == sim.progress.bytes_by_kind["backhaul"]
    assert sim.progress.stop_reason == "target"


def test_a_new_job_replaces_the_one_that_a_node_runs():
    def begin(sim):
        sim.train(job(tag="old"))
        sim.train(job(OTHER, tag="other"))
        sim.after(1, "go")

    def react(sim, event):
        if isinstance(event, Alarm):
            sim.train(job(tag="new"))

    sim = simulate(begin, react)
    assert sim.algorithm.seen[1:] == [(2, "Trained", "other"), (3, "Trained", "new")]
    assert sim.progress.jobs_abandoned == 1


def test_a_job_is_trained_when_its_model_is_asked_for_and_only_once():
    def react(sim, event):
        if event.update.job.tag == "used":
            assert event.update.model is event.update.model

    def begin(sim):
        sim.train(job(tag="used"))
        sim.train(job(OTHER, tag="ignored"))

    assert simulate(begin, react).learner.trained == ["used"]


def test_kinds_of_transfers():
    def begin(sim):
        sim.send(CLOUD, GATEWAY, None)
        sim.send(GATEWAY, CLOUD, None)
        sim.send(GATEWAY, DEVICE, None)
        sim.send(DEVICE, GATEWAY, None)
        sim.send(DEVICE, OTHER, None)
        sim.send(DEVICE, GATEWAY, None, nbytes=8, overhead=True)

    sim = simulate(begin)
    assert sim.progress.bytes_by_kind == {
        "backhaul": 200, "down": 100, "up": 100, "peer": 100, "overhead": 8,
    }  # fmt: skip
    assert ("arrived", "overhead", 8) in sim.recorder.transfers


def test_what_is_under_way_at_the_end_is_written_down():
    sim = simulate(lambda sim: sim.send(CLOUD, GATEWAY, None), max_time=SECOND // 2)
    assert sim.recorder.transfers == [("in-flight", "backhaul", 100)]


def test_random_numbers_are_new_at_every_call_and_the_same_in_every_run():
    def draw():
        numbers = []
        simulate(
            lambda sim: numbers.extend(
                sim.rng(Stream.SELECTION, node).random() for node in (1, 1, 2)
            )
        )
        return numbers

    assert draw() == draw()
    assert len(set(draw())) == 3


def test_an_interrupted_run_goes_on_where_it_was():
    def begin(sim):
        for second in (1, 2, 3):
            sim.after(second, second)

    def react(sim, event):
        sim.interrupted = sim.now == 2 * SECOND

    sim = simulate(begin, react)
    assert [t for t, _, _ in sim.algorithm.seen] == [1, 2]
    assert sim.progress.stop_reason == ""
    sim.interrupted = False
    sim.run(lambda: float("inf"))
    assert [t for t, _, _ in sim.algorithm.seen] == [1, 2, 3]


def test_a_loss_that_is_no_number_stops_the_run():
    def react(sim, event):
        sim.learner.evaluate = lambda model: Score(0.1, float("nan"))
        sim.report(1, torch.ones(1))

    assert simulate(lambda sim: sim.after(1, "go"), react).progress.stop_reason == "diverged"


def test_forever_is_far():
    assert FOREVER > 100 * 365 * 86400 * SECOND
    assert Goals().max_time == FOREVER


@pytest.mark.parametrize("delay_s", [-1.0])
def test_no_alarm_in_the_past(delay_s):
    with pytest.raises(ValueError, match="-1"):
        simulate(lambda sim: sim.after(delay_s, "x"))
