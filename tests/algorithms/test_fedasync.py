"""FedAsync worked by hand: two or three devices that talk to the cloud, models of three numbers.

      cloud
1 s /  | 2 s  \\ 1 s      local training adds: d0 (4, 0, 8), d1 (8, -4, 0), d2 (-6, 0, 0)
  d0   d1     d2         and takes 10 s, 15 s, 4 s
"""

import pytest
import torch
from by_hand import HandCompute, HandNetwork, ListRecorder, manager
from pydantic import ValidationError

from algorithms.fedasync import FedAsync, FedAsyncSection
from simulator.events import Result, Update
from simulator.kernel import Simulation
from simulator.networks.noise import Noise, NoisySection
from simulator.parts import Goals, Score, World
from topologies import Link, Node, Tier, Topology

SECOND = 10**9
CLOUD, GATEWAY, D0, D1, D2 = range(5)
NODES = (
    Node("cloud", Tier.CLOUD), Node("g0", Tier.GATEWAY),
    Node("d0", Tier.DEVICE), Node("d1", Tier.DEVICE), Node("d2", Tier.DEVICE),
)  # fmt: skip
LINKS = ((GATEWAY, CLOUD), (D0, GATEWAY), (D1, GATEWAY), (D2, GATEWAY))
DELAYS_S = {(D0, CLOUD): 1, (D1, CLOUD): 2, (D2, CLOUD): 1} | dict.fromkeys(LINKS, 1)
STEP = {D0: (4.0, 0.0, 8.0), D1: (8.0, -4.0, 0.0), D2: (-6.0, 0.0, 0.0)}
TRAINING_S = {D0: 10, D1: 15, D2: 4}
CONSTANT = {"staleness": {"kind": "constant"}}
BY_HAND = {"alpha": 0.5, "staleness": {"kind": "polynomial", "q": 1}}
"""s(0) = 1, s(1) = 1/2, s(2) = 1/3: weights 1/2, 1/4, 1/6."""


class HandLearner:
    """Training whose result is plain to see."""

    model_bytes = 12

    def __init__(self):
        self.jobs = []

    def initial_model(self):
        return torch.tensor([0.0, 1.0, -1.0])

    def num_samples(self, node):
        return 1

    def work(self, job):
        return 1, 1

    def train(self, job, due=0):
        self.jobs.append(job)
        return Update(job, 1, 1, lambda _: Result(self.trained(job), 0.0))

    def trained(self, job):
        return job.start + torch.tensor(STEP[job.node])

    def expect(self, updates):
        pass

    def evaluate(self, model):
        return Score(None, float(model[0]))


class Quadratic(HandLearner):
    """One step of SGD towards 8."""

    def trained(self, job):
        return job.start - 0.25 * (job.start - 8)


class Chosen:
    """Selects the given devices only, and remembers who was idle when it was asked."""

    def __init__(self, *devices):
        self.devices, self.asked = devices, []

    uses_losses = False

    def rank(self, sim, ledger, gateway, idle):
        self.asked.append((sim.now // SECOND, gateway, idle))
        return [d for d in idle if d in self.devices]


def simulate(
    epochs=None, who=(D0, D1), lose=(), slow=(), first=(), until_s=1000, learner=None,
    selector=None, **params,
):  # fmt: skip
    links = tuple(Link(a, b, 1e6, 0.0) for a, b in LINKS)
    topology = Topology("hand", NODES, links, ())
    delays = {p: s * SECOND for (a, b), s in DELAYS_S.items() for p in ((a, b), (b, a))}
    network = HandNetwork(topology, delays, Noise(NoisySection(), 0), "hand")
    network.lose, network.slow = lose, dict(slow)
    world = World(
        topology=topology,
        network=network,
        compute=HandCompute(dict(first), TRAINING_S),
        learner=learner or HandLearner(),
        algorithm=FedAsync(FedAsyncSection(**params)),
        manager=manager(topology, selector),
        association=dict.fromkeys(who, GATEWAY),
        goals=Goals(max_epochs=epochs, max_time=until_s * SECOND),
        seed=0,
    )  # fmt: skip
    sim = Simulation(world, ListRecorder())
    sim.start()
    sim.run(lambda: 0.0)
    return sim


def mixed(sim):
    """When, whose, how stale."""
    rows = [row for row in sim.recorder.rows if row["tier"] == "update"]
    return [(row["time_s"], row["node"], row["staleness"]) for row in rows]


def starts(sim, device):
    return [job.start.tolist() for job in sim.learner.jobs if job.node == device]


def arrivals(sim, src, dst):
    found = sim.recorder.transfers
    return [t for t, status, s, d in found if (status, s, d) == ("arrived", src, dst)]


def test_three_updates_by_hand():
    # 12 s: d0's (4, 1, 7), staleness 0: 1/2 old + 1/2 new = (2, 1, 3); d0 goes on from it
    # 19 s: d1's (8, -3, -1), staleness 1: 3/4 (2, 1, 3) + 1/4 (8, -3, -1) = (7/2, 0, 2)
    # 24 s: d0's (6, 1, 11), staleness 1: 3/4 (7/2, 0, 2) + 1/4 (6, 1, 11) = (33/8, 1/4, 17/4)
    sim = simulate(epochs=3, **BY_HAND)
    assert mixed(sim) == [(12, "d0", 0), (19, "d1", 1), (24, "d0", 1)]
    assert sim.model.tolist() == [33 / 8, 1 / 4, 17 / 4]
    assert starts(sim, D0) == [[0, 1, -1], [2, 1, 3]]
    assert starts(sim, D1) == [[0, 1, -1], [3.5, 0, 2]]
    cloud = [(r["time_s"], r["epoch"]) for r in sim.recorder.rows if r["tier"] == "cloud"]
    assert cloud == [(0, 0), (12, 1), (19, 2), (24, 3)]


def test_gateways_only_forward():
    sim = simulate(epochs=3, **BY_HAND)
    assert all(GATEWAY not in (src, dst) for _, _, src, dst in sim.recorder.transfers)
    assert sim.progress.bytes_by_kind == {
        "up": 3 * 12, "down": 4 * 12, "backhaul": 0, "peer": 0, "overhead": 0,
    }  # fmt: skip


def test_constant_staleness_by_hand():
    # (2, 1, 3), then half way to (8, -3, -1): (5, -1, 1), then to (6, 1, 11): (11/2, 0, 6)
    sim = simulate(epochs=3, alpha=0.5, **CONSTANT)
    assert sim.model.tolist() == [5.5, 0, 6]


def test_hinge_by_hand():
    # Weight 1/2 for staleness 0, 1/2 * 1/(1 + 1) = 1/4 for 1: as test_three_updates_by_hand
    sim = simulate(epochs=3, alpha=0.5, staleness={"kind": "hinge", "a": 1, "b": 0})
    assert sim.model.tolist() == [33 / 8, 1 / 4, 17 / 4]


def test_staleness_counts_all_updates_since_the_model_was_sent():
    # d2 answers at 6, 12, 18 s; d0's first model is of epoch 0, and comes back at 12 s, first sent.
    sim = simulate(until_s=20, who=(D0, D1, D2), **CONSTANT)
    assert mixed(sim) == [
        (6, "d2", 0), (12, "d0", 1), (12, "d2", 1), (18, "d2", 0), (19, "d1", 4),
    ]  # fmt: skip


def test_one_device_with_full_weight_is_sequential_sgd():
    sim = simulate(epochs=5, who=[D0], learner=Quadratic(), alpha=1, **CONSTANT)
    expected = torch.tensor([0.0, 1.0, -1.0])
    for _ in range(5):
        expected = expected - 0.25 * (expected - 8)
    assert torch.equal(sim.model, expected)


def test_longest_idle_takes_turns():
    # d0 0 to 12 s, d1 12 to 31 s, d2 31 to 37 s, d0 again
    params = {"concurrency": 1, "turns": "longest-idle"}
    sim = simulate(until_s=50, who=(D0, D1, D2), **params, **CONSTANT)
    assert mixed(sim) == [(12, "d0", 0), (31, "d1", 0), (37, "d2", 0), (49, "d0", 0)]


def test_random_turns_leave_nobody_out():
    sim = simulate(epochs=12, who=(D0, D1, D2), concurrency=1, **CONSTANT)
    order = [node for _, node, _ in mixed(sim)]
    rounds = [order[i : i + 3] for i in range(0, 12, 3)]
    assert all(sorted(turn) == ["d0", "d1", "d2"] for turn in rounds)
    assert len({tuple(turn) for turn in rounds}) > 1


def test_never_more_under_way_than_allowed():
    sim = simulate(until_s=50, who=(D0, D1, D2), concurrency=2, **CONSTANT)
    assert len(sim.algorithm.under_way) == 2
    assert len(sim.learner.jobs) <= len(mixed(sim)) + 2


def test_the_selector_says_who_may_train_and_is_asked_when_all_have_been_asked():
    selector = Chosen(D0, D2)
    sim = simulate(until_s=20, who=(D0, D1, D2), selector=selector, concurrency=1, **CONSTANT)
    assert {job.node for job in sim.learner.jobs} == {D0, D2}
    assert selector.asked[0] == (0, CLOUD, [D0, D1, D2])
    assert [at for at, _, _ in selector.asked] == [0, 18]  # 6 s for d2, 12 s for d0


def test_a_device_whose_model_is_lost_is_asked_again():
    # Flow 0 is d0's first model, lost at 1 s, sent again, there at 2 s.
    sim = simulate(until_s=14, lose=(0,))
    assert arrivals(sim, CLOUD, D0) == [2, 14]
    assert mixed(sim) == [(13, "d0", 0)]


def test_a_device_whose_update_is_lost_is_asked_again():
    # Flow 2 is d0's update, lost at 12 s; nothing is mixed in.
    sim = simulate(until_s=25, lose=(2,))
    assert mixed(sim) == [(19, "d1", 0), (24, "d0", 1)]


def test_a_lost_transfer_frees_the_place():
    # d0's model is lost at 1 s: then it is d1's turn.
    sim = simulate(until_s=21, lose=(0,), concurrency=1, turns="longest-idle")
    assert mixed(sim) == [(20, "d1", 0)]


def test_a_silent_device_frees_its_place_and_is_asked_again_in_its_turn():
    # d0 is given up at 20 s, d1 answers at 39 s, d0 at 51 s.
    sim = simulate(
        until_s=52, first={D0: None}, concurrency=1, turns="longest-idle", device_timeout_s=20
    )  # fmt: skip
    assert mixed(sim) == [(39, "d1", 0), (51, "d0", 0)]


def test_a_late_answer_is_ignored():
    # d1 sends at 2 + 17 = 19 s, is given up at 20 s, its answer comes at 21 s and the next at 39 s.
    sim = simulate(until_s=40, first={D1: 17}, device_timeout_s=20)
    assert arrivals(sim, D1, CLOUD) == [21, 39]
    assert [at for at, node, _ in mixed(sim) if node == "d1"] == [39]


def test_a_model_that_was_overtaken_on_its_way_to_a_device_is_ignored():
    # d0's first model (flow 0) takes 25 s; given up at 20 s, the next one is there at 21 s.
    sim = simulate(until_s=33, who=[D0], slow={0: 25}, device_timeout_s=20)
    assert arrivals(sim, CLOUD, D0) == [21, 25, 33]
    assert mixed(sim) == [(32, "d0", 0)]
    assert sim.progress.jobs_abandoned == 0


def test_proximal_pull_reaches_the_job():
    sim = simulate(epochs=1, proximal=0.5)
    assert {job.pull for job in sim.learner.jobs} == {0.5}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0}, "greater than 0"),
        ({"alpha": 1.5}, "less than or equal to 1"),
        ({"concurrency": 0}, "greater than or equal to 1"),
        ({"staleness": {"kind": "polynomial", "a": 10}}, "Extra inputs"),
    ],
)
def test_parameters_out_of_bounds_are_refused(params, message):
    with pytest.raises(ValidationError, match=message):
        FedAsyncSection(**params)
