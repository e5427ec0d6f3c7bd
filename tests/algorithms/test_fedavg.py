"""Hierarchical FedAvg worked by hand: three devices on two gateways, models of three numbers.

       cloud
   1 s /    \\ 2 s
      g0    g1           samples: d0 1, d1 3, d2 2
1 s  /  \\ 2 s \\ 1 s       local training adds: d0 +4, d1 +8, d2 -6 to every number
   d0    d1    d2         and takes 10 s
"""

import pytest
import torch
from by_hand import ListRecorder, manager

from algorithms.fedavg import FedAvgSection, fedavg
from simulator.compute import ConstantDelay, DeviceCompute
from simulator.events import Result, Update
from simulator.kernel import Simulation
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.table import TableNetwork
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
SAMPLES = {D0: 1, D1: 3, D2: 2}


class HandLearner:
    """Training whose result is plain to see."""

    model_bytes = 12

    def __init__(self):
        self.jobs = []

    def initial_model(self):
        return torch.tensor([0.0, 1.0, 2.0])

    def num_samples(self, node):
        return SAMPLES[node]

    def work(self, job):
        return 1, SAMPLES[job.node]

    def train(self, job, due=0):
        self.jobs.append(job)
        return Update(job, SAMPLES[job.node], 1, lambda _: Result(job.start + STEP[job.node], 0.0))

    def expect(self, updates):
        pass

    def evaluate(self, model):
        return Score(None, float(model[0]))


class KindRecorder(ListRecorder):
    def transfer(self, end, status, flow, src, dst, kind, nbytes, start, reason, *_):
        self.transfers.append((end // SECOND, status, src, dst, kind))


class LosesSome(TableNetwork):
    """Loses the flows with the given numbers."""

    lose: tuple = ()

    def advance(self, limit):
        done = super().advance(limit)
        return done and (done._replace(lost="gone") if done.flow in self.lose else done)


def simulate(epochs=1, lose=(), compute=None, learner=None, **params):
    links = tuple(Link(a, b, 1e6, 0.0) for a, b in DELAYS_S)
    topology = Topology("hand", NODES, links, ())
    delays = {p: s * SECOND for (a, b), s in DELAYS_S.items() for p in ((a, b), (b, a))}
    network = LosesSome(topology, delays, Noise(NoisySection(), 0), "hand")
    network.lose = lose
    world = World(
        topology=topology,
        network=network,
        compute=compute or DeviceCompute(ConstantDelay(delay_s=10), topology.devices, 0, "."),
        learner=learner or HandLearner(),
        algorithm=fedavg(FedAvgSection(**params)),
        manager=manager(topology),
        association={D0: G0, D1: G0, D2: G1},
        goals=Goals(max_epochs=epochs),
        seed=0,
    )
    sim = Simulation(world, KindRecorder())
    sim.start()
    sim.run(lambda: 0.0)
    return sim


def cloud_rows(sim):
    return [(r["time_s"], r["epoch"], r["loss"]) for r in sim.recorder.rows if r["tier"] == "cloud"]


def test_one_round_by_hand():
    # g0: (1 * 4 + 3 * 8) / 4 = 7; g1: -6; cloud: (4 * 7 + 2 * -6) / 6 = 16 / 6
    sim = simulate()
    assert sim.model.tolist() == pytest.approx([16 / 6, 1 + 16 / 6, 2 + 16 / 6])
    # g0: 1 down, 2 + 10 + 2 for d1, 1 up = 16 s; g1: 2 + 1 + 10 + 1 + 2 = 16 s
    assert cloud_rows(sim) == [(0, 0, 0), (16, 1, pytest.approx(16 / 6))]
    assert sim.progress.stop_reason == "epochs"
    assert sim.progress.bytes_by_kind == {
        "up": 36, "down": 36, "backhaul": 48, "peer": 0, "overhead": 0,
    }  # fmt: skip


def test_two_gateway_rounds_by_hand():
    # g0 twice +7 with 8 samples gone in, g1 twice -6 with 4: (8 * 14 + 4 * -12) / 12
    sim = simulate(gateway_rounds=2)
    assert sim.model[0].item() == pytest.approx((8 * 14 - 4 * 12) / 12)
    assert cloud_rows(sim)[-1][0] == 1 + 2 * 14 + 1


def test_rounds_follow_one_another():
    assert [t for t, _, _ in cloud_rows(simulate(epochs=3))] == [0, 16, 32, 48]


def test_a_lost_upload_is_left_out_of_its_round():
    # Flows: 0, 1 cloud to gateways; 2, 3 g0 to d0, d1; 4 g1 to d2; then d0's, d1's, d2's uploads
    sim = simulate(lose=(6,))
    assert sim.model[0].item() == pytest.approx((1 * 4 + 2 * -6) / 3)


def test_a_lost_download_is_left_out_too():
    sim = simulate(lose=(3,))
    assert sim.model[0].item() == pytest.approx((1 * 4 + 2 * -6) / 3)
    assert cloud_rows(sim)[-1][0] == 16


def test_a_gateway_that_is_not_reached_is_left_out():
    sim = simulate(lose=(1,))
    assert sim.model[0].item() == pytest.approx(7)


def test_when_all_is_lost_the_model_stays():
    sim = simulate(lose=(0, 1))
    assert sim.model.tolist() == [0, 1, 2]


class Sleepy:
    """d1's first job takes for ever, or so long that it comes back in the second round."""

    def __init__(self, first_of_d1):
        self.first_of_d1 = first_of_d1

    def estimate(self, node, steps, samples):
        return 0

    def duration(self, node, count, steps, samples):
        return self.first_of_d1 if (node, count) == (D1, 0) else 10 * SECOND


def test_without_a_timeout_a_silent_device_stalls_the_run():
    sim = simulate(compute=Sleepy(None))
    assert sim.progress.stop_reason == "stalled"
    assert sim.progress.epoch == 0


def test_a_timeout_closes_the_round_with_what_came():
    # g0's round opens at 1 s, closes at 21 s; cloud at 22 s
    sim = simulate(compute=Sleepy(None), gateway_timeout_s=20)
    assert sim.model[0].item() == pytest.approx((1 * 4 + 2 * -6) / 3)
    assert cloud_rows(sim)[-1][0] == 22


def test_a_late_answer_is_ignored():
    # d1 is asked again at 23 + 2 s while its first job would end at 3 + 30 s: the old one is dropped
    sim = simulate(epochs=2, compute=Sleepy(30 * SECOND), gateway_timeout_s=20)
    second = (1 * 4 + 3 * 8) / 4
    first = (1 * 4 + 2 * -6) / 3
    assert sim.model[0].item() == pytest.approx(first + (4 * second + 2 * -6) / 6, abs=1e-6)
    assert sim.progress.jobs_abandoned == 1
    assert sim.progress.jobs_started == 6


def test_the_clouds_timeout_leaves_a_slow_gateway_out():
    sim = simulate(compute=Sleepy(None), cloud_timeout_s=17)
    assert sim.model[0].item() == pytest.approx(-6)
    assert cloud_rows(sim)[-1][0] == 17


class Overtaken(LosesSome):
    """The flows with the given numbers take so many seconds, whatever the table says."""

    slow: dict = {}  # noqa: RUF012

    def send(self, now, src, dst, nbytes):
        usual = self._delays[src, dst]
        self._delays[src, dst] = self.slow.get(self._sent, usual // SECOND) * SECOND
        flow = super().send(now, src, dst, nbytes)
        self._delays[src, dst] = usual
        return flow


def test_a_model_that_was_overtaken_by_a_newer_one_is_ignored(monkeypatch):
    # g1's first model (flow 1) takes 25 s; round 1 closes at 20 s without g1, and its model of
    # round 2 arrives at 22 s. Round 2: d2 has it at 23 s, answers at 33 s, g1 at 34, cloud at 36.
    monkeypatch.setattr(Overtaken, "slow", {1: 25})
    monkeypatch.setitem(globals(), "LosesSome", Overtaken)
    sim = simulate(epochs=2, cloud_timeout_s=20)
    assert [t for t, _, _ in cloud_rows(sim)] == [0, 20, 36]
    assert sim.model[0].item() == pytest.approx(7 + (4 * 7 + 2 * -6) / 6)


def test_proximal_pull_reaches_the_job():
    learner = HandLearner()
    simulate(learner=learner, proximal=0.5)
    assert [job.pull for job in learner.jobs] == [0.5] * 3
