"""The warm-up before Async-HFL worked by hand on the network of by_hand.py.

All gradients lie in one direction: a sketch is one number, its parameters are one model, 8 bytes.
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
    Mover,
    arrivals,
    overhead,
    rows,
    run,
    starts,
)

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from algorithms.warm_up import WarmUp
from selection.simple import HighLoss, HighLossSection
from selection.sketch import PcaSection
from selection.utility_ilp import UtilitySelection, UtilitySelectionSection


def simulate(share=1.0, timeout_s=None, cost="network", where="device", until_s=30, **settings):
    async_hfl = AsyncHFL(AsyncHFLSection(updates_per_upload=100))
    selector = UtilitySelection(UtilitySelectionSection(name="utility-ilp"))
    return run(
        WarmUp(async_hfl, share, timeout_s, cost),
        until_s=until_s,
        **{"selector": selector, "sketch": PcaSection(where=where)} | settings,
    )


def known(sim):
    return [d for d in sim.topology.devices if sim.manager.ledger.gradients.knows(d)]


def test_every_transfer_by_hand():
    # g0 hears d0's gradient at 13 s and d1's at 20 s, and passes both on; g1 d2's at 8 s. The cloud
    # has all at 21 s and sends the parameters to the gateways and these to devices.
    sim = simulate(until_s=24, who=ALL)
    assert overhead(sim) == [
        (1, "arrived", CLOUD, G0, 8),
        (2, "arrived", CLOUD, G1, 8),
        (2, "arrived", G0, D0, 8),
        (3, "arrived", G0, D1, 8),
        (3, "arrived", G1, D2, 8),
        (8, "arrived", D2, G1, 8),
        (10, "arrived", G1, CLOUD, 8),
        (13, "arrived", D0, G0, 8),
        (20, "arrived", D1, G0, 8),
        (21, "arrived", G0, CLOUD, 16),
        (22, "arrived", CLOUD, G0, 8),
        (23, "arrived", CLOUD, G1, 8),
        (23, "arrived", G0, D0, 8),
        (24, "arrived", G0, D1, 8),
        (24, "arrived", G1, D2, 8),
    ]
    assert sim.progress.bytes_by_kind["overhead"] == 128
    assert known(sim) == [D0, D1, D2]


def test_nothing_but_overhead_until_the_algorithm_starts():
    sim = simulate(until_s=20, who=ALL)
    assert {kind for kind, sent in sim.progress.bytes_by_kind.items() if sent} == {"overhead"}


def test_the_algorithm_starts_when_the_cloud_has_all_gradients():
    # Its models leave the cloud at 21 s and begin at the devices at 23, 24 and 24 s.
    sim = simulate(who=ALL, until_s=36)
    assert sim.progress.bytes_by_kind["backhaul"] == 16
    assert rows(sim, "gateway", "node") == [(29, "g1"), (34, "g0"), (35, "g1")]
    assert starts(sim, D0)[:2] == [0, 0]


def test_who_has_the_parameters_sends_sketches():
    # d2's updates leave at 28 and 34 s, d0's at 33 s: 4 bytes more each.
    sim = simulate(who=ALL, until_s=36)
    assert sim.progress.bytes_by_kind["overhead"] == 128 + 3 * 4
    assert sim.progress.bytes_by_kind["up"] == 3 * 8


def test_who_has_no_parameters_sends_no_sketch():
    # Flows: 0; 1, 2 down; 3, 4 gradients; 5 to the cloud; 6 parameters, 7 the model; 8, 9 parameters
    # to d0, d1 at 22 s; d0's are lost, and again (they are sent at 23 and 24 s).
    # d0 has its model at 23 s and sends 8 bytes at 33 s, without the sketch.
    sim = simulate(who=PAIR, until_s=35, lose=(8, 12, 13))
    sent = [row for row in overhead(sim) if row[2:4] == (G0, D0)]
    assert [(t, status) for t, status, *_ in sent] == [
        (2, "arrived"), (23, "lost"), (24, "lost"), (25, "lost"),
    ]  # fmt: skip
    assert [row for row in overhead(sim) if row[0] > 25] == []
    assert D0 not in sim.manager.equipped
    assert D1 in sim.manager.equipped


def test_sketches_at_gateways_need_no_parameters_at_devices():
    sim = simulate(who=ALL, until_s=36, where="gateway")
    assert [row[:4] for row in overhead(sim) if row[0] > 21] == [
        (22, "arrived", CLOUD, G0), (23, "arrived", CLOUD, G1),
    ]  # fmt: skip
    assert list(sim.manager.equipped) == [G0, G1]


# Who is not waited for


def test_a_share_is_enough():
    # Half of g0's devices: d0 at 13 s; the cloud has it at 14 s, with one gradient of 8 bytes.
    sim = simulate(share=0.5, who=PAIR, until_s=16)
    assert [row for row in overhead(sim) if row[3] == CLOUD] == [(14, "arrived", G0, CLOUD, 8)]
    assert known(sim) == [D0]
    assert arrivals(sim, CLOUD, G0) == [1, 15, 15]


@pytest.mark.parametrize(("share", "at_s"), [(0.01, 14), (0.5, 14), (0.51, 21), (1, 21)])
def test_a_share_is_rounded_up_and_at_least_one_device(share, at_s):
    assert arrivals(simulate(share=share, who=PAIR), G0, CLOUD) == [at_s]


def test_a_late_report_is_ignored():
    # d1's first job takes 12 s: its gradient is at g0 at 17 s, three seconds after the fit.
    sim = simulate(share=0.5, who=PAIR, first={D1: 12}, until_s=17)
    assert arrivals(sim, D1, G0) == [17]
    assert arrivals(sim, G0, CLOUD) == [14]
    assert known(sim) == [D0]


def test_a_late_first_model_is_ignored():
    # d1's first model (flow 2) takes 20 s, until 21 s; the algorithm's is there at 17 s, and the job
    # of that goes on: 17 + 15 + 2 = 34 s.
    sim = simulate(share=0.5, who=PAIR, slow={2: 20}, until_s=35)
    assert arrivals(sim, G0, D1)[:2] == [17, 17]
    assert 34 in [t for (t,) in rows(sim, "gateway")]
    assert sim.progress.jobs_abandoned == 0


def test_a_device_with_a_first_model_on_its_way_does_not_move_yet():
    # As above, but the cloud would move d1 to g1, with which its radio cannot talk now; g0 has that
    # decision at 15 s, and the algorithm begins without the move.
    sim = simulate(share=0.5, who=PAIR, slow={2: 15}, until_s=33, associator=Mover({D1: G1}))
    assert sim.association[D1] == G0
    assert arrivals(sim, CLOUD, G0)[:3] == [1, 15, 16]


@pytest.mark.parametrize("first_s", [11, 12, 15])
def test_what_a_device_has_trained_before_it_moved_is_not_sent(first_s):
    # d1 has its first model at 3 s; it is told between 15 and 17 s to go, and ends its training before
    # it is told, before it is there, or after.
    sim = simulate(share=0.5, who=PAIR, until_s=60, associator=Mover({D1: G1}), first={D1: first_s})
    assert sim.association[D1] == (G0 if first_s == 11 else G1)
    assert bool(arrivals(sim, D1, G0)) == (first_s == 11)


def test_a_silent_device_is_given_up():
    # d1 at 16 s; g0 passes on what it has.
    sim = simulate(timeout_s=15, who=PAIR, first={D1: None})
    assert arrivals(sim, G0, CLOUD) == [17]
    assert known(sim) == [D0]
    assert list(sim.manager.ledger.silent) == [D1]


def test_who_is_still_busy_is_given_up_and_asked_by_the_algorithm():
    sim = simulate(share=0.5, who=PAIR, until_s=40)
    assert not sim.manager.ledger.silent  # it would have answered
    assert starts(sim, D1)[:2] == [0, 0]
    assert sim.progress.jobs_abandoned == 1
    assert 34 in [t for (t,) in rows(sim, "gateway")]


def test_as_many_at_a_time_as_the_budget_allows():
    # 4 and 2 bytes/s into 4: d0 from 1 to 13 s, then d1 from 13 to 32 s.
    sim = simulate(who=PAIR, budget=4.0, until_s=40)
    assert arrivals(sim, G0, D1)[0] == 15
    assert arrivals(sim, G0, CLOUD) == [33]


# What is lost


def test_a_lost_first_model_to_a_gateway_is_sent_again():
    sim = simulate(who=PAIR, lose=(0, 1))
    assert arrivals(sim, CLOUD, G0)[0] == 3
    assert arrivals(sim, G0, CLOUD) == [23]


@pytest.mark.parametrize("flow", [1, 3])
def test_a_device_whose_first_model_or_gradient_is_lost_is_left_out(flow):
    # d0's; d1's gradient alone goes to the cloud at 20 s.
    sim = simulate(who=PAIR, lose=(flow,))
    assert [row for row in overhead(sim) if row[3] == CLOUD] == [(21, "arrived", G0, CLOUD, 8)]
    assert known(sim) == [D1]


def test_lost_gradients_to_the_cloud_are_sent_again():
    # Flow 5; both times 16 bytes
    sim = simulate(who=PAIR, lose=(5,))
    sent = [row for row in overhead(sim) if row[3] == CLOUD]
    assert sent == [(21, "lost", G0, CLOUD, 16), (22, "arrived", G0, CLOUD, 16)]
    assert arrivals(sim, CLOUD, G0) == [1, 23, 23]


def test_lost_parameters_to_a_gateway_are_sent_again_up_to_three_times():
    # Flow 6 at 21 s, 7 the model; 8 the second try at 22 s
    sim = simulate(who=PAIR, lose=(6, 8), until_s=30)
    tries = [row[:2] for row in overhead(sim) if row[2:4] == (CLOUD, G0)][1:]
    assert tries == [(22, "lost"), (23, "lost"), (24, "arrived")]
    assert list(sim.manager.equipped) == [G0, D0, D1]


def test_when_all_gradients_are_lost_the_algorithm_starts_without():
    # d2's (2) is lost at 8 s; g1 has nothing to tell, which the cloud hears at 10 s. Sketches of no
    # component are nothing: the algorithm's first update is at g1 at 12 + 6 = 18 s.
    sim = simulate(who={D2: G1}, lose=(2,), until_s=19)
    assert arrivals(sim, D2, G1) == [18]
    assert sim.progress.bytes_by_kind["overhead"] == 3 * 8  # first models, the gradient


# For nothing


def test_free_costs_neither_time_nor_bytes():
    sim = simulate(cost="free", who=ALL, until_s=0)
    assert known(sim) == [D0, D1, D2]
    assert set(sim.manager.equipped) == {G0, G1, D0, D1, D2}
    assert sim.progress.bytes_by_kind == {
        "up": 0, "down": 0, "backhaul": 16, "peer": 0, "overhead": 0,
    }  # fmt: skip


@pytest.mark.parametrize("cost", ["free", "network"])
def test_later_jobs_draw_other_numbers(cost):
    sim = simulate(cost=cost, who=PAIR, until_s=60)
    assert [job.count for job in sim.learner.jobs if job.node == D0][:3] == [0, 1, 2]


def test_after_a_free_warm_up_sketches_are_paid_for():
    sim = simulate(cost="free", who=PAIR, until_s=13)
    assert sim.progress.bytes_by_kind["overhead"] == 4
    assert rows(sim, "gateway", "node") == [(13, "g0")]


# Association


def test_the_fit_associates_for_the_first_time():
    # At 21 s; g0 hears of it at 22 s, d1 at 24 s, and the algorithm starts: g1 has its model at 26 s
    # and d1, at 29 s: 29 + 15 + 3 s
    sim = simulate(who=PAIR, associator=Mover({D1: G1}), until_s=48)
    assert (47, "g1") in rows(sim, "gateway", "node")
    assert arrivals(sim, D1, G0) == [20]
    assert sim.progress.bytes_by_kind["backhaul"] == 16  # to both


def test_the_first_decisions_and_moves_are_8_bytes_a_device():
    moves = Mover({D0: G1, D1: G1, D2: G0})
    sim = simulate(who=ALL, associator=moves, until_s=25, where="gateway")
    told = [row for row in overhead(sim) if row[0] > 21]
    assert told == [
        (22, "arrived", CLOUD, G0, 16),
        (23, "arrived", CLOUD, G1, 8),
        (23, "arrived", G0, D0, 8),
        (24, "arrived", G0, D1, 8),
        (24, "arrived", G1, D2, 8),
        (25, "arrived", CLOUD, G0, 8),  # parameters: the algorithm begins at 24 s
    ]


@pytest.mark.parametrize(("lost", "at_s"), [(6, 22), (7, 24)])
def test_after_a_lost_decision_or_move_the_algorithm_starts_without(lost, at_s):
    sim = simulate(who=PAIR, associator=Mover({D1: G1}), lose=(lost,), until_s=60)
    assert sim.association[D1] == G0
    assert arrivals(sim, CLOUD, G0)[-1] == at_s + 1
    assert not sim.manager.untold.get(G1)


def test_resumed_while_the_first_decisions_travel(scenario, run_in):
    moving = scenario(
        {"run": {"epochs": 2, "learning": "none"}, "model": {"transfer_bytes": 2600}},
        {"topology": {"reach": 2}, "algorithm": {"name": "async-hfl", "updates_per_upload": 4}},
        {"selection": {"name": "utility-ilp", "budget_bytes_per_s": 8000.0}},
        {"association": {"name": "rfl-ha", "tolerance": 0.1}},
    )
    whole = run_in(moving)
    for after in range(15, 24):
        parts = run_in(moving, f"parts-{after}", after_events=after)
        assert parts["event_log_sha256"] == whole["event_log_sha256"]


@pytest.mark.parametrize("where", ["device", "gateway"])
def test_devices_of_a_gateway_that_had_none_get_parameters_too(where):
    sim = simulate(who=PAIR, associator=Mover({D1: G1}), until_s=40, where=where)
    assert sim.association[D1] == G1
    assert (D1 if where == "device" else G1) in sim.manager.equipped


def test_losses_that_are_told_with_gradients_are_counted():
    # 4 bytes more of each of the two, on the way to the gateway
    selector = HighLoss(HighLossSection(name="high-loss"))
    sim = simulate(who=PAIR, selector=selector, until_s=20)
    assert sim.manager.ledger.losses == {D0: 0.5, D1: 0.5}
    assert [row[4] for row in overhead(sim) if row[2] in (D0, D1)] == [12, 12]
