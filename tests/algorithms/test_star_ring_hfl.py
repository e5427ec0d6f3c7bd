"""The four topologies worked by hand: two groups of two clients that go down parabolas.

       cloud
   1 s /    \\ 2 s            client i has (x - c_i)^2 / 2: a step of 1/2 takes x to (x + c_i) / 2
      g0-4 s-g1             c: d0 8, d1 16, d2 -8, d3 24; training takes 10 s
1 s  /  \\ 2 s /  \\ 2 s
   d0-3 s-d1 d2-3 s-d3      d2 is 1 s from g1
"""

import pytest
import torch
from by_hand import HandCompute, HandNetwork, ListRecorder, Quadratics, Watched, cloud_rows, manager
from by_hand import rows as rows_of

from algorithms.fedavg import FedAvgSection, fedavg
from algorithms.ring_order import RingOrder, shortest_tour
from algorithms.star_ring_bounds import FOUR, Shape, aggregation_factor, steps_along
from algorithms.star_ring_hfl import StarRing, StarRingSection
from simulator.kernel import Simulation
from simulator.networks.noise import Noise, NoisySection
from simulator.parts import Goals, Score, World
from simulator.units import SECOND
from topologies import Link, Node, Tier, Topology

CLOUD, G0, G1, D0, D1, D2, D3 = range(7)
NODES = (
    Node("cloud", Tier.CLOUD), Node("g0", Tier.GATEWAY), Node("g1", Tier.GATEWAY),
    *(Node(f"d{i}", Tier.DEVICE) for i in range(4)),
)  # fmt: skip
DELAYS_S = {
    (G0, CLOUD): 1, (G1, CLOUD): 2, (D0, G0): 1, (D1, G0): 2, (D2, G1): 1, (D3, G1): 2,
    (D0, D1): 3, (D2, D3): 3, (G0, G1): 4,
}  # fmt: skip
CENTRES = {D0: 8.0, D1: 16.0, D2: -8.0, D3: 24.0}
BOTH = {D0: G0, D1: G0, D2: G1, D3: G1}
MODELS = {
    ("star", "star"): 5.0,
    ("star", "ring"): 10.0,
    ("ring", "star"): 7.0,
    ("ring", "ring"): 12.5,
}
"""After one round from 0: P = K = 1.

star-star: g0 (4 + 8) / 2 = 6, g1 (-4 + 12) / 2 = 4
star-ring: g0 0, 4, 10; g1 0, -4, 10
ring-star: g0 6; g1 from 6: (-1 + 15) / 2
ring-ring: 0, 4, 10, 1, 12.5
"""
SECONDS = {("star", "star"): 18, ("star", "ring"): 30, ("ring", "star"): 33, ("ring", "ring"): 57}
"""star-star: 2 + (2 + 10 + 2) + 2 at g1; a ring of clients: 1 + 10 + 3 + 10 + 2 = 26."""


class Parabolas(Quadratics):
    """From 0, and it writes down every gradient that was gone along."""

    def __init__(self, steps=1, rate=0.5, samples=None):
        super().__init__(
            dict.fromkeys(CENTRES, 1.0), CENTRES, steps, rate, samples or dict.fromkeys(CENTRES, 1)
        )
        self.gradients = []

    def initial_model(self):
        return torch.tensor([0.0])

    def descend(self, job):
        w = job.start
        for _ in range(self.steps):
            self.gradients.append(float(w - self.centre[job.node]))
            w = w - self.rate * (w - self.centre[job.node])
        return w

    def evaluate(self, model):
        return Score(None, float(model[0]))


def simulate(algorithm, *, epochs=1, lose=(), who=BOTH, learner=None, first=(), watched=True):
    links = tuple(Link(a, b, 1e6, 0.0) for a, b in DELAYS_S)
    topology = Topology("hand", NODES, links)
    delays = {p: s * SECOND for (a, b), s in DELAYS_S.items() for p in ((a, b), (b, a))}
    network = HandNetwork(topology, delays, Noise(NoisySection(), 0), "hand")
    network.lose, network.slow = lose, {}
    world = World(
        topology=topology, network=network,
        compute=HandCompute(dict(first), dict.fromkeys(CENTRES, 10)),
        learner=learner or Parabolas(), algorithm=Watched(algorithm) if watched else algorithm,
        manager=manager(topology), association=dict(who),
        goals=Goals(max_epochs=epochs, max_time=10_000 * SECOND), seed=0,
    )  # fmt: skip
    sim = Simulation(world, ListRecorder())
    sim.start()
    sim.run(lambda: 0.0)
    return sim


def star_ring(top="ring", lower="ring", **params):
    return StarRing(StarRingSection(top=top, lower=lower, **params))


def skips(sim):
    return rows_of(sim, "skip", "node", "epoch", "round", "reason")


@pytest.mark.parametrize(("top", "lower"), FOUR)
def test_one_round_by_hand(top, lower):
    sim = simulate(star_ring(top, lower))
    assert cloud_rows(sim) == [(0, 0, 0), (SECONDS[top, lower], 1, MODELS[top, lower])]


@pytest.mark.parametrize(("top", "lower"), FOUR)
@pytest.mark.parametrize(("rounds", "steps"), [(1, 1), (2, 3)])
def test_a_round_moves_by_table_4(top, lower, rounds, steps):
    """All gradients of the round, times eta, times 1/(GM), 1/G, 1/M or 1."""
    learner = Parabolas(steps=steps, rate=0.125)
    sim = simulate(star_ring(top, lower, group_rounds=rounds), learner=learner)
    factor = {"star-star": 1 / 4, "star-ring": 1 / 2, "ring-star": 1 / 2, "ring-ring": 1}[
        f"{top}-{lower}"
    ]
    assert len(learner.gradients) == 2 * rounds * 2 * steps
    assert float(sim.model) == pytest.approx(-factor * 0.125 * sum(learner.gradients), abs=1e-5)
    assert aggregation_factor(Shape(2, 2, rounds, steps), top, lower) == factor


def test_two_group_rounds_of_two_steps_by_hand():
    # Two steps take x to x / 4 + 3 c / 4.
    # star-star: g0 9, then 9/4 + 9; g1 6, then 6/4 + 6
    learner = Parabolas(steps=2)
    sim = simulate(star_ring("star", "star", group_rounds=2), learner=learner)
    assert float(sim.model) == (11.25 + 7.5) / 2
    # ring-ring: 0, 6, 13.5 | 9.375, 14.34375 | -2.4140625, 17.396484375 | -1.65087890625, and so on
    sim = simulate(star_ring(group_rounds=2), learner=Parabolas(steps=2))
    assert float(sim.model) == 17.5872802734375


def test_rings_follow_one_another():
    # ring-ring: g1 sends to g0, 4 s, then 26 + 4 + 26
    direct = simulate(star_ring(), epochs=3)
    assert [t for t, _, _ in cloud_rows(direct)] == [0, 57, 117, 177]
    by_cloud = simulate(star_ring(closing="cloud"), epochs=3)
    assert [t for t, _, _ in cloud_rows(by_cloud)] == [0, 59, 118, 177]
    assert direct.model == by_cloud.model


def test_what_the_four_send():
    sent = {}
    for top, lower in FOUR:
        sim = simulate(star_ring(top, lower), epochs=2)
        models = {kind: n / 8 for kind, n in sim.progress.bytes_by_kind.items()}
        sent[f"{top}-{lower}"] = [models[kind] for kind in ("up", "down", "peer", "backhaul")]
    # Of two rounds. A top ring: cloud to g0, g0 to g1, g1 to g0, g0 to g1.
    assert sent == {
        "star-star": [8, 8, 0, 8], "star-ring": [4, 4, 4, 8],
        "ring-star": [8, 8, 0, 4], "ring-ring": [4, 4, 4, 4],
    }  # fmt: skip


def test_everybody_in_a_ring_is_greeted_once():
    sim = simulate(star_ring(), epochs=2)
    assert sim.progress.bytes_by_kind["overhead"] == 4 * 2 * 4  # four who are told of two each


@pytest.mark.parametrize("top", ["star", "ring"])
def test_with_one_client_lower_star_and_ring_are_the_same(top):
    logs = []
    for lower in ("star", "ring"):
        sim = simulate(star_ring(top, lower, group_rounds=2), epochs=3, who={D0: G0, D2: G1})
        logs.append((cloud_rows(sim), sim.recorder.transfers, sim.recorder.rows, float(sim.model)))
    assert logs[0] == logs[1]


@pytest.mark.parametrize("lower", ["star", "ring"])
def test_with_one_group_top_star_and_ring_are_the_same(lower):
    one = {D0: G0, D1: G0}
    star = simulate(star_ring("star", lower, group_rounds=2), epochs=3, who=one)
    ring = simulate(star_ring("ring", lower, group_rounds=2, closing="cloud"), epochs=3, who=one)
    assert star.recorder.rows == ring.recorder.rows
    assert star.recorder.transfers == ring.recorder.transfers
    alone = simulate(star_ring("ring", lower, group_rounds=2), epochs=3, who=one)
    assert torch.equal(alone.model, star.model)
    assert alone.now < star.now, "the model stays at the only gateway"


def test_star_star_is_hierarchical_fedavg_bit_for_bit(scenario, run_in):
    equal = {"data": {"samples_per_device": 100}, "training": {"epochs": None, "steps": 4}}
    ours = {"algorithm": {"name": "star-ring-hfl", "group_rounds": 2, "local_steps": 4}}
    theirs = {"algorithm": {"name": "fedavg", "gateway_rounds": 2}}
    a, b = (run_in(scenario(equal, how), how["algorithm"]["name"]) for how in (ours, theirs))
    assert a["event_log_sha256"] == b["event_log_sha256"]
    assert a["model_sha256"] == b["model_sha256"]


def test_by_samples_it_is_fedavg_with_unequal_data_too():
    samples = {D0: 1, D1: 3, D2: 2, D3: 5}
    ours = simulate(
        star_ring("star", "star", weights="samples"), epochs=2, learner=Parabolas(samples=samples)
    )
    theirs = simulate(fedavg(FedAvgSection()), epochs=2, learner=Parabolas(samples=samples))
    assert torch.equal(ours.model, theirs.model)
    assert ours.recorder.rows == theirs.recorder.rows


def test_equal_effective_rates():
    shape = Shape(groups=2, clients=2, rounds=3, steps=5)
    along = [steps_along(shape, top, lower) for top, lower in FOUR]
    assert along == [15, 30, 30, 60]  # PK, PMK, GPK, GPMK
    for (top, lower), steps in zip(FOUR, along, strict=True):
        learner = Parabolas()
        how = star_ring(top, lower, group_rounds=3, local_steps=5, effective_rate=0.6)
        simulate(how, learner=learner)
        assert {(job.steps, job.learning_rate) for job in learner.jobs} == {(5, 0.6 / steps)}


def test_of_unequal_groups_the_mean_counts():
    learner = Parabolas()
    how = star_ring("star", "ring", local_steps=1, effective_rate=0.6)
    simulate(how, learner=learner, who={D0: G0, D1: G0, D2: G1})
    assert {job.learning_rate for job in learner.jobs} == {0.6 / 1.5}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"effective_rate": 0.5}, "give local_steps"),
        ({"group_order": "shuffled"}, "is for top = 'ring'"),
        ({"lower": "ring", "gateway_timeout_s": 5.0}, "is for lower = 'star'"),
        ({"in_flight": 2}, "is for top = 'ring'"),
        ({"retries": 5}, "retries = 5 is for a ring at either tier"),
        ({"top": "ring", "lower": "ring", "weights": "samples"}, "is for a star at either tier"),
        ({"top": "ring", "in_flight": 2}, 'give closing = "cloud"'),
    ],
)
def test_keys_that_do_not_go_together(params, message):
    with pytest.raises(ValueError, match=message):
        StarRingSection(**params)


# Several models in flight


def test_two_models_in_flight_by_hand():
    # From g0: 6 at 15 s, at g1 at 19 s, 7 at 33 s. From g1: 4 at 16 s, at g0 at 20 s, 7 at 34 s: 8,
    # of (4 + 8) / 2 and (4 + 16) / 2. Both reach the cloud at 35 s.
    sim = simulate(star_ring("ring", "star", closing="cloud", in_flight=2), epochs=2)
    times = [t for t, _, _ in cloud_rows(sim)]
    assert times[1] == 35
    assert cloud_rows(sim)[1][2] == (7 + 8) / 2
    assert times[2] == 2 * 35
    assert sim.progress.bytes_by_kind["backhaul"] / 8 == 2 * 2 * 3


def test_a_group_lets_further_models_wait():
    # No more models than groups
    busy = simulate(star_ring("ring", "ring", closing="cloud", in_flight=3), epochs=1)
    assert len(busy.learner.jobs) == 2 * 4
    # d0 takes 100 s: g0 is at work still when the other model comes
    late = simulate(
        star_ring("ring", "star", closing="cloud", in_flight=2), first={D0: 100}, epochs=2
    )
    visited = [job.node for job in late.learner.jobs]
    assert sorted(visited[:8]) == sorted(visited[8:16]) == [D0, D0, D1, D1, D2, D2, D3, D3]


def test_of_several_models_those_that_arrive_count():
    found = []
    for flow in range(24):
        how = star_ring("ring", "star", closing="cloud", in_flight=2, retries=0)
        sim = simulate(how, lose=(flow,))
        if [row[1] for row in skips(sim)] == ["cloud"]:
            found.append(float(sim.model))
    assert sorted(found) == [7, 8]


# What is lost. Flows of a ring-ring round: 0 cloud-g0; 1 and 2 greetings, 3 g0-d0, 4 d0-d1, 5 d1-g0;
# 6 g0-g1; 7 and 8 greetings, 9 g1-d2, 10 d2-d3, 11 d3-g1.


def test_a_lost_hop_is_sent_again():
    sim = simulate(star_ring(), lose=(4,))
    assert cloud_rows(sim)[-1] == (57 + 3, 1, 12.5)
    assert skips(sim) == []


def test_a_client_that_is_not_reached_is_passed_over():
    # d0 has 4 at 12 s, d1 cannot be reached until 15 s; g0 has 4 at 16 s, g1 at 20 s: -2, 11
    sim = simulate(star_ring(retries=0), lose=(4,))
    assert cloud_rows(sim)[-1] == (20 + 26, 1, 11)
    assert skips(sim) == [(15, "d1", 1, 1, "lost")]
    assert rows_of(sim, "gateway", "node", "participants") == [(16, "g0", 1), (46, "g1", 2)]


def test_after_as_many_losses_as_retries_and_one_more():
    # 4 and, sent again, 5 and 6
    sim = simulate(star_ring(retries=2), lose=(4, 5, 6))
    assert skips(sim) == [(12 + 3 * 3, "d1", 1, 1, "lost")]
    sim = simulate(star_ring(retries=3), lose=(4, 5, 6))
    assert skips(sim) == []
    assert cloud_rows(sim)[-1] == (57 + 9, 1, 12.5)


def test_the_first_client_can_be_passed_over_too():
    # g0 to d1 at 2 s: 4 s, 8 at 14 s, g0 at 16 s; g1 at 20 s: 0, 12
    sim = simulate(star_ring(retries=0), lose=(3,))
    assert cloud_rows(sim)[-1] == (46, 1, 12)
    assert skips(sim) == [(2, "d0", 1, 1, "lost")]


def test_a_ring_that_cannot_come_back_was_in_vain():
    # g0 keeps 0 at 27 s; g1 at 31 s: -4, 10
    sim = simulate(star_ring(retries=0), lose=(5,))
    assert cloud_rows(sim)[-1] == (57, 1, 10)
    assert skips(sim) == [(27, "g0", 1, 1, "lost")]
    assert rows_of(sim, "gateway", "node", "participants")[0] == (27, "g0", 0)


def test_a_group_whose_ring_was_in_vain_has_no_part_in_the_mean():
    found = {}
    for flow in range(24):
        sim = simulate(star_ring("star", retries=0), lose=(flow,))
        if [row[1] for row in skips(sim)] in (["g0"], ["g1"]):
            found[skips(sim)[0][1]] = float(sim.model)
    assert found == {"g0": 10, "g1": 10}, "what the other has, not the mean of that and 0"


def test_a_group_that_is_not_reached_is_passed_over():
    # g0 has 10 at 27 s, and has it still at 31 s; its next round: 9, 12.5, and g1: 2.25, 13.125
    sim = simulate(star_ring(retries=0), epochs=2, lose=(6,))
    assert skips(sim) == [(31, "g1", 1, None, "lost")]
    assert cloud_rows(sim)[1:] == [(31, 1, 10), (31 + 26 + 4 + 26, 2, 13.125)]


def test_a_group_that_the_cloud_does_not_reach():
    sim = simulate(star_ring("ring", "star", retries=0), lose=(0,))
    # Cloud to g1, 2 s, at 1 s: (-4 + 12) / 2 = 4, at 17 s
    assert cloud_rows(sim)[-1] == (17, 1, 4)


def test_the_cloud_that_is_not_reached_has_what_it_had():
    sim = simulate(star_ring("ring", "star", retries=0, closing="cloud"), epochs=2, lose=(10,))
    # Flows: cloud-g0, 2 + 2 at g0, g0-g1, 2 + 2 at g1, g1-cloud is 10: 33 s, lost at 35 s. g1 keeps 7,
    # sends it to g0 (4 s): (7.5 + 11.5) / 2; g1: (0.75 + 16.75) / 2
    assert cloud_rows(sim)[1:] == [(35, 1, 7), (35 + 4 + 14 + 4 + 14 + 2, 2, 8.75)]


def test_a_silent_client_is_passed_over_by_the_one_before_it():
    # d1 never ends: asked at 12 s, given up at 32 s; d0 sends its 4 to g0, 33 s; g1 at 37 s
    sim = simulate(star_ring(device_timeout_s=20), first={D1: None})
    assert skips(sim) == [(32, "d1", 1, 1, "silent")]
    assert cloud_rows(sim)[-1] == (37 + 26, 1, 11)
    assert rows_of(sim, "gateway", "node", "participants")[0] == (33, "g0", 1)


def test_what_a_client_makes_after_it_was_passed_over_is_not_heard_of():
    # d1 takes 30 s: it would end at 45 s
    sim = simulate(star_ring(device_timeout_s=20), first={D1: 30})
    assert cloud_rows(sim)[-1] == (63, 1, 11)


def test_without_a_timeout_a_silent_client_stalls_the_run():
    sim = simulate(star_ring(), first={D1: None})
    assert sim.progress.stop_reason == "stalled"


# Orders


def test_shuffled_orders_are_drawn_for_every_ring():
    sim = simulate(star_ring(client_order="shuffled", group_order="shuffled"), epochs=12)
    visited = [job.node for job in sim.learner.jobs]
    rings = [tuple(visited[i : i + 2]) for i in range(0, len(visited), 2)]
    assert set(rings) == {(D0, D1), (D1, D0), (D2, D3), (D3, D2)}
    groups = [BOTH[ring[0]] for ring in rings]
    rounds = {tuple(groups[i : i + 2]) for i in range(0, len(groups), 2)}
    assert rounds == {(G0, G1), (G1, G0)}


def test_shuffled_each_client_has_its_turn_once_a_round():
    sim = simulate(star_ring(client_order="shuffled", group_order="shuffled"), epochs=5)
    visited = [job.node for job in sim.learner.jobs]
    for i in range(0, len(visited), 4):
        assert sorted(visited[i : i + 4]) == [D0, D1, D2, D3]


def test_a_group_that_is_last_and_then_first_sends_to_nobody(monkeypatch):
    orders = iter([[G0, G1], [G1, G0]])
    monkeypatch.setattr(RingOrder, "of", lambda *_: next(orders))
    sim = simulate(star_ring("ring", "star"), epochs=2)
    assert [t for t, _, _ in cloud_rows(sim)] == [0, 33, 33 + 14 + 4 + 14]


SQUARE = {0: (0, 0), 1: (9, 9), 2: (9, 0), 3: (0, 9), 4: (5, 0)}


def apart(a, b):
    return sum(abs(x - y) for x, y in zip(SQUARE[a], SQUARE[b], strict=True))


def test_the_shortest_way_round_a_square():
    tour = shortest_tour(0, [1, 2, 3, 4], apart)
    assert tour in ([4, 2, 1, 3], [3, 1, 2, 4])
    assert shortest_tour(2, [0, 1, 2, 3, 4], apart)[0] == 2


def test_the_shortest_way_knows_directions():
    around = {(0, 1): 1, (1, 2): 1, (2, 3): 1, (3, 0): 1}
    assert shortest_tour(0, [3, 2, 1], lambda a, b: around.get((a, b), 10)) == [1, 2, 3]


def test_two_have_only_one_way_round():
    assert shortest_tour(0, [7], lambda a, b: 1) == [7]
    assert shortest_tour(5, [5, 6], lambda a, b: 1) == [5, 6]


def test_the_shortest_way_is_by_the_networks_estimates():
    sim = simulate(star_ring(client_order="shortest", group_order="shortest"), epochs=2)
    assert cloud_rows(sim)[1] == (57, 1, 12.5)
