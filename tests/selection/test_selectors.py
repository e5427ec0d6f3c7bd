"""Selectors by hand: gateway 1 and its devices 10 to 14, models of 100 bytes, latencies of 2 s."""

import math
from collections import Counter

import numpy as np
import pytest
from by_hand import FakeSim, update_of
from hypothesis import given
from hypothesis import strategies as st

import selection.utility_ilp
from selection.divfl import Divfl, DivflSection, greedy_cover
from selection.ledger import Ledger, Seen
from selection.oort import Oort, OortSection, Pacer
from selection.simple import (
    HighLoss,
    HighLossSection,
    SelectAll,
    SelectAllSection,
    SelectRandom,
    SelectRandomSection,
    ShortLatency,
    ShortLatencySection,
)
from selection.tifl import Tifl, TiflSection
from selection.utility import LearningUtility
from selection.utility_ilp import UtilitySelection, UtilitySelectionSection

G = 1
DEVICES = [10, 11, 12, 13, 14]


def make(sim, losses=(), latencies=(), gradients=(), budget=None, selections=1, last=()):
    ledger = Ledger(LearningUtility(DEVICES), budget, selections={G: selections})
    for device, loss in dict(losses).items():
        ledger.learn(update_of(device, [0.0], loss=loss))
    ledger.seen[G] = {d: Seen(s, dict(last).get(d, 1)) for d, s in dict(latencies).items()}
    ledger.last_gateway = dict.fromkeys(ledger.seen[G], G)
    for device, vector in dict(gradients).items():
        ledger.gradients.update(device, np.array(vector, dtype=float))
    return ledger


@pytest.fixture
def sim():
    return FakeSim(dict.fromkeys(DEVICES, G))


def numbered(values):
    return dict(zip(DEVICES, values, strict=False))


# By one figure


def test_all_in_their_order(sim):
    assert SelectAll(SelectAllSection()).rank(sim, make(sim), G, [12, 10]) == [12, 10]


def test_high_loss_first_and_before_them_who_has_not_trained(sim):
    ledger = make(sim, losses={10: 1.0, 11: 3.0, 13: 2.0})
    rank = HighLoss(HighLossSection(name="high-loss")).rank
    assert rank(sim, ledger, G, DEVICES) == [12, 14, 11, 13, 10]


def test_short_latency_first(sim):
    """12 and 14 are new: 2 s."""
    ledger = make(sim, latencies={10: 5.0, 11: 1.0, 13: 3.0})
    rank = ShortLatency(ShortLatencySection(name="short-latency")).rank
    assert rank(sim, ledger, G, DEVICES) == [11, 12, 14, 13, 10]


@pytest.mark.parametrize(("fraction", "count"), [(0.1, 1), (0.4, 2), (0.7, 4), (1.0, 5)])
def test_random_draws_a_share_without_replacement(sim, fraction, count):
    rank = SelectRandom(SelectRandomSection(name="random", fraction=fraction)).rank
    drawn = rank(sim, make(sim), G, DEVICES)
    assert len(drawn) == len(set(drawn)) == count
    assert set(drawn) <= set(DEVICES)


def test_random_is_fair(sim):
    """200 draws of 2 of 5: 80 each, with a standard deviation of 7."""
    rank = SelectRandom(SelectRandomSection(name="random", fraction=0.4)).rank
    drawn = Counter(d for _ in range(200) for d in rank(sim, make(sim), G, DEVICES))
    assert all(80 - 28 < drawn[d] < 80 + 28 for d in DEVICES)


# TiFL


def tifl(**params):
    return Tifl(TiflSection(name="tifl", **params))


def test_tifl_profiles_first(sim):
    ledger = make(sim, latencies={10: 1.0, 13: 2.0}, losses={10: 9.0})
    selector = tifl(tiers=2)
    assert selector.rank(sim, ledger, G, [13, 12, 10, 11]) == [12, 11]
    assert selector.left == {}


def test_tifl_takes_one_tier_of_similar_latency_the_highest_loss_first(sim):
    """Tiers 13, 10, 12 and 11, 14; only the slow one has losses."""
    ledger = make(
        sim, latencies=numbered([2.0, 8.0, 3.0, 1.0, 9.0]), losses={11: 1.0, 14: 2.0}
    )  # fmt: skip
    assert tifl(tiers=2).rank(sim, ledger, G, DEVICES) == [14, 11]


def test_tifl_divides_all_devices_of_the_gateway_and_asks_who_is_idle(sim):
    """13 is busy: the fast tier's idle ones are 10 and 12."""
    ledger = make(
        sim, latencies=numbered([2.0, 8.0, 3.0, 1.0, 9.0]), losses={10: 1.0, 12: 2.0, 13: 9.0}
    )  # fmt: skip
    assert tifl(tiers=2).rank(sim, ledger, G, [10, 11, 12, 14]) == [12, 10]


def test_tifl_credits_run_out_and_are_renewed(sim):
    """Two credits each; only the slow tier has a loss, so it is taken until it has none left."""
    latencies, losses = {10: 1.0, 11: 2.0}, {10: 0.0, 11: 3.0}
    ledger, selector = make(sim, latencies=latencies, losses=losses), tifl(tiers=2, credits=2)
    taken = [selector.rank(sim, ledger, G, [10, 11]) for _ in range(6)]
    assert taken == [[11], [11], [10], [10], [11], [11]]
    assert selector.left == {G: [2, 0]}


def test_tifl_renews_when_only_tiers_without_credits_are_idle(sim):
    ledger, selector = make(sim, latencies={10: 1.0, 11: 2.0}), tifl(tiers=2, credits=1)
    assert [selector.rank(sim, ledger, G, [11]) for _ in range(3)] == [[11]] * 3
    assert selector.left == {G: [1, 0]}


def test_tifl_tiers_by_loss(sim):
    """Losses 1 and 3: the slow tier three times of four; 200 draws, standard deviation 6."""
    ledger = make(sim, latencies={10: 1.0, 11: 2.0}, losses={10: 1.0, 11: 3.0})
    selector = tifl(tiers=2, credits=1000)
    taken = Counter(selector.rank(sim, ledger, G, [10, 11])[0] for _ in range(200))
    assert 150 - 24 < taken[11] < 150 + 24


def test_tifl_with_more_tiers_than_devices(sim):
    ledger = make(sim, latencies={10: 1.0})
    assert tifl(tiers=5).rank(sim, ledger, G, [10]) == [10]


# Oort


def oort(**params):
    return Oort(OortSection(name="oort", **params))


def utilities(selector, sim, ledger, devices):
    return selector._utilities(sim, ledger, G, devices).tolist()


def test_oort_utility_by_hand(sim):
    """10, 11, 12: samples x loss 2, 4, 3 are scaled to 0, 1, 1/2; in the 10th selection, last seen
    in the 10th, 5th, 2nd; T = 4 s is the median latency, and 12 takes 8 s: (4 / 8)^2."""
    ledger = make(
        sim, latencies=numbered([2.0, 4.0, 8.0]), selections=10, last={10: 10, 11: 5, 12: 2}
    )  # fmt: skip
    for device, loss, samples in ((10, 2.0, 1), (11, 2.0, 2), (12, 3.0, 1)):
        ledger.learn(update_of(device, [0.0], loss=loss, samples=samples))
    bonus = [math.sqrt(0.1 * math.log(10) / last) for last in (10, 5, 2)]
    expected = [bonus[0], 1 + bonus[1], (0.5 + bonus[2]) / 4]
    found = utilities(oort(clip=1, preferred_share=0.5), sim, ledger, [10, 11, 12])
    assert found == pytest.approx(expected)


def test_oort_caps_utilities(sim):
    """0, 1, 2, 3, 10: three quarters are up to 3."""
    same = dict.fromkeys(DEVICES, 2.0)
    ledger = make(sim, latencies=same, losses=numbered([0.0, 1.0, 2.0, 3.0, 10.0]))
    found = utilities(oort(clip=0.75), sim, ledger, DEVICES)
    assert found == pytest.approx([0, 1 / 3, 2 / 3, 1, 1])


def test_oort_draws_among_those_near_the_last_who_fits(sim):
    """Utilities 1, .97, 0 at 2 s, 50 bytes/s: one fits, so who has less than .95 comes last."""
    losses = {10: 100.0, 11: 97.0, 12: 0.0}
    orders = set()
    for _ in range(30):
        ledger = make(sim, losses, dict.fromkeys(losses, 2.0), budget=60.0)
        orders.add(tuple(oort(clip=1).rank(sim, ledger, G, [10, 11, 12])))
    assert orders == {(10, 11, 12), (11, 10, 12)}


def test_oort_cuts_off_at_the_share_of_places_that_are_exploited(sim):
    """Utilities 1, 1/3, 0 and a new one, all fit: of three places, half of them for who is known,
    one is exploited, and only the first is admitted for it. Without the new one all are."""
    losses, orders, alone = {10: 4.0, 11: 2.0, 12: 1.0}, set(), set()
    for _ in range(30):
        ledger = make(sim, losses, dict.fromkeys(losses, 2.0))
        selector = oort(clip=1, exploration=0.5, exploration_least=0.5)
        orders.add(tuple(selector.rank(sim, ledger, G, [10, 11, 12, 13])))
        alone.add(tuple(selector.rank(sim, ledger, G, [10, 11, 12])))
    assert orders == {(13, 10, 11, 12)}
    assert (11, 10, 12) in alone


def test_oort_exploits_by_utility(sim):
    """All fit, all are admitted: 10 with utility 1 comes before 11 with .25 in four of five draws."""
    losses, first = {10: 4.0, 11: 1.0, 12: 0.0}, Counter()
    for _ in range(200):
        ledger = make(sim, losses, dict.fromkeys(losses, 2.0))
        first[oort(clip=1).rank(sim, ledger, G, [12, 11, 10])[0]] += 1
    assert 160 - 24 < first[10] < 160 + 24
    assert first[12] == 0


def test_oort_explores_by_speed(sim):
    """1 s and 9 s, not trained yet: the fast one first in nine of ten draws."""
    first = Counter()
    for _ in range(200):
        ledger = make(sim, latencies={10: 1.0, 11: 9.0})
        first[oort().rank(sim, ledger, G, [11, 10])[0]] += 1
    assert 180 - 17 < first[10] < 180 + 17


@pytest.mark.parametrize(
    ("exploration", "expected"),
    [(0.5, "nknkk"), (1.0, "nnkkk"), (0.0, "kkknn"), (0.3, "nkknk")],
)
def test_oort_explores_its_share_of_every_beginning(sim, exploration, expected):
    """10, 11, 12 known, 13, 14 new; of n places, exploration x n, rounded up."""
    known = dict.fromkeys([10, 11, 12], 1.0)
    ledger = make(sim, losses=known, latencies=known)
    selector = oort(exploration=exploration, exploration_least=0)
    ranked = selector.rank(sim, ledger, G, DEVICES)
    assert "".join("k" if d in known else "n" for d in ranked) == expected
    assert sorted(ranked) == DEVICES


@pytest.mark.parametrize(
    ("selections", "share"), [(1, 0.9), (2, 0.9 * 0.98), (11, 0.9 * 0.98**10), (1000, 0.2)]
)
def test_oort_exploration_decays(sim, selections, share):
    ledger = make(sim, selections=selections)
    assert oort()._exploration(ledger, G) == pytest.approx(share)


@pytest.mark.parametrize(
    ("gained", "share", "left"),
    [
        ([5, 5, 1, 1], 0.35, [1, 1]),
        ([1, 1, 5, 5], 0.3, [5, 5]),
        ([3, 3, 3, 3], 0.3, [3, 3]),
        ([5, 5, 1], 0.3, [5, 5, 1]),
    ],
)
def test_oort_pacer_relaxes_the_duration_when_less_is_gained(sim, gained, share, left):
    """Latencies 0, 10, 20, 30, 40: the quantile of .3 is 12 s, that of .35 is 14 s."""
    selector = oort(pacer_window=2, pacer_step=0.05)
    selector.pacers[G] = pacer = Pacer(0.3, list(gained))
    ledger = make(sim, latencies=numbered([0.0, 10.0, 20.0, 30.0, 40.0]))
    assert selector._preferred_s(ledger, G, np.array([])) == pytest.approx(40 * share)
    assert (pacer.share, pacer.gained) == (pytest.approx(share), left)


def test_oort_notes_what_it_exploits(sim):
    """Utilities 1 and 0: one fits, and the other is cut off."""
    ledger = make(sim, {10: 2.0, 11: 1.0}, {10: 2.0, 11: 2.0}, budget=60.0)
    selector = oort(clip=1)
    selector.rank(sim, ledger, G, [10, 11])
    assert selector.pacers[G].gained == [1]


# DivFL


def gram(*vectors):
    matrix = np.array(vectors, dtype=float)
    return matrix @ matrix.T


def test_greedy_cover_by_hand():
    """0, 1, 10 on a line: the sums of distances are 11, 10, 19; then 10 is farthest from 1."""
    assert greedy_cover(gram([0], [1], [10]), 3) == [1, 2, 0]


def test_greedy_cover_counts_those_who_cannot_be_chosen():
    """0 and 3 can; two busy ones are at 4."""
    assert greedy_cover(gram([0], [3]), 2)[0] == 0
    assert greedy_cover(gram([0], [3], [4], [4]), 2) == [1, 0]
    assert greedy_cover(gram([0], [3]), 0) == []


vectors = st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=1, max_size=6)


def cost(points, chosen):
    return sum(min(math.dist(p, points[c]) for c in chosen) for p in points)


@given(vectors, st.integers(1, 6))
def test_greedy_cover_takes_the_best_each_time(points, candidates):
    candidates = min(candidates, len(points))
    order = greedy_cover(gram(*points), candidates)
    assert sorted(order) == list(range(candidates))
    for k, chosen in enumerate(order):
        best = min(cost(points, [*order[:k], c]) for c in range(candidates) if c not in order[:k])
        assert cost(points, [*order[:k], chosen]) == pytest.approx(best, abs=1e-5)


def test_divfl_asks_first_of_whom_it_knows_nothing(sim):
    ledger = make(sim, gradients={10: [0.0], 11: [1.0], 12: [10.0]})
    rank = Divfl(DivflSection(name="divfl")).rank
    assert rank(sim, ledger, G, DEVICES) == [13, 14, 11, 12, 10]


def test_divfl_covers_busy_devices_too(sim):
    ledger = make(sim, gradients={10: [0.0], 11: [3.0], 12: [4.0], 13: [4.0]})
    rank = Divfl(DivflSection(name="divfl")).rank
    assert rank(sim, ledger, G, [10, 11]) == [11, 10]


# Learning utility


def by_utility(**params):
    return UtilitySelection(UtilitySelectionSection(name="utility-ilp", **params))


VECTORS = {10: [1.0, 0.0], 11: [1.0, 2.0], 12: [-2.0, 1.0]}
"""Eq. (9) of all three: 1/2, 3/2, 2; of 12 and 10 alone: 7/2, 3/2 (tests/selection/test_utility)."""


@pytest.mark.parametrize(
    ("belongs", "idle", "expected"),
    [
        ({10: G, 11: G, 12: G}, [12, 10, 11], [2, 0.5, 1.5]),
        ({10: G, 11: G, 12: G}, [12, 10], [2, 0.5]),
        ({10: G, 11: 2, 12: G}, [12, 10], [3.5, 1.5]),
    ],
)
def test_utility_is_among_the_gateways_own_devices(monkeypatch, belongs, idle, expected):
    """Idle or busy; those of other gateways do not count in N."""
    asked = []

    def spy(utilities, *args, **options):
        asked.append(utilities)
        return selection.ilp.select_devices(utilities, *args, **options)

    monkeypatch.setattr(selection.utility_ilp, "select_devices", spy)
    sim = FakeSim(belongs)
    ledger = make(sim, gradients=VECTORS)
    best_first = [device for _, device in sorted(zip(expected, idle, strict=True), reverse=True)]
    assert by_utility().rank(sim, ledger, G, idle) == best_first
    assert asked[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("solver", ["auto", "highs", "greedy"])
def test_utility_by_hand_within_the_budget(sim, solver):
    """At 4 s each, 25 bytes/s: two fit into 60; utilities 1/2, 3/2, 2."""
    ledger = make(sim, latencies=dict.fromkeys(VECTORS, 4.0), gradients=VECTORS, budget=60.0)
    selector = by_utility(solver=solver, gap=0)
    assert selector.rank(sim, ledger, G, [12, 10, 11]) == [12, 11]
    ledger.begin(sim, G, 12)
    assert selector.rank(sim, ledger, G, [10, 11]) == [11]
    ledger.begin(sim, G, 11)
    assert selector.rank(sim, ledger, G, [10]) == []


def test_utility_prefers_short_latencies_by_kappa(sim):
    """Utilities 0 and 1 (scaled) of 10 and 12, 2/3 of 11; at 4 s one of 25 bytes/s fits, 12 takes
    16 s: 1 / 16 against 2/3 / 4."""
    ledger = make(sim, latencies={10: 4.0, 11: 4.0, 12: 16.0}, gradients=VECTORS, budget=26.0)
    assert by_utility(kappa=1).rank(sim, ledger, G, [10, 11, 12]) == [11]
    ledger.seen[G][12] = Seen(4.0, 1)
    assert by_utility(kappa=1).rank(sim, ledger, G, [10, 11, 12]) == [12]


def test_utility_of_devices_not_known_yet_is_as_the_best(sim):
    """13 and 14 are new; three of five fit."""
    same = dict.fromkeys(DEVICES, 4.0)
    ledger = make(sim, latencies=same, gradients=VECTORS, budget=76.0)
    assert by_utility(gap=0).rank(sim, ledger, G, DEVICES) == [12, 13, 14]


def test_utility_without_gradients_takes_all_who_fit(sim):
    ledger = make(sim, latencies=dict.fromkeys(DEVICES, 4.0), budget=60.0)
    assert len(by_utility().rank(sim, ledger, G, DEVICES)) == 2
    assert by_utility().rank(sim, make(sim), G, DEVICES) == DEVICES


def test_utility_notes_who_answered(sim):
    ledger = make(sim, latencies=dict.fromkeys(VECTORS, 4.0), gradients=VECTORS, budget=60.0)
    selector = by_utility(solver="highs")
    selector.rank(sim, ledger, G, [10, 11, 12])
    selector.rank(sim, ledger, G, [10, 11])  # both fit: no program
    assert selector.answers.told() == {"answers": {"highs": 1, "none": 1}, "reasons": {}}
    assert sim.rows == []
