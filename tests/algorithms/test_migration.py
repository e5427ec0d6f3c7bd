"""Devices change their gateway, worked by hand on the network of by_hand.py."""

import pandas as pd
import pytest
from by_hand import (
    ALL,
    CLOUD,
    D0,
    D1,
    D2,
    G0,
    G1,
    Mover,
    arrivals,
    cloud_rows,
    overhead,
    rows,
    run,
    starts,
)

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from algorithms.fedavg import FedAvgSection, fedavg
from algorithms.rfl_ha import RflHaSection, rfl_ha
from algorithms.semi_async import SemiAsyncSection, semi_async


def async_hfl(**params):
    """A gateway uploads each update, and has one device under way."""
    return AsyncHFL(AsyncHFLSection(**{"updates_per_upload": 1, "concurrency": 1} | params))


def told(sim):
    """Decisions and moves; latencies go to the cloud."""
    return [row for row in overhead(sim) if row[3] != CLOUD]


# Async-HFL: g1 hears d2 at 8 s, the cloud g1 at 10 s; g0 has the decision at 11 s


def test_an_idle_device_moves_at_once():
    # d1 is told at 13 s; g1 has d2 back at 14 s and asks d1: 3 + 15 + 3 s
    sim = run(async_hfl(), who=ALL, associator=Mover({D1: G1}), until_s=36)
    assert [row[:4] for row in told(sim)] == [
        (11, "arrived", CLOUD, G0), (13, "arrived", G0, D1),
    ]  # fmt: skip
    assert sim.association[D1] == G1
    assert arrivals(sim, D1, G1) == [35]
    assert arrivals(sim, D1, G0) == []


def test_a_decision_and_a_move_are_8_bytes_a_device():
    sim = run(async_hfl(), who=ALL, associator=Mover({D0: G1, D1: G1}), until_s=20)
    assert [row[2:] for row in told(sim)] == [(CLOUD, G0, 16), (G0, D1, 8), (G0, D0, 8)]


def test_a_busy_device_moves_when_it_has_come_back():
    # d0 answers g0 at 13 s and is told at 14 s, just when g1 has d2 back: 14 + 3 + 10 + 3 s
    settings = {"who": ALL, "associator": Mover({D0: G1})}
    assert run(async_hfl(), until_s=13, **settings).association[D0] == G0
    sim = run(async_hfl(), who=ALL, associator=Mover({D0: G1}), until_s=40)
    assert (13, "g0") in rows(sim, "gateway", "node")
    assert [row[:4] for row in told(sim)][1:] == [(14, "arrived", G0, D0)]
    assert arrivals(sim, D0, G0) == [13]
    assert arrivals(sim, D0, G1) == [30]


def test_a_device_whose_move_is_lost_stays():
    # Flows: 0, 1 cloud; 2 g0 to d0, 3 g1 to d2; 4 d2; 5 g1 to cloud, 6 g1 to d2; 7, 8 cloud, 9 the
    # decision; 10 d1's, lost at 13 s, when d0 comes back: d1 is asked at 13 s.
    sim = run(async_hfl(), who=ALL, associator=Mover({D1: G1}), until_s=33, lose=(10,))
    assert sim.association[D1] == G0
    assert arrivals(sim, D1, G0) == [32]


def test_a_lost_decision_moves_nobody():
    sim = run(async_hfl(), who=ALL, associator=Mover({D1: G1}), until_s=33, lose=(9,))
    assert sim.association[D1] == G0
    assert arrivals(sim, D1, G0) == [32]


def test_a_gateway_without_devices_gets_a_model_when_it_gets_devices():
    # d0 answers at 13 s, the cloud decides at 14 s; g1 has its model and d0 at 16 s, d0 a model at
    # 19 s: back at 32 s.
    sim = run(async_hfl(), associator=Mover({D0: G1}), until_s=33)
    assert arrivals(sim, CLOUD, G1) == [16]
    assert arrivals(sim, D0, G1) == [32]


def test_a_lost_first_model_is_sent_again_though_the_cloud_has_gone_on():
    # g1's model of 14 s (flow 6) is lost at 34 s, after the second epoch (33 s), whose model it was not
    # sent: d0's move (8) takes until 45 s. It has a model at 36 s; d0: 45 + 3 + 10 + 3 s
    slow = {6: 20, 8: 30}
    sim = run(async_hfl(), associator=Mover({D0: G1}), until_s=61, slow=slow, lose=(6,))
    assert arrivals(sim, CLOUD, G1) == [36, 54]  # at 54 s that of the third epoch
    assert arrivals(sim, D0, G1) == [61]


def test_a_decision_before_the_gateways_first_model():
    # g1's first model (flow 1) takes 30 s; the cloud decides at 14 s, g1 hears of it at 16 s.
    algorithm = async_hfl(cloud_sends_to="uploader")
    sim = run(algorithm, who=ALL, slow={1: 30}, associator=Mover({D2: G0}), until_s=60)
    assert sim.association[D2] == G0
    assert arrivals(sim, D2, G0) != []


def test_resumed_while_devices_are_moving(scenario, run_in, tmp_path):
    moving = scenario(
        {"run": {"epochs": 12, "learning": "none"}, "model": {"transfer_bytes": 2600}},
        {"topology": {"reach": 2}, "algorithm": {"name": "async-hfl", "updates_per_upload": 2}},
        {"association": {"name": "rfl-ha", "every_epochs": 1, "tolerance": 0.1}},
    )
    whole = run_in(moving)
    kinds = pd.read_parquet(tmp_path / "run" / "transfers.parquet")["kind"]
    assert (kinds == "overhead").sum() > 10  # so many decisions and moves
    for after in range(20, whole["events"], 25):
        parts = run_in(moving, f"parts-{after}", after_events=after)
        assert parts["event_log_sha256"] == whole["event_log_sha256"]


# Synchronous rounds


def test_in_rounds_an_idle_device_moves_at_once():
    # The cloud closes its first round at 21 s (g0: 1 + 19 + 1). g0 has the decision and the model of
    # the second at 22 s: d1 is told at 24 s and is not asked, g0's round is d0's, until 34 s.
    # g1 opens its round at 23 s, before d1 is there. The third: 35 to 36 s; g0 37, g1 58 s.
    sim = run(fedavg(FedAvgSection()), who=ALL, associator=Mover({D1: G1}), epochs=3)
    assert [row[:4] for row in told(sim)] == [
        (22, "arrived", CLOUD, G0), (24, "arrived", G0, D1),
    ]  # fmt: skip
    assert rows(sim, "gateway", "node", "participants") == [
        (8, "g1", 1), (20, "g0", 2), (29, "g1", 1), (34, "g0", 1), (48, "g0", 1), (58, "g1", 2),
    ]  # fmt: skip
    assert arrivals(sim, D1, G1) == [58]


def test_in_rounds_a_device_is_in_the_next_round_of_its_new_gateway():
    # g1's rounds in the second cloud round (from 40 s; 42 s): 42 to 48 s, then with d1 to 69 s
    sim = run(
        fedavg(FedAvgSection(gateway_rounds=2)), who=ALL, associator=Mover({D1: G1}), epochs=2
    )  # fmt: skip
    assert sim.progress.stop_reason == "epochs"
    assert rows(sim, "gateway", "node", "participants")[4:] == [
        (48, "g1", 1), (53, "g0", 1), (65, "g0", 1), (69, "g1", 2),
    ]  # fmt: skip


def rfl(**params):
    return rfl_ha(RflHaSection(gateway_rounds=2, **params))


def test_in_rounds_a_busy_device_moves_when_it_has_come_back():
    # g1's two rounds end at 14 s, the cloud decides at 16 s, g0 hears of it at 17 s. d1 is back at
    # 20 s and told at 22 s; it is not asked in g0's second round, from 20 to 32 s. g1 begins again
    # at 18 s, with d2 alone until 24 s, then with both: 24 + 3 + 15 + 3 = 45 s.
    sim = run(rfl(), who=ALL, associator=Mover({D1: G1}), until_s=46)
    assert arrivals(sim, D1, G0) == [20]
    assert [row[:4] for row in told(sim)] == [
        (17, "arrived", CLOUD, G0), (22, "arrived", G0, D1),
    ]  # fmt: skip
    assert rows(sim, "gateway", "node", "participants")[:5] == [
        (8, "g1", 1), (14, "g1", 1), (20, "g0", 2), (24, "g1", 1), (32, "g0", 1),
    ]  # fmt: skip
    assert (45, "g1", 2) in rows(sim, "gateway", "node", "participants")


def test_in_rounds_a_device_whose_move_is_lost_stays():
    # FedAvg's flows: 0, 1 cloud; 2, 3 g0; 4 g1; 5 d2, 6 g1 up, 7 d0, 8 d1, 9 g0 up; 10 the decision,
    # 11, 12 cloud; 13 the move, lost at 24 s. It is in the round after.
    sim = run(fedavg(FedAvgSection()), who=ALL, associator=Mover({D1: G1}), epochs=3, lose=(13,))
    assert sim.association[D1] == G0
    assert [row[1:4] for row in told(sim)] == [("arrived", CLOUD, G0), ("lost", G0, D1)]
    assert [n for _, node, n in rows(sim, "gateway", "node", "participants") if node == "g0"] == [
        2, 1, 2,
    ]  # fmt: skip


def test_in_rounds_a_gateway_without_devices_gets_a_model_when_it_gets_devices():
    # g0's rounds end at 20 and 39 s, the cloud decides at 40 s, d0 is told at 42 s (g0 at 41 s). g1
    # has its model at 44 s; its rounds are 16 s each: 60 and 76 s.
    sim = run(rfl(), associator=Mover({D0: G1}), until_s=79)
    assert arrivals(sim, CLOUD, G1) == [44]
    assert arrivals(sim, D0, G1) == [60, 76]
    assert rows(sim, "upload", "node") == [(40, "g0"), (78, "g1")]


def test_in_rounds_a_gateway_gets_its_model_when_the_device_is_there():
    # g1's rounds with d1 take 21 s: 23 and 44 s; the cloud decides at 46 s, d1 is told at 51 s (g1 at
    # 48 s). g0 has its model at 52 s and d1 back at 71 and 90 s.
    sim = run(rfl(), who={D2: G1, D1: G1}, associator=Mover({D1: G0}), until_s=100)
    assert arrivals(sim, CLOUD, G0) == [52, 92]
    assert arrivals(sim, D1, G0) == [71, 90]


def test_a_gateway_that_has_lost_all_devices_rests():
    # The cloud decides at 16 s; d0 is told at 18 s, d1, back at 20 s, at 22 s, when g0 has just got
    # the answer to what it uploaded at 20 s. It uploads nothing, and has no answer.
    sim = run(rfl(), who=ALL, associator=Mover({D0: G1, D1: G1}), until_s=100)
    assert set(sim.association.values()) == {G1}
    assert arrivals(sim, CLOUD, G0) == [1, 17, 22]  # at 17 s the decision
    assert arrivals(sim, G0, CLOUD) == [21, 23]
    assert len(arrivals(sim, D0, G1)) >= 2


# Semi-asynchronous gateways


def semi(**params):
    return semi_async(SemiAsyncSection(**{"period_s": 14, "gateway_periods": 2} | params))


def test_in_periods_devices_move_too():
    # Cloud round 1 ends at 2 + 28 + 2 = 32 s.
    sim = run(semi(), who=ALL, associator=Mover({D1: G1, D0: G1}), until_s=150)
    assert set(sim.association.values()) == {G1}
    assert arrivals(sim, D0, G1)
    assert arrivals(sim, D1, G1)


@pytest.mark.parametrize("lost", [False, True])
def test_in_periods_nobody_is_asked_on_his_way(lost):
    # g0 is through at 29 s and waits. Decision and model are at g0 at 33 s; d1, idle then, is told at
    # 35 s. Flows up to 31 s: 0, 1; 2, 3; 4; 5 d2, 6 d0, 7 g0 to d0 (15 s), 8 g1 to d2 (16 s), 9 d1
    # (18 s), 10 d2 (21 s), 11 d0 (26 s), 12 g0 up (29 s), 13 g1 up (30 s); 32 s: 14 the decision,
    # 15, 16 models; 33 s: 17 the move.
    lose = (17,) if lost else ()
    sim = run(semi(), who=ALL, associator=Mover({D1: G1}), until_s=120, lose=lose)
    moves = [row[:4] for row in told(sim)]
    assert moves == [(33, "arrived", CLOUD, G0), (35, "lost" if lost else "arrived", G0, D1)]
    assert sim.association[D1] == (G0 if lost else G1)
    assert [t for t in arrivals(sim, G0, D1) if t <= 47] == ([3] if lost else [3, 35])


def test_a_decision_to_a_gateway_that_has_had_no_model():
    # g1's model (flow 1) is lost: the cloud's first round is g0's alone.
    sim = run(semi(), who=ALL, associator=Mover({D2: G0}), until_s=120, lose=(1,))
    assert sim.association[D2] == G0
    assert arrivals(sim, D2, G0)


def test_moves_of_every_epoch_keep_going():
    """There and back again at every epoch, for every algorithm; Watched looks on."""
    plans = [{D0: G1, D2: G0}, {D1: G1, D0: G0}, {D0: G1, D1: G0, D2: G1}, {D2: G0}] * 10
    for make in (async_hfl, rfl, semi, lambda: fedavg(FedAvgSection(gateway_rounds=3))):
        sim = run(make(), who=ALL, associator=Mover(*plans), epochs=30, until_s=5000)
        assert sim.progress.stop_reason == "epochs"
        assert len(cloud_rows(sim)) == 31
        assert all(len(starts(sim, d)) > 5 for d in (D0, D1, D2))
