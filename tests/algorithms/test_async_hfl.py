"""Async-HFL worked by hand: three devices on two gateways, models of two numbers.

       cloud
   1 s /    \\ 2 s
      g0    g1           local training adds: d0 +4, d1 +8, d2 -6 to every number,
1 s  /  \\ 2 s \\ 1 s       and takes 10 s, 15 s, 4 s
   d0    d1    d2
"""

import pytest
import torch
from by_hand import HandCompute, HandNetwork, ListRecorder, manager
from pydantic import ValidationError

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from simulator.events import Result, Update
from simulator.kernel import Simulation
from simulator.networks.noise import Noise, NoisySection
from simulator.parts import Goals, Score, World
from topologies import Link, Node, Tier, Topology

SECOND = 10**9
CLOUD, G0, G1, D0, D1, D2 = range(6)
NODES = (
    Node("cloud", Tier.CLOUD), Node("g0", Tier.GATEWAY), Node("g1", Tier.GATEWAY),
    Node("d0", Tier.DEVICE), Node("d1", Tier.DEVICE), Node("d2", Tier.DEVICE),
)  # fmt: skip
DELAYS_S = {(G0, CLOUD): 1, (G1, CLOUD): 2, (D0, G0): 1, (D1, G0): 2, (D2, G1): 1}
STEP = {D0: 4.0, D1: 8.0, D2: -6.0}
TRAINING_S = {D0: 10, D1: 15, D2: 4}
PAIR = {D0: G0, D1: G0}
ALL = {D0: G0, D1: G0, D2: G1}
LAST_WINS = {"alpha": 1, "beta": 1, "staleness": {"kind": "constant"}}


class HandLearner:
    """Training whose result is plain to see."""

    model_bytes = 8

    def __init__(self):
        self.jobs = []

    def initial_model(self):
        return torch.tensor([0.0, 1.0])

    def num_samples(self, node):
        return 1

    def work(self, job):
        return 1, 1

    def train(self, job, due=0):
        self.jobs.append(job)
        return Update(job, 1, 1, lambda _: Result(self.trained(job), 0.0))

    def trained(self, job):
        return job.start + STEP[job.node]

    def expect(self, updates):
        pass

    def evaluate(self, model):
        return Score(None, float(model[0]))


class Quadratic(HandLearner):
    """One step of SGD towards 8."""

    def trained(self, job):
        return job.start - 0.25 * (job.start - 8)


def simulate(epochs=1, who=PAIR, lose=(), slow=(), first=(), until_s=1000, learner=None, **params):
    links = tuple(Link(a, b, 1e6, 0.0) for a, b in DELAYS_S)
    topology = Topology("hand", NODES, links, ())
    delays = {p: s * SECOND for (a, b), s in DELAYS_S.items() for p in ((a, b), (b, a))}
    network = HandNetwork(topology, delays, Noise(NoisySection(), 0), "hand")
    network.lose, network.slow = lose, dict(slow)
    section = AsyncHFLSection(**{"updates_per_upload": 2} | params)
    world = World(
        topology=topology,
        network=network,
        compute=HandCompute(dict(first), TRAINING_S),
        learner=learner or HandLearner(),
        algorithm=AsyncHFL(section),
        manager=manager(topology),
        association=dict(who),
        goals=Goals(max_epochs=epochs, max_time=until_s * SECOND),
        seed=0,
    )
    sim = Simulation(world, ListRecorder())
    sim.start()
    sim.run(lambda: 0.0)
    return sim


def cloud_rows(sim):
    return [(r["time_s"], r["epoch"], r["loss"]) for r in sim.recorder.rows if r["tier"] == "cloud"]


def staleness(sim, tier):
    return [(r["time_s"], r["staleness"]) for r in sim.recorder.rows if r["tier"] == tier]


def starts(sim, device):
    return [job.start[0].item() for job in sim.learner.jobs if job.node == device]


def arrivals(sim, src, dst):
    found = sim.recorder.transfers
    return [t for t, status, s, d in found if (status, s, d) == ("arrived", src, dst)]


BY_HAND = {"alpha": 0.5, "beta": 0.5, "staleness": {"kind": "polynomial", "q": 1}}
"""s(1) = 1/2, s(2) = 1/3: weights 1/4 and 1/6."""


def test_two_uploads_by_hand():
    # 13 s: d0's 4 of epoch 0 in epoch 1: 3/4 * 0 + 1/4 * 4 = 1; d0 goes on from 1
    # 20 s: d1's 8 of epoch 0 in epoch 2: 5/6 * 1 + 1/6 * 8 = 13/6; uploaded
    # 21 s: cloud: 1/4 * 13/6 = 13/24; 22 s: g0 has it
    # 25 s: d0's 5 of epoch 1 in epoch 3: 5/6 * 13/24 + 1/6 * 5 = 185/144
    # 37 s: d0's 185/144 + 4 of epoch 3 in epoch 4: 185/144 + 1 = 329/144; uploaded
    # 38 s: cloud: 3/4 * 13/24 + 1/4 * 329/144 = 563/576; d1's second update is still on its way
    sim = simulate(epochs=2, **BY_HAND)
    approx = pytest.approx
    assert cloud_rows(sim) == [(0, 0, 0), (21, 1, approx(13 / 24)), (38, 2, approx(563 / 576))]
    assert staleness(sim, "gateway") == [(13, 1), (20, 2), (25, 2), (37, 1)]
    assert staleness(sim, "upload") == [(21, 1), (38, 1)]
    assert starts(sim, D0) == approx([0, 1, 185 / 144])
    assert starts(sim, D1) == approx([0, 13 / 6])
    assert sim.progress.bytes_by_kind == {
        "up": 40, "down": 48, "backhaul": 32, "peer": 0, "overhead": 0,
    }  # fmt: skip


def test_hinge_by_hand():
    # Weights 1/2 for staleness 1, 1/2 * 1/(1 + 1) = 1/4 for 2: 2, then 3/4 * 2 + 1/4 * 8 = 7/2
    sim = simulate(alpha=0.5, beta=0.5, staleness={"kind": "hinge", "a": 1, "b": 1})
    assert sim.model[0].item() == pytest.approx(7 / 4)


def test_full_weights_without_staleness_let_the_last_model_win():
    # g1 has d2's at 8 and 14 s and uploads -12, at the cloud at 16 s; g0 uploads d1's 8 at 20 s.
    # g1 took its own -12 back at 18 s, has d2's -18 at 20 s and -24 at 26 s, at the cloud at 28 s.
    sim = simulate(epochs=3, who=ALL, **LAST_WINS)
    assert cloud_rows(sim) == [(0, 0, 0), (16, 1, -12), (21, 2, 8), (28, 3, -24)]


def test_a_cloud_model_in_the_middle_is_taken_after_the_upload():
    # g0 hears of epoch 1 at 17 s, between d0's update and d1's, and takes it at 20 s.
    sim = simulate(epochs=3, who=ALL, **LAST_WINS)
    assert starts(sim, D0)[:2] == [0, 4]
    assert starts(sim, D1) == [0, -12]
    assert staleness(sim, "upload") == [(16, 1), (21, 2), (28, 2)]


def test_a_cloud_model_taken_at_once_makes_the_upload_fresh():
    # g0 takes -12 at 17 s; at 20 s d1's 8 replaces it, and d1 goes on from there.
    sim = simulate(epochs=3, who=ALL, cloud_model="at-once", **LAST_WINS)
    assert starts(sim, D1) == [0, 8]
    assert staleness(sim, "upload")[:2] == [(16, 1), (21, 1)]


def test_a_cloud_that_answers_the_uploader_only_saves_bytes():
    both = simulate(epochs=3, who=ALL, **LAST_WINS)
    one = simulate(epochs=3, who=ALL, cloud_sends_to="uploader", **LAST_WINS)
    assert starts(one, D1) == [0, 8]
    # First models, three uploads, and the answers to the first two: the third ends the run.
    assert both.progress.bytes_by_kind["backhaul"] == 8 * (2 + 3 + 4)
    assert one.progress.bytes_by_kind["backhaul"] == 8 * (2 + 3 + 2)


def test_one_device_with_full_weights_is_sequential_sgd():
    sim = simulate(
        epochs=5, who={D0: G0}, updates_per_upload=1, learner=Quadratic(), **LAST_WINS
    )  # fmt: skip
    expected = torch.tensor([0.0, 1.0])
    for _ in range(5):
        expected = expected - 0.25 * (expected - 8)
    assert torch.equal(sim.model, expected)


def test_devices_do_not_wait_for_each_other():
    sim = simulate(first={D1: None}, until_s=60, updates_per_upload=100)
    assert arrivals(sim, D0, G0) == [13, 25, 37, 49]


def test_concurrency_takes_turns():
    # d0 1 to 13 s, d1 13 to 32 s, d0 32 to 44 s, d1 44 to 63 s
    sim = simulate(until_s=70, concurrency=1, updates_per_upload=100)
    assert [t for t, _ in staleness(sim, "gateway")] == [13, 32, 44, 63]
    assert [job.node for job in sim.learner.jobs] == [D0, D1, D0, D1, D0]


def test_a_device_whose_model_is_lost_is_asked_again():
    # Flows: 0 cloud to g0; 1, 2 g0 to d0, d1. Lost at 2 s, sent again, there at 3 s.
    sim = simulate(lose=(1,), until_s=20, updates_per_upload=100)
    assert arrivals(sim, G0, D0) == [3, 15]
    assert arrivals(sim, D0, G0) == [14]


def test_a_device_whose_update_is_lost_is_asked_again():
    # Flow 3 is d0's update, lost at 13 s.
    sim = simulate(lose=(3,), until_s=30, updates_per_upload=100)
    assert arrivals(sim, D0, G0) == [25]
    assert staleness(sim, "gateway") == [(20, 1), (25, 2)]


def test_a_silent_device_is_given_up_and_asked_again():
    # Given up at 21 s, asked again, there at 23 s; answers at 23 + 15 + 2 = 40 s.
    sim = simulate(first={D1: None}, device_timeout_s=20, until_s=41, updates_per_upload=100)
    assert arrivals(sim, D1, G0) == [40]


def test_a_silent_device_frees_its_place():
    sim = simulate(
        first={D0: None}, concurrency=1, device_timeout_s=20, until_s=50, updates_per_upload=100
    )  # fmt: skip
    # d0 is given up at 21 s, d1 answers at 40 s, then it is d0's turn.
    assert [job.node for job in sim.learner.jobs] == [D1, D0]
    assert staleness(sim, "gateway") == [(40, 1)]


def test_a_late_answer_is_ignored():
    # d1 sends at 3 + 17 = 20 s, is given up at 21 s, and its answer comes at 22 s.
    sim = simulate(first={D1: 17}, device_timeout_s=20, until_s=41, updates_per_upload=100)
    assert arrivals(sim, D1, G0) == [22, 40]
    assert [t for t, _ in staleness(sim, "gateway")] == [13, 25, 37, 40]


def test_a_model_that_was_overtaken_on_its_way_to_a_device_is_ignored():
    # d0's first model (flow 1) takes 25 s; given up at 21 s, the next one is there at 22 s.
    sim = simulate(slow={1: 25}, device_timeout_s=20, until_s=34, updates_per_upload=100)
    assert arrivals(sim, G0, D0) == [22, 26, 34]
    assert arrivals(sim, D0, G0) == [33]
    assert sim.progress.jobs_abandoned == 0


def test_a_gateways_first_model_is_sent_until_it_arrives():
    sim = simulate(lose=(0, 1), **BY_HAND)
    assert arrivals(sim, CLOUD, G0) == [3]
    assert cloud_rows(sim)[-1] == (23, 1, pytest.approx(13 / 24))


def test_a_gateway_whose_upload_is_lost_goes_on_from_its_own():
    # Flows: 0; 1, 2 down; 3 d0 up, 4 down, 5 d1 up, 6 the upload, lost at 21 s
    # 25 s: 5/6 * 13/6 + 1/6 * 5 = 95/36; 37 s: 1/4 of d0's step more: 131/36
    sim = simulate(lose=(6,), **BY_HAND)
    assert cloud_rows(sim) == [(0, 0, 0), (38, 1, pytest.approx(131 / 144))]
    assert staleness(sim, "upload") == [(38, 1)]


def test_a_gateway_whose_answer_is_lost_goes_on_from_its_own():
    # Flow 8 is the cloud's first answer; 6 the upload, 7 d1's next model
    sim = simulate(epochs=2, lose=(8,), **BY_HAND)
    assert staleness(sim, "upload") == [(21, 1), (38, 2)]
    expected = 5 / 6 * 13 / 24 + 1 / 6 * 131 / 36  # tau = 0 in epoch 2: weight 1/6
    assert cloud_rows(sim)[-1] == (38, 2, pytest.approx(expected))


def test_an_overtaken_cloud_model_is_ignored():
    # Flow 8, the first answer, takes 20 s and comes at 41 s; the second one comes at 39 s.
    sim = simulate(epochs=3, slow={8: 20}, cloud_model="at-once", **BY_HAND)
    assert arrivals(sim, CLOUD, G0) == [1, 39, 41]
    assert [s for _, s in staleness(sim, "upload")] == [1, 2, 1]


def test_proximal_pull_reaches_the_job():
    sim = simulate(proximal=0.5)
    assert {job.pull for job in sim.learner.jobs} == {0.5}


def test_a_parameter_of_another_staleness_function_is_refused():
    with pytest.raises(ValidationError, match="Extra inputs"):
        AsyncHFLSection(staleness={"kind": "polynomial", "a": 10})


def test_a_lost_first_model_is_not_sent_again_when_a_newer_one_is_on_its_way():
    # g1's first model is lost at 22 s; that of epoch 1 was sent to all at 21 s.
    sim = simulate(epochs=9, who=ALL, slow={1: 22}, lose=(1,), until_s=30)
    assert arrivals(sim, CLOUD, G1) == [23]
