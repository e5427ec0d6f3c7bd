"""Groups that look alike, by hand and against brute force."""

from itertools import product

import numpy as np
import pytest
from by_hand import FakeSim
from hypothesis import given, settings
from hypothesis import strategies as st

from selection.alike import Alike, AlikeGradients, AlikeGradientsSection, AlikeSection
from selection.associators import Shares, SharesSection
from selection.groups import group
from selection.ledger import Ledger
from selection.utility import LearningUtility
from simulator.errors import UserError
from simulator.rng import Stream, generator
from simulator.units import SECOND
from topologies import Link, Node, Tier, Topology

SOLVERS = ["auto", "highs", "greedy"]
ONE, TWO = [1.0, 0.0], [0.0, 1.0]


def apart(features, gateways, count):
    off = features - features.mean(axis=0)
    return sum(np.abs(off[gateways == j].sum(axis=0)).sum() for j in range(count))


@pytest.mark.parametrize("solver", SOLVERS)
def test_each_group_gets_one_of_each(solver):
    features = np.array([ONE, ONE, TWO, TWO])
    everywhere = np.ones((4, 2), bool)
    found = group(features, everywhere, np.ones((4, 2)), solver=solver)
    assert sorted(found.gateways[:2]) == sorted(found.gateways[2:]) == [0, 1]
    assert found.apart == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_nobody_goes_where_he_does_not_reach(solver):
    """The first two can only be together; the others then are, too."""
    reachable = np.array([[1, 0], [1, 0], [1, 1], [1, 1]], bool)
    found = group(np.array([ONE, ONE, TWO, TWO]), reachable, np.ones((4, 2)), solver=solver)
    assert found.gateways.tolist() == [0, 0, 1, 1]
    assert found.apart == pytest.approx(4)  # |1 - 1| of two labels, in two groups


@pytest.mark.parametrize("solver", SOLVERS)
def test_sizes_are_free_if_they_may_be(solver):
    """Three of one label, one of the other, which is worth three: they balance it together."""
    features = np.array([[1.0], [1.0], [1.0], [-3.0]])
    reachable = np.array([[1, 0], [1, 1], [1, 1], [1, 1]], bool)
    free = group(features, reachable, np.ones((4, 2)), solver=solver, sizes="free")
    assert free.apart == pytest.approx(0, abs=1e-9)
    assert len(set(free.gateways)) == 1
    equal = group(features, reachable, np.ones((4, 2)), solver=solver)
    assert np.bincount(equal.gateways).tolist() == [2, 2]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), devices=st.integers(2, 6), gateways=st.integers(1, 3),
    equal=st.booleans(),
)  # fmt: skip
def test_no_choice_is_better(seed, devices, gateways, equal):
    rng = np.random.default_rng(seed)
    features = rng.dirichlet(np.ones(3), devices)
    reachable = rng.random((devices, gateways)) < 0.7
    reachable[np.arange(devices), rng.integers(gateways, size=devices)] = True
    links_s = rng.random((devices, gateways))
    found = group(features, reachable, links_s, sizes="equal" if equal else "free", gap=0.0)
    assert reachable[np.arange(devices), found.gateways].all()
    alive = reachable.any(axis=0).sum()
    least, most = (devices // alive, -(-devices // alive)) if equal else (0, devices)

    def excess(choice):
        sizes = np.bincount(choice, minlength=gateways)[reachable.any(axis=0)]
        return np.maximum(np.maximum(least - sizes, sizes - most), 0).sum()

    def cost(choice):
        unit = np.abs(features - features.mean(axis=0)).max() or 1.0
        length = links_s[reachable].max() or 1.0
        links = links_s[np.arange(devices), choice].sum() / length / devices
        return apart(features, choice, gateways) / unit + 10 * excess(choice) + 1e-3 * links

    choices = product(*(np.flatnonzero(row) for row in reachable))
    best = min(cost(np.array(choice)) for choice in choices)
    assert cost(found.gateways) == pytest.approx(best, abs=1e-5)
    assert found.apart == pytest.approx(apart(features, found.gateways, gateways), abs=1e-9)


def city(reach, delays_s):
    nodes = [Node("c", Tier.CLOUD), Node("g0", Tier.GATEWAY), Node("g1", Tier.GATEWAY)]
    nodes += [Node(f"d{i}", Tier.DEVICE) for i in range(len(reach))]
    links = [Link(0, 1, 1e6, 0.0), Link(0, 2, 1e6, 0.0)]
    links += [Link(1 + g, 3 + i, 1e6, 0.0) for i, gs in enumerate(reach) for g in gs]
    return Topology(
        "city", tuple(nodes), tuple(links)
    ), lambda d, g: delays_s[d - 3][g - 1] * SECOND


def test_the_shortest_links_that_make_equal_groups():
    # All are nearer to g0; d3 loses least by going to g1, then d1
    topology, estimate = city([(0, 1)] * 4, [(1, 9), (1, 4), (1, 8), (1, 2)])
    section = SharesSection(name="shares", together="nearest")
    found = Shares(section).associate(topology, estimate, generator(0, Stream.ASSOCIATION))
    assert found == {3: 1, 4: 2, 5: 1, 6: 2}


def test_the_shortest_links_that_make_unequal_groups():
    topology, estimate = city([(0, 1)] * 4, [(1, 9), (1, 4), (1, 8), (1, 2)])
    section = SharesSection(name="shares", together="nearest", shares=(3, 1))
    found = Shares(section).associate(topology, estimate, generator(0, Stream.ASSOCIATION))
    assert found == {3: 1, 4: 1, 5: 1, 6: 2}


def test_equal_groups_as_far_as_reach_allows():
    topology, estimate = city([(0,), (0,), (0,), (0, 1)], [(1, 9)] * 4)
    section = SharesSection(name="shares", together="nearest")
    found = Shares(section).associate(topology, estimate, generator(0, Stream.ASSOCIATION))
    assert found == {3: 1, 4: 1, 5: 1, 6: 2}


def test_the_shipped_city_has_ten_groups_of_ten():
    from collections import Counter

    from topologies import shipped

    topology = Topology.load(shipped()["nycmesh-100"])
    section = SharesSection(name="shares", together="nearest")
    found = Shares(section).associate(
        topology, lambda d, g: SECOND, generator(0, Stream.ASSOCIATION)
    )
    assert set(Counter(found.values()).values()) == {10}
    assert all(gateway in topology.reach(device) for device, gateway in found.items())


def test_alike_regroups_those_who_have_told():
    alike = Alike(AlikeSection(name="alike"), shares={10: ONE, 11: ONE, 12: TWO, 13: TWO})
    sim = FakeSim({10: 1, 11: 1, 12: 2, 13: 2})
    assert alike.reassociate(sim, Ledger(LearningUtility([]))) == {}
    assert alike.report_bytes(10) == 2 * 4
    for device in alike.shares:
        alike.learn(device)
    assert alike.report_bytes(10) == 0
    found = alike.reassociate(sim, Ledger(LearningUtility([])))
    assert {found[10], found[11]} == {found[12], found[13]} == {1, 2}


def test_alike_by_sketches():
    ledger = Ledger(LearningUtility([10, 11, 12, 13, 14]))
    for device, vector in {10: ONE, 11: ONE, 12: TWO, 13: TWO}.items():
        ledger.gradients.update(device, np.array(vector))
    sim = FakeSim({10: 1, 11: 1, 12: 2, 13: 2, 14: 2})
    found = AlikeGradients(AlikeGradientsSection(name="alike-gradients")).reassociate(sim, ledger)
    assert {found[10], found[11]} == {found[12], found[13]} == {1, 2}
    assert 14 not in found


NON_IID = {
    "data": {"partition": {"kind": "disjoint-groups", "k": 1}},
    "topology": {"devices": 20, "reach": 2},
    "association": {"name": "alike", "every_epochs": 1, "first": "equal"},
    "training": {"learning_rate": 0.05},
}


def test_in_a_run_heterogeneity_between_groups_falls_and_labels_are_paid_for(
    scenario, run_in, tmp_path
):
    import pandas as pd

    from simulator.build import build
    from simulator.heterogeneity import look
    from simulator.kernel import Simulation
    from simulator.recorder import FolderRecorder

    world = build(scenario(NON_IID), tmp_path)
    names = [node.name for node in world.topology.nodes]
    sim = Simulation(world, FolderRecorder(tmp_path, names))
    sim.start()
    task, start = world.learner.task, sim.model
    before = look(task, dict(sim.association), start)
    sim.run(lambda: 0.0)
    after = look(task, dict(sim.association), start)
    assert after.between < 0.1 * before.between
    assert sum(sim.manager.told()["association_solvers"]["answers"].values()) == 2
    run_in(scenario(NON_IID, {"run": {"epochs": 1}}))
    transfers = pd.read_parquet(tmp_path / "run" / "transfers.parquet")
    up = transfers[transfers["kind"] == "up"]
    assert set(up["overhead_bytes"]) == {4 * 10}, "ten labels"
    backhaul = transfers[(transfers["kind"] == "backhaul") & (transfers["dst"] == "cloud")]
    assert backhaul["overhead_bytes"].sum() == 20 * (8 + 4 * 10)


def test_without_labels_it_says_so(scenario, run_in):
    none = {"run": {"learning": "none"}, "model": {"transfer_bytes": 100}}
    with pytest.raises(UserError, match="use 'alike-gradients' or 'shares'"):
        run_in(scenario(NON_IID, none))
