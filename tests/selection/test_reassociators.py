"""Associators that go on looking, by hand: gateways 1, 2, 3; a model there and back takes 2 s."""

import numpy as np
import pytest
from by_hand import FakeSim

from selection.ledger import Ledger, Seen
from selection.rfl_ha import RflHa, RflHaSection
from selection.utility import LearningUtility
from selection.utility_ilp import UtilityAssociation, UtilityAssociationSection
from simulator.rng import Stream, generator

DEVICES = list(range(10, 16))


def known(latencies, association, gradients=(), budget=None):
    ledger = Ledger(LearningUtility(DEVICES), budget)
    for device, seconds in latencies.items():
        gateway = association[device]
        ledger.seen.setdefault(gateway, {})[device] = Seen(seconds, 1)
        ledger.last_gateway[device] = gateway
    for device, vector in dict(gradients).items():
        ledger.gradients.update(device, np.array(vector, dtype=float))
    return ledger


def recluster(latencies, association, reach=None, gateways=(1, 2), **params):
    sim = FakeSim(association, reach=reach, gateways=gateways)
    section = RflHaSection(name="rfl-ha", **params)
    return RflHa(section).reassociate(sim, known(latencies, association))


# RFL-HA

MIXED = {10: 1, 11: 1, 12: 1, 13: 2, 14: 2}
LATENCIES = {10: 2.0, 11: 2.0, 12: 9.0, 13: 8.0, 14: 10.0}
"""Medians 2 and 9. At gateway 2, 12 would take 2 + (9 - 2) = 9 s."""


def test_rfl_ha_puts_the_slow_one_with_the_slow():
    assert recluster(LATENCIES, MIXED) == {12: 2}


def test_rfl_ha_puts_the_fast_one_with_the_fast():
    """13 takes 3 s, the median of 13, 14, 15 is 9; at gateway 1 it would take 3 s."""
    belongs = {10: 1, 11: 1, 13: 2, 14: 2, 15: 2}
    latencies = {10: 2.0, 11: 2.0, 13: 3.0, 14: 9.0, 15: 10.0}
    assert recluster(latencies, belongs) == {13: 1}


def test_rfl_ha_tolerates_a_part_of_the_median():
    """12 is 7 s off a median of 2 s: 3.5 of it."""
    assert recluster(LATENCIES, MIXED, tolerance=3.5) == {}
    assert recluster(LATENCIES, MIXED, tolerance=3.4) == {12: 2}


def test_rfl_ha_moves_only_to_gateways_in_reach():
    assert recluster(LATENCIES, MIXED, reach={12: (1,)}) == {}


def test_rfl_ha_stays_where_it_fits_best():
    """Gateway 2 is as fast as 1: at 9 s, 12 is off both alike, and 1 comes first."""
    assert recluster(LATENCIES | {13: 2.0, 14: 2.0}, MIXED) == {}


def test_rfl_ha_never_takes_a_gateways_last_device():
    """10 and 11, 5 and 15 s, are off their median of 10: both would fit gateway 2 or 3 better."""
    belongs = {10: 1, 11: 1, 12: 2, 13: 3}
    latencies = {10: 5.0, 11: 15.0, 12: 5.0, 13: 15.0}
    found = recluster(latencies, belongs, gateways=(1, 2, 3), tolerance=0.1)
    assert found == {10: 2}


def test_rfl_ha_leaves_gateways_without_devices_alone():
    assert recluster(LATENCIES, MIXED, gateways=(1, 2, 3)) == {12: 2}


# Learning utility


def by_utility(sim, ledger, **params):
    section = UtilityAssociationSection(name="utility-ilp", gap=0, **params)
    return UtilityAssociation(section).reassociate(sim, ledger)


ACROSS = {d: np.eye(6)[i] for i, d in enumerate(DEVICES)}
"""Across each other: Eq. (9) gives each 1/N, and nothing for diversity."""


def test_utility_is_balanced():
    """Six alike at gateway 1, three are worth as much at each."""
    belongs = dict.fromkeys(DEVICES, 1)
    found = by_utility(FakeSim(belongs, gateways=(1, 2)), known({}, belongs, ACROSS))
    assert sorted(found.values()) == [1, 1, 1, 2, 2, 2]


def test_devices_that_are_silent_everywhere_stay():
    belongs = dict.fromkeys(DEVICES, 1)
    ledger = known({}, belongs, ACROSS)
    everywhere = {1: None, 2: None}
    ledger.silent = dict.fromkeys([10, 11], everywhere)
    found = by_utility(FakeSim(belongs, gateways=(1, 2)), ledger)
    assert sorted(found) == [12, 13, 14, 15]
    assert sorted(found.values()) == [1, 1, 2, 2]
    ledger.silent = dict.fromkeys(DEVICES, everywhere)
    assert by_utility(FakeSim(belongs, gateways=(1, 2)), ledger) == {}


def test_a_device_that_is_silent_on_one_link_gets_another():
    """J_t has no 1 for the link, but for the device's other one."""
    belongs = dict.fromkeys(DEVICES, 1)
    ledger = known({}, belongs, ACROSS)
    ledger.silent = {10: {1: None}, 11: {2: None}}
    found = by_utility(FakeSim(belongs, gateways=(1, 2)), ledger)
    assert (found[10], found[11]) == (2, 1)
    assert sorted(found.values()) == [1, 1, 1, 2, 2, 2]


def test_utility_moves_only_to_gateways_in_reach():
    belongs = dict.fromkeys(DEVICES, 1)
    reach = dict.fromkeys((10, 11, 12, 13), (1,)) | {14: (2, 1), 15: (3,)}
    found = by_utility(
        FakeSim(belongs, reach=reach, gateways=(1, 2, 3)), known({}, belongs, ACROSS)
    )
    assert found == {10: 1, 11: 1, 12: 1, 13: 1, 14: 2, 15: 3}


def test_loads_are_balanced_where_they_weigh_more():
    """All of one utility; 10 and 11 hold 50 bytes/s, the others 25: 100 at each."""
    belongs = dict.fromkeys(DEVICES, 1)
    latencies = dict.fromkeys(DEVICES, 4.0) | {10: 2.0, 11: 2.0}
    sim = FakeSim(belongs, gateways=(1, 2))
    ledger = known(latencies, belongs, ACROSS, budget=100.0)
    found = by_utility(sim, ledger, phi=10.0)
    load = {g: sum(50 if d in (10, 11) else 25 for d in found if found[d] == g) for g in (1, 2)}
    assert load == {1: 100, 2: 100}


def test_association_notes_who_answered():
    belongs = dict.fromkeys(DEVICES, 1)
    associator = UtilityAssociation(UtilityAssociationSection(name="utility-ilp", solver="greedy"))
    sim = FakeSim(belongs, gateways=(1, 2))
    associator.reassociate(sim, known({}, belongs, ACROSS))
    assert associator.answers.told() == {"answers": {"greedy": 1}, "reasons": {}}


# At first


@pytest.mark.parametrize("first", ["nearest", "random"])
@pytest.mark.parametrize(
    "associator",
    [lambda **p: RflHa(RflHaSection(name="rfl-ha", **p)),
     lambda **p: UtilityAssociation(UtilityAssociationSection(name="utility-ilp", **p))],
)  # fmt: skip
def test_first_association(associator, first):
    sim = FakeSim(dict.fromkeys(DEVICES, 1), gateways=(1, 2), ways_s={(2, d): 0.5 for d in DEVICES})
    sim.topology.devices = DEVICES
    rng = generator(0, Stream.ASSOCIATION)
    found = associator(first=first).associate(sim.topology, sim.estimate, rng)
    assert sorted(found) == DEVICES
    assert set(found.values()) == ({2} if first == "nearest" else {1, 2})
