"""Semi-asynchronous gateways worked by hand on the network of by_hand.py.

d0 answers 12 s after g0 has asked it, with +4; d1 after 19 s, with +8; d2 of g1 after 6 s, -6.
"""

import math

import pytest
from by_hand import ALL, CLOUD, D0, D1, D2, G0, HandLearner, arrivals, cloud_rows, rows, run, starts

from algorithms.fedavg import FedAvgSection, fedavg
from algorithms.semi_async import SemiAsyncSection, semi_async

BY_HAND = {"period_s": 14, "gateway_periods": 2, "staleness": {"kind": "polynomial", "q": 1}}
"""s(1) = 1/2. The first period of g0 is from 1 to 15 s."""


def simulate(epochs=1, **settings):
    fields = SemiAsyncSection.model_fields
    own = {name: settings.pop(name) for name in list(settings) if name in fields}
    return run(semi_async(SemiAsyncSection(**BY_HAND | own)), epochs=epochs, **settings)


def test_two_periods_with_a_late_device_by_hand():
    # 15 s: d0's +4 alone: 4; d0 is asked again, d1 is still busy
    # 29 s: d0's +4 from 4, not stale, and d1's +8 from 0, one period stale: 4 + (4 + 8/2) / 2 = 8
    sim = simulate()
    assert cloud_rows(sim) == [(0, 0, 0), (30, 1, 8)]
    assert rows(sim, "gateway", "round", "participants") == [(15, 1, 1), (29, 2, 2)]
    assert starts(sim, D0) == [0, 4]
    assert starts(sim, D1) == [0]
    assert sim.model.tolist() == [8, 9]
    assert sim.progress.bytes_by_kind == {
        "up": 24, "down": 24, "backhaul": 16, "peer": 0, "overhead": 0,
    }  # fmt: skip


def test_fedbuffs_weights_by_default():
    sim = simulate(staleness={"kind": "polynomial"})
    assert sim.model[0].item() == pytest.approx(4 + (4 + 8 / math.sqrt(2)) / 2)


def test_the_servers_rate_by_hand():
    # 15 s: 1/2 * 4 = 2; 29 s: 2 + 1/2 * (4 + 4) / 2 = 4
    assert simulate(server_rate=0.5).model[0].item() == 4


def test_what_comes_while_the_gateway_waits_for_the_cloud_counts_in_the_next_period():
    # One period a round: 4 is uploaded at 15 s, and back at 17 s. d1 answers at 16 s; both are asked
    # at 17 s, and d0 is back at 29 s. 31 s: 4 + (4 + 8/2) / 2 = 8
    sim = simulate(epochs=2, gateway_periods=1, first={D1: 11})
    assert cloud_rows(sim) == [(0, 0, 0), (16, 1, 4), (32, 2, 8)]
    assert starts(sim, D1) == [0, 4]


def test_nobody_is_asked_while_the_gateway_waits_for_the_cloud():
    # g1, whose period is from 2 to 16 s, keeps the cloud waiting until 18 s.
    sim = simulate(epochs=2, who=ALL, gateway_periods=1)
    assert arrivals(sim, CLOUD, G0)[:2] == [1, 19]
    assert arrivals(sim, G0, D0) == [2, 20]


def test_an_empty_period_leaves_the_model_alone():
    # Periods end at 6, 11 s: nobody has answered.
    sim = simulate(period_s=5)
    assert cloud_rows(sim)[-1] == (12, 1, 0)
    assert rows(sim, "gateway", "participants") == [(6, 0), (11, 0)]
    assert sim.model.tolist() == [0, 1]


def test_a_gateway_to_which_nothing_came_is_left_out_of_the_clouds_mean():
    # g1's d2 never answers: 8 is g0's alone.
    sim = simulate(who=ALL, first={D2: None})
    assert cloud_rows(sim)[-1] == (32, 1, 8)


def test_a_device_two_periods_late():
    # d1 takes 32 s: back at 1 + 2 + 32 + 2 = 37 s, in the third period. d0: 4, 8, 12 without it.
    # 43 s: 8 + (4 + 8/3) / 2
    sim = simulate(gateway_periods=3, first={D1: 32})
    assert cloud_rows(sim)[-1] == (44, 1, pytest.approx(8 + (4 + 8 / 3) / 2))


def test_busy_devices_repeat_their_last_models_if_asked_to():
    # 15 s: d0's 4; d1 has reported nothing yet. 29 s: d0's 8 and d1's 8. 43 s: d0's 12, d1 is busy
    # and counts with 8 again.
    sim = simulate(gateway_periods=3, absent="repeat")
    assert cloud_rows(sim)[-1] == (44, 1, 10)
    assert simulate(gateway_periods=3).model[0].item() != 10


def test_a_silent_device_is_given_up_and_asked_in_the_next_period():
    # Given up at 21 s, asked at 29 s (period 3), back at 48 s.
    sim = simulate(first={D1: None}, device_timeout_s=20, until_s=50, gateway_periods=9)
    assert arrivals(sim, D1, G0) == [48]


def test_a_late_answer_is_ignored():
    # d1's update (flow 5) takes 10 s: sent at 18 s, given up at 21 s, there at 28 s.
    sim = simulate(slow={5: 10}, device_timeout_s=20)
    assert arrivals(sim, D1, G0) == [28]
    assert cloud_rows(sim)[-1] == (30, 1, 8)
    assert [n for _, n in rows(sim, "gateway", "participants")] == [1, 1]


def test_a_cloud_that_does_not_wait_begins_anew_and_the_clock_goes_on():
    # The cloud closes at 16 s with nothing, g0 has its model at 17 s and goes on from 0, with two
    # periods to go: 29 s: d0's +4 from 4 and d1's +8 from 0: (4 + 4) / 2 = 4.
    sim = simulate(epochs=3, cloud_timeout_s=16)
    assert [t for t, _ in rows(sim, "gateway", "participants")][:2] == [15, 29]
    assert [(t, e) for t, e, _ in cloud_rows(sim)] == [(0, 0), (16, 1), (32, 2), (48, 3)]
    assert starts(sim, D0)[:3] == [0, 4, 4]


@pytest.mark.parametrize("rounds", [1, 2])
def test_with_periods_longer_than_rounds_it_is_fedavg(rounds):
    ours = simulate(epochs=3, who=ALL, gateway_periods=rounds, period_s=50)
    theirs = run(fedavg(FedAvgSection(gateway_rounds=rounds)), epochs=3, who=ALL)
    assert [loss for _, _, loss in cloud_rows(ours)] == pytest.approx(
        [loss for _, _, loss in cloud_rows(theirs)]
    )
    assert ours.model.tolist() == pytest.approx(theirs.model.tolist())
    assert ours.progress.bytes_by_kind == theirs.progress.bytes_by_kind


def test_the_clouds_mean_is_by_samples():
    # g0 has 4 and then 8 from three updates of 1, 1 and 3 samples, g1 -12 from two of 2.
    sim = simulate(who=ALL, learner=HandLearner({D0: 1, D1: 3, D2: 2}))
    assert cloud_rows(sim)[-1] == (32, 1, pytest.approx((5 * 8 + 4 * -12) / 9))


def test_proximal_pull_reaches_the_job():
    sim = simulate(proximal=0.5)
    assert {job.pull for job in sim.learner.jobs} == {0.5}
