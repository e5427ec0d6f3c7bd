"""RFL-HA worked by hand on the network of by_hand.py; samples: d0 1, d1 3, d2 2.

A round of g0 takes 2 + 15 + 2 = 19 s and adds (1 * 4 + 3 * 8) / 4 = 7; one of g1 6 s, and -6.
"""

import pytest
from by_hand import (
    ALL,
    CLOUD,
    D0,
    D1,
    D2,
    G0,
    G1,
    PAIR,
    HandLearner,
    Mover,
    arrivals,
    cloud_rows,
    overhead,
    rows,
    run,
    starts,
)

from algorithms.fedavg import FedAvgSection, fedavg
from algorithms.rfl_ha import RflHaSection, rfl_ha
from selection.sketch import FullSection

BY_HAND = {"alpha": 0.5, "staleness": {"kind": "polynomial", "q": 1}}
"""s(1) = 1/2, s(3) = 1/4: weights 1/4 and 1/8."""


def simulate(algorithm=None, gateway_rounds=1, epochs=1, **settings):
    own = {name: settings.pop(name) for name in list(settings) if name in RflHaSection.model_fields}
    section = RflHaSection(gateway_rounds=gateway_rounds, **BY_HAND | own)
    learner = HandLearner({D0: 1, D1: 3, D2: 2})
    return run(algorithm or rfl_ha(section), epochs=epochs, learner=learner, **settings)


def test_three_uploads_by_hand():
    # 10 s: g1's -6 of epoch 0 in epoch 1: 3/4 * 0 + 1/4 * -6 = -3/2; g1 alone has it at 12 s
    # 20 s: g1's -3/2 - 6 of epoch 1 in epoch 2: 3/4 * -3/2 + 1/4 * -15/2 = -3
    # 21 s: g0's 7 of epoch 0 in epoch 3: 7/8 * -3 + 1/8 * 7 = -7/4
    sim = simulate(epochs=3, who=ALL)
    assert cloud_rows(sim) == [(0, 0, 0), (10, 1, -1.5), (20, 2, -3), (21, 3, -1.75)]
    assert rows(sim, "upload", "node", "staleness") == [(10, "g1", 1), (20, "g1", 1), (21, "g0", 3)]
    assert starts(sim, D2) == [0, -1.5]
    assert starts(sim, D0) == [0]
    assert sim.progress.bytes_by_kind == {
        "up": 32, "down": 32, "backhaul": 56, "peer": 0, "overhead": 0,
    }  # fmt: skip


def test_the_cloud_answers_the_uploader_alone():
    sim = simulate(epochs=3, who=ALL)
    assert arrivals(sim, CLOUD, G0) == [1]
    assert arrivals(sim, CLOUD, G1) == [2, 12]


def test_rounds_inside_a_gateway():
    # g0 twice +7, at 1 + 2 * 19 + 1 s
    sim = simulate(gateway_rounds=2)
    assert cloud_rows(sim)[-1] == (40, 1, 14 / 4)
    assert rows(sim, "gateway", "round", "participants") == [(20, 1, 2), (39, 2, 2)]


def test_a_cloud_model_that_is_lost_is_sent_again():
    sim = simulate(lose=(0, 1))
    assert arrivals(sim, CLOUD, G0) == [3]
    assert cloud_rows(sim)[-1] == (23, 1, 7 / 4)


def test_an_upload_that_is_lost_is_sent_again():
    # Flows: 0; 1, 2 down; 3, 4 up; 5 the upload, lost at 21 s
    sim = simulate(lose=(5, 6))
    assert cloud_rows(sim)[-1] == (23, 1, 7 / 4)
    assert sim.progress.bytes_by_kind["backhaul"] == 8 * (1 + 3)


def test_an_upload_is_sent_again_with_what_came_along():
    # Of d0 and d1 each, number, latency and full gradient: 8 + 8 bytes; before, 8 bytes from each.
    associator = Mover()
    associator.uses_gradients = True
    sim = simulate(lose=(5,), associator=associator, sketch=FullSection(kind="full"))
    sent = [row for row in overhead(sim) if row[3] == CLOUD]
    assert sent == [(21, "lost", G0, CLOUD, 32), (22, "arrived", G0, CLOUD, 32)]
    assert sim.progress.bytes_by_kind["overhead"] == 2 * 8 + 2 * 32


def test_an_answer_that_is_lost_is_sent_again():
    # Flow 6 is the answer of 21 s; from 23 s on the second round goes from 7/4 to 35/4.
    sim = simulate(epochs=2, lose=(6,))
    assert cloud_rows(sim)[-1] == (43, 2, pytest.approx(3 / 4 * 7 / 4 + 1 / 4 * 35 / 4))
    assert rows(sim, "upload", "staleness") == [(21, 1), (43, 1)]


def test_an_upload_without_training_is_answered_and_not_mixed_in():
    # d0's and d1's updates (3, 4) are lost; the round closes at 20 s, the next is from 22 to 41 s.
    sim = simulate(lose=(3, 4))
    assert rows(sim, "gateway", "participants") == [(20, 0), (41, 2)]
    assert arrivals(sim, CLOUD, G0) == [1, 22]
    assert cloud_rows(sim) == [(0, 0, 0), (42, 1, 7 / 4)]
    assert rows(sim, "upload", "staleness") == [(42, 1)]


def test_an_upload_without_training_while_others_go_on():
    # Flows: 0, 1 cloud; 2, 3 g0 down; 4 g1 down; 5 d2 up, 6 g1 up (8 s), 7 answer (10 s), 8 g1
    # down, 9 d0 up (12 s), 10 d2 up (17 s), 11 g1 up, 12 d1 up (18 s)
    sim = simulate(who=ALL, epochs=3, lose=(9, 12))
    assert rows(sim, "upload", "node", "staleness")[:3] == [
        (10, "g1", 1),
        (20, "g1", 1),
        (30, "g1", 1),
    ]
    assert starts(sim, D0) == [0, -3]  # the answer of 21 s


def test_a_round_that_is_over_its_time_is_closed_with_what_came():
    # d1 is not back at 16 s: d0's +4 alone.
    sim = simulate(gateway_timeout_s=15)
    assert cloud_rows(sim)[-1] == (17, 1, 1)


def test_a_silent_device_without_a_timeout_stalls_its_gateway_only():
    sim = simulate(who=ALL, epochs=3, first={D1: None})
    assert rows(sim, "upload", "node") == [(10, "g1"), (20, "g1"), (30, "g1")]


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("who", [PAIR, {D2: G1}])
def test_with_one_gateway_and_full_weight_it_is_fedavg(rounds, who):
    full = {"alpha": 1, "staleness": {"kind": "constant"}}
    ours = simulate(gateway_rounds=rounds, epochs=3, who=who, **full)
    theirs = simulate(fedavg(FedAvgSection(gateway_rounds=rounds)), epochs=3, who=who)
    assert cloud_rows(ours) == cloud_rows(theirs)
    assert ours.model.tolist() == theirs.model.tolist()
    assert ours.progress.bytes_by_kind == theirs.progress.bytes_by_kind


def test_proximal_pull_reaches_the_job():
    sim = simulate(proximal=0.5)
    assert {job.pull for job in sim.learner.jobs} == {0.5}
