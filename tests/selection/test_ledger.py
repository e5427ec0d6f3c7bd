"""What gateways know of their devices, by hand: gateways 1, 2, 3, devices 10, 11, models of 100 bytes."""

import numpy as np
import pytest
from by_hand import FakeSim, update_of

from selection.ledger import Ledger
from selection.utility import LearningUtility
from simulator.units import SECOND

G1, G2, G3, A, B = 1, 2, 3, 10, 11


@pytest.fixture
def sim():
    """A model there and back is believed to take 3, 5 and 7 s."""
    ways = {(g, d): way for g, way in ((G1, 1.5), (G2, 2.5), (G3, 3.5)) for d in (A, B)}
    return FakeSim({A: G1, B: G1}, ways, gateways=(G1, G2, G3))


def ledger(**settings):
    return Ledger(LearningUtility([A, B]), **settings)


@pytest.mark.parametrize(("newest", "averages"), [(0.5, (4, 6, 4)), (0.25, (4, 5, 4.25))])
def test_moving_average_of_latencies(sim, newest, averages):
    known = ledger(newest=newest)
    for latency_s, average in zip((4, 8, 2), averages, strict=True):
        sim.round(known, G1, A, latency_s)
        assert known.latency_s(sim, G1, A) == average
    assert known.latency_s(sim, G1, B) == 3


def test_an_unseen_pair_starts_from_the_networks_estimate(sim):
    known = ledger()
    assert [known.latency_s(sim, g, A) for g in (G1, G2, G3)] == [3, 5, 7]
    assert known.is_new(G1, A)
    sim.round(known, G1, A, 4)
    assert not known.is_new(G1, A)
    assert known.is_new(G2, A)
    assert known.is_new(G1, B)


def test_to_an_estimate_is_added_what_rounds_with_the_last_gateway_took_longer(sim):
    known = ledger()
    sim.round(known, G1, A, 10)  # 7 s longer than 3
    assert known.latency_s(sim, G2, A) == 12
    sim.round(known, G2, A, 6)  # 1 s longer than 5
    assert known.latency_s(sim, G3, A) == 8
    assert known.latency_s(sim, G1, A) == 10
    assert known.latency_s(sim, G2, B) == 5


def test_a_device_that_was_faster_than_believed_is_not_elsewhere(sim):
    known = ledger()
    sim.round(known, G1, A, 1)
    assert known.latency_s(sim, G2, A) == 5


def test_the_first_round_counts_in_full(sim):
    """Not averaged with the belief."""
    known = ledger()
    sim.round(known, G1, A, 20)
    assert known.latency_s(sim, G1, A) == 20


def test_rate_is_bytes_by_latency_and_at_most_the_budget(sim):
    known = ledger(budget=30.0)
    sim.round(known, G1, A, 4)
    assert known.rate(sim, G1, A) == 25
    assert known.rate(sim, G1, B) == 30  # 100 / 3
    assert ledger().rate(sim, G1, B) == pytest.approx(100 / 3)


def test_a_round_that_took_no_time_has_a_latency_and_a_rate(sim):
    """Rates and weights are made of its inverse."""
    known = ledger()
    sim.round(known, G1, A, 0)
    assert known.latency_s(sim, G1, A) > 0
    assert np.isfinite(known.rate(sim, G1, A))


def test_free_budget_is_what_busy_devices_leave(sim):
    known = ledger(budget=60.0)
    sim.round(known, G1, A, 4)
    sim.round(known, G1, B, 5)
    assert known.free(G1) == 60
    known.begin(sim, G1, A)
    known.begin(sim, G1, B)
    assert known.free(G1) == 60 - 25 - 20
    assert known.free(G2) == 60
    known.end(sim, G1, A, answered=True)
    assert known.free(G1) == 60 - 20
    known.end(sim, G1, B, answered=False)
    assert known.free(G1) == 60


def test_without_a_budget_all_is_free(sim):
    known = ledger()
    known.begin(sim, G1, A)
    assert known.free(G1) == float("inf")


def test_a_round_gives_back_what_it_held_whatever_its_latency_has_become(sim):
    known = ledger(budget=60.0)
    known.begin(sim, G1, A)  # 100 / 3 held
    known.begin(sim, G2, B)
    sim.now += 50 * SECOND
    known.end(sim, G1, A, answered=True)
    assert known.free(G1) == 60
    assert known.rate(sim, G1, A) == 2


@pytest.mark.parametrize(("after_s", "average"), [(2, 10), (10, 10), (20, 15)])
def test_a_device_that_was_given_up_is_not_faster_than_its_average(sim, after_s, average):
    known = ledger()
    sim.round(known, G1, A, 10)
    sim.round(known, G1, A, after_s, answered=False)
    assert known.latency_s(sim, G1, A) == average


@pytest.mark.parametrize(("after_s", "latency_s"), [(1, 3), (9, 9)])
def test_a_new_device_that_was_given_up_is_not_faster_than_believed(sim, after_s, latency_s):
    known = ledger()
    sim.round(known, G1, A, after_s, answered=False)
    assert known.latency_s(sim, G1, A) == latency_s


def test_silent_until_it_answers(sim):
    known = ledger()
    sim.round(known, G1, A, 1, answered=False)
    assert known.silent == {A: {G1: None}}
    sim.round(known, G2, A, 1)
    assert known.silent == {}


def test_losses_and_samples_are_those_of_the_last_training():
    known = ledger()
    known.learn(update_of(A, [1.0], loss=2.0, samples=7))
    known.learn(update_of(A, [1.0], loss=1.5, samples=6))
    assert (known.losses, known.num_samples) == ({A: 1.5}, {A: 6})
