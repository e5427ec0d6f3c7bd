"""HGA-FL and its relatives as whole runs on the network of by_hand.py; samples: d0 1, d1 3, d2 2.

A round of g0 takes 2 + 15 + 2 = 19 s and adds 7 by samples, one of g1 6 s and -6. Uploads of one
round: g0's at 1 + 19 + 1 = 21 s, g1's at 2 + 6 + 2 = 10 s, and 10 s after each answer.
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
    Quadratics,
    arrivals,
    cloud_rows,
    rows,
    run,
    starts,
)
from pydantic import ValidationError

from algorithms.bounds import least_alpha
from algorithms.sub_center import SUB_CENTER_RULES
from algorithms.two_level import TwoLevelSection, two_level
from simulator.device_state import DeviceState
from simulator.errors import UserError

S_AVG = {"name": "s-avg"}
SAMPLES = {D0: 1, D1: 3, D2: 2}


def hga(buffer, rate=0.5, **how):
    return {"name": "hga-g", "rate": rate, "buffer": buffer, **how}


def simulate(cloud, gateway=S_AVG, gateway_rounds=1, epochs=1, who=ALL, learner=None, **settings):
    own = {n: settings.pop(n) for n in list(settings) if n in TwoLevelSection.model_fields}
    section = TwoLevelSection(cloud=cloud, gateway=gateway, gateway_rounds=gateway_rounds, **own)
    learner = learner or HandLearner(SAMPLES)
    return run(two_level(section), epochs=epochs, who=who, learner=learner, **settings)


# Algorithm 1


def test_a_buffer_of_one_by_hand():
    # 10 s: g1's 6; c = 0: w = 0 - 1/2 * 12 = -6
    # 20 s: g1's 6; c = 6/2: w = -6 - 1/2 (12 - 3) = -21/2
    # 21 s: g0's -7 from 0; c = 3: w = -21/2 - 1/2 (-14 - 3) = -2
    sim = simulate(hga(1), epochs=3)
    assert cloud_rows(sim) == [(0, 0, 0), (10, 1, -6), (20, 2, -10.5), (21, 3, -2)]
    assert starts(sim, D2) == [0, -6]
    assert arrivals(sim, CLOUD, G0) == [1], "only who uploaded gets the new model"


def test_a_buffer_of_two_by_hand():
    # 21 s: -7 and 6, mean -1/2; c = 0: w = 0 - 1/2 (-1) = 1/2
    # 42 s: the same differences; c = -1/2: w = 1/2 - 1/2 (-1 + 1/2) = 3/4
    sim = simulate(hga(2), epochs=2)
    assert cloud_rows(sim) == [(0, 0, 0), (21, 1, 0.5), (42, 2, 0.75)]
    assert starts(sim, D2) == starts(sim, D0) == [0, 0.5]


def test_rounds_inside_a_sub_center_last_as_long_as_the_slowest_device():
    # R = 3: g1 at 2 + 18 + 2 s with -18; g0 at 1 + 57 + 1
    sim = simulate(hga(1), gateway_rounds=3, epochs=1)
    assert cloud_rows(sim)[-1] == (22, 1, -18)
    both = simulate(hga(2), gateway_rounds=3, epochs=2)
    assert [time for time, _, _ in cloud_rows(both)] == [0, 59, 118]
    ends = [time for time, node in rows(both, "gateway", "node") if node == "g0"]
    assert ends == [20, 39, 58, 79, 98, 117], "R rounds for the second upload too"


def test_staleness_waiting_and_ages_are_recorded():
    found = simulate(hga(1), epochs=3)
    assert rows(found, "upload", "node", "epoch", "staleness", "staleness_s", "wait_s") == [
        (10, "g1", 1, 0, 10, 0), (20, "g1", 2, 0, 10, 0), (21, "g0", 3, 2, 21, 0),
    ]  # fmt: skip
    uploads = [row for row in found.recorder.rows if row["tier"] == "upload"]
    assert [(r.get("cached_age"), r.get("cached_age_s")) for r in uploads] == [
        (None, None), (1, 20), (None, None),
    ]  # fmt: skip
    waited = simulate(hga(2), epochs=2)
    assert rows(waited, "upload", "node", "staleness_s", "wait_s") == [
        (21, "g0", 21, 0), (21, "g1", 21, 11), (42, "g0", 21, 0), (42, "g1", 21, 11),
    ]  # fmt: skip


# The other global rules


def test_fedasync_g_is_rfl_ha_but_for_what_is_fresh():
    # 10 s: 1/2 * -6; 20 s: 1/2 of -3 and of -9; 21 s: staleness 2, weight 1/6: 5/6 * -6 + 7/6
    cloud = {"name": "fedasync-g", "alpha": 0.5, "staleness": {"kind": "polynomial", "q": 1}}
    sim = simulate(cloud, epochs=3)
    assert [loss for _, _, loss in cloud_rows(sim)] == pytest.approx([0, -3, -6, -23 / 6])


def test_fedbuff_g_in_a_run():
    # Nothing is stale: w = -1/2 (-7 + 6)/2, then at half the rate
    sim = simulate({"name": "fedbuff-g", "rate": 0.5, "decay": 0.5, "buffer": 2}, epochs=2)
    assert [loss for _, _, loss in cloud_rows(sim)] == [0, 0.25, 0.375]


def test_ca2fl_g_in_a_run():
    # 10 s: 6; 20 s: c = 3, no residual; 21 s: c = 3, residual -7
    sim = simulate({"name": "ca2fl-g", "rate": 0.5, "buffer": 1}, epochs=3)
    assert [loss for _, _, loss in cloud_rows(sim)] == [0, -3, -4.5, -2.5]


def test_sync_avg_waits_for_all():
    sim = simulate({"name": "sync-avg"}, epochs=2)
    assert cloud_rows(sim) == [(0, 0, 0), (21, 1, 0.5), (42, 2, 1)]


def test_sub_centers_with_a_control_send_twice_as_much():
    sim = simulate(hga(2), {"name": "s-scaffold-exp"})
    assert sim.progress.bytes_by_kind["down"] == sim.progress.bytes_by_kind["up"] == 3 * 16
    assert sim.progress.bytes_by_kind["backhaul"] == 4 * 8


# What is lost or late


def test_a_late_device_is_left_out_and_its_state_stays():
    # d1's first job never ends; the round is closed at 1 + 20 s, with d0's 4 alone
    sim = simulate(
        hga(1), {"name": "s-dyn"}, epochs=1, who=PAIR, first={D1: None}, gateway_timeout_s=20
    )
    state = sim.algorithm.algorithm.lower.rule.gradients
    assert list(state) == [D0]
    # g = -2 * 4, h = -4, w_j = 4 + 2; w = 0 + 1/2 * 2 * 6
    assert cloud_rows(sim)[-1] == (22, 1, 6)


def test_a_lost_answer_changes_no_state():
    # Flows: 0; 1, 2 to d0, d1; 3, 4 back: d1's, lost
    sim = simulate(hga(1), {"name": "s-dyn"}, who=PAIR, lose=(4,))
    assert list(sim.algorithm.algorithm.lower.rule.gradients) == [D0]
    assert cloud_rows(sim)[-1] == (21, 1, 6)


def test_corrections_sum_to_zero_in_a_run_with_losses():
    learner = HandLearner(SAMPLES)
    simulate(
        hga(1), {"name": "s-scaffold-exp"}, 4, epochs=2, who=PAIR, learner=learner, lose=(4, 9)
    )
    by_round = {}
    for job in learner.jobs:
        by_round.setdefault(job.tag.round, []).append(job.whole_shift[0].item())
    assert len(by_round) == 8
    for corrections in by_round.values():
        assert len(corrections) == 1 or sum(corrections) == pytest.approx(0, abs=1e-4)


def test_a_failed_sub_center_is_not_waited_for_beyond_the_limit():
    # g0's d0 and d1 never answer: g1's upload of 10 s waits until 40 s, its next from 50 to 80 s
    sim = simulate(hga(2), epochs=2, first={D0: None, D1: None}, cloud_timeout_s=30)
    assert rows(sim, "upload", "node", "wait_s") == [(40, "g1", 30), (80, "g1", 30)]


def test_without_a_limit_it_is_waited_for():
    sim = simulate(hga(2), epochs=2, first={D0: None, D1: None})
    assert sim.progress.stop_reason == "stalled"


def test_a_late_sub_center_is_answered_not_averaged():
    # g0's 7 of epoch 0 comes at 21 s, after the step of 15 s: it begins again from -6
    sim = simulate({"name": "sync-avg"}, epochs=2, cloud_timeout_s=5)
    assert cloud_rows(sim) == [(0, 0, 0), (15, 1, -6), (30, 2, -12)]
    assert starts(sim, D0) == [0, -6]


def test_models_between_cloud_and_sub_centers_are_sent_again():
    # Flow 0, to g0, and the upload of g0, flow 6, are lost once each: 1 + 21 + 1 s
    sim = simulate(hga(1), who=PAIR, lose=(0, 6))
    assert cloud_rows(sim)[-1] == (23, 1, 7)


def test_an_upload_without_training_is_answered_not_counted():
    sim = simulate(hga(1), who=PAIR, lose=(1, 2))
    assert rows(sim, "gateway", "participants") == [(3, 0), (24, 2)]
    assert cloud_rows(sim)[-1] == (25, 1, 7)


def test_a_gateway_without_devices_rests_and_does_not_count():
    # M = 1: w = 0 + 1/2 * 14, then c = -7/1: 7 - 1/2 (-14 + 7)
    sim = simulate(hga(1), who=PAIR, epochs=2)
    assert [loss for _, _, loss in cloud_rows(sim)] == [0, 7, 10.5]
    assert arrivals(sim, CLOUD, G1) == []


def test_a_device_takes_its_state_along_to_another_sub_center():
    sim = simulate(
        hga(1), {"name": "s-dyn"}, epochs=4, who=PAIR, until_s=200, associator=Mover({D1: G1})
    )
    jobs = [job for job in sim.learner.jobs if job.node == D1]
    assert [job.tag.gateway for job in jobs][:2] == [G0, G1]
    assert jobs[1].whole_shift is not None


def test_a_buffer_larger_than_the_sub_centers_is_refused():
    with pytest.raises(UserError, match=r"buffer = 3.*2 have devices.*use at most 2"):
        simulate(hga(3))


def test_hga_fl_is_what_it_says():
    assert TwoLevelSection(name="hga-fl").cloud.name == "hga-g"
    with pytest.raises(ValidationError, match='use name = "two-level"'):
        TwoLevelSection(name="hga-fl", gateway=S_AVG)


# Where it leads to


CURVATURE, CENTRE = {D0: 1.0, D1: 4.0, D2: 2.0}, {D0: 0.0, D1: 3.0, D2: -1.0}
OPTIMUM = 4 / 4.5
"""Of (1) and (2): (w + 4 (w - 3))/2 + 2 (w + 1) = 0."""


def path_of(
    cloud, gateway, gateway_rounds=1, curvature=CURVATURE, epochs=200, steps=20, **settings
):
    """The global models, the first included."""
    learner = Quadratics(curvature, CENTRE, steps)
    sim = simulate(
        cloud, gateway, gateway_rounds, epochs, learner=learner, until_s=10**6, **settings
    )
    return [model for _, _, model in cloud_rows(sim)]


def end_of(*args, **settings):
    return path_of(*args, **settings)[-1]


def balance(pulls, minima):
    """Where sub-centers that move by pull * (w - minimum) cancel out."""
    return sum(p * m for p, m in zip(pulls, minima, strict=True)) / sum(pulls)


def moved(curvature, mu=0.0):
    """How far 20 steps of 1/10 take a device, by its distance to its own minimum."""
    return curvature / (curvature + mu) * (1 - (1 - 0.1 * (curvature + mu)) ** 20)


@pytest.mark.parametrize("cached", ["old", "new"])
def test_hga_fl_finds_the_global_optimum_and_averages_do_not(cached):
    """R = 1 and K = M: where nothing moves any more, Delta_j is sub-center j's gradient / alpha."""
    cloud = hga(2, 0.3, cached=cached)
    assert end_of(cloud, {"name": "s-dyn"}) == pytest.approx(OPTIMUM, abs=1e-5)
    for other, mu in (
        ({"name": "s-avg"}, 0.0),
        ({"name": "s-prox"}, 2.0),
        ({"name": "s-dyn", "on_new_model": "reset"}, 2.0),
    ):
        devices = [moved(CURVATURE[D0], mu) / 2, moved(CURVATURE[D1], mu) / 2]
        there = balance([*devices, moved(CURVATURE[D2], mu)], CENTRE.values())
        assert end_of(cloud, other) == pytest.approx(there, abs=1e-5)
        assert there < OPTIMUM - 0.3


def pull_of_s_dyn(curvature, alpha, rounds):
    """Delta_j by w - w_j*, when it repeats itself; all devices alike, each round solved exactly.

    u = h + alpha (w - w_j*) shrinks by rho in a round, and h comes back to what it was.
    """
    rho = alpha / (alpha + curvature)
    return (1 - rho**rounds) / (1 - (1 - rho) * rho ** (rounds - 1))


@pytest.mark.parametrize("rounds", [1, 2, 8])
@pytest.mark.parametrize("other", [2.5, 2.0])
def test_with_several_rounds_it_does_where_sub_centers_are_equally_curved(rounds, other):
    """Any R: exactly where they are; else only R = 1."""
    curvature, minima = {D0: 2.5, D1: 2.5, D2: other}, [1.5, -1.0]
    pulls = [pull_of_s_dyn(c, 2.0, rounds) for c in (2.5, other)]
    found = end_of(hga(2, 0.5), {"name": "s-dyn"}, rounds, curvature, epochs=40, steps=30)
    assert found == pytest.approx(balance(pulls, minima), abs=1e-4)
    optimum = balance([2.5, other], minima)
    if rounds == 1 or other == 2.5:
        assert found == pytest.approx(optimum, abs=1e-4)
    else:
        assert abs(found - optimum) > 0.05


def test_and_nearly_where_alpha_keeps_the_papers_limit():
    """At (67) pulls are nearly as unequal as curvatures are."""
    alpha = least_alpha(4.0, 8)
    pulls = [pull_of_s_dyn(c, alpha, 8) for c in (4.0, 2.0)]
    assert pulls[0] / pulls[1] == pytest.approx(2, rel=0.01)


def test_with_many_rounds_it_comes_to_the_mean_of_the_sub_centers_own_minima():
    """Each sub-center forgets where it began: no global rule can mend that."""
    found = end_of(hga(2), {"name": "s-dyn"}, 40, epochs=40)
    assert found == pytest.approx((2.4 - 1) / 2, abs=1e-4)


def test_with_a_smaller_buffer_fast_sub_centers_pull_it_to_them_and_slow_ones_away():
    """K < M: for a small eta_g sub-center j weighs 2 p_j - 1/M, where p_j is its share of uploads.

    So one that is less than half as frequent as the mean weighs less than nothing. Here K = 1 and
    p = 10/31, 21/31. CA2FL, whose steps add up to the cached mean, does not mind.
    """
    weights = [2 * 10 / 31 - 1 / 2, 2 * 21 / 31 - 1 / 2]
    there = balance([weights[0] * 2.5, weights[1] * 2], [2.4, -1])
    path = path_of(hga(1, 0.02), {"name": "s-dyn"}, epochs=1000)
    assert sum(path[-310:]) / 310 == pytest.approx(there, abs=0.02), "up to terms in eta_g"
    assert there < OPTIMUM - 1
    calibrated = {"name": "ca2fl-g", "buffer": 1, "rate": 0.02}
    path = path_of(calibrated, {"name": "s-dyn"}, epochs=1000)
    assert sum(path[-310:]) / 310 == pytest.approx(OPTIMUM, abs=1e-3)


@pytest.mark.parametrize("gateway", SUB_CENTER_RULES)
def test_with_the_printed_sign_the_loss_climbs(gateway):
    def loss(w):
        parts = {d: CURVATURE[d] / 2 * (w - CENTRE[d]) ** 2 for d in ALL}
        return ((parts[D0] + parts[D1]) / 2 + parts[D2]) / 2

    for sign, way in (("descent", -1), ("printed", 1)):
        path = path_of(hga(2, 0.1, sign=sign), {"name": gateway}, epochs=10)
        losses = [way * loss(w) for w in path]
        assert losses == sorted(set(losses)), "at every global step"


def test_one_center_with_one_place_in_the_buffer_is_feddyn():
    """M = K = 1 with the new difference in c and eta_g = 1: the cloud only passes models on."""
    alone = end_of(hga(1, 1.0, cached="new"), {"name": "s-dyn"}, 1, epochs=12, who=PAIR)
    in_one_go = end_of(hga(1, 1.0, cached="new"), {"name": "s-dyn"}, 12, epochs=1, who=PAIR)
    assert alone == pytest.approx(in_one_go, rel=1e-4)
    assert end_of(hga(1, 1.0, cached="new"), {"name": "s-dyn"}, who=PAIR) == pytest.approx(2.4)


@pytest.mark.parametrize("rule", ["s-dyn", "s-scaffold-exp"])
def test_in_memory_on_disk_and_resumed_it_is_the_same_run(scenario, run_in, monkeypatch, rule):
    algorithm = {"name": "two-level", "gateway_rounds": 3, "gateway": {"name": rule}}
    several = scenario({"algorithm": algorithm | {"cloud": {"name": "hga-g", "buffer": 1}}})
    in_memory = run_in(several, "memory")
    monkeypatch.setattr(DeviceState.__init__, "__defaults__", (0,))
    for other in (run_in(several, "disk"), run_in(several, "resumed", after_events=40)):
        for key in ("event_log_sha256", "model_sha256"):
            assert other[key] == in_memory[key]
