from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import milp
from selection.ilp import associate, known, select_devices
from selection.utility import LearningUtility

SOLVERS = ["gurobi", "highs"]
ALL = [*SOLVERS, "greedy"]


def select(u, tau, rates, budget, kappa=1.0, **options):
    arrays = (np.array(a, dtype=float) for a in (u, tau, rates))
    return select_devices(*arrays, budget, kappa=kappa, **options)


# Device selection, Eq. (10)


@pytest.mark.parametrize("solver", ALL)
def test_selection_by_hand(solver):
    """Raw, κ = 1: values 8/2, 9/3, 8/4 = 4, 3, 2; rates 3, 2, 2 into 4: 3 + 2 beats 4."""
    chosen = select([8, 9, 8], [2, 3, 4], [3, 2, 2], 4, scaled=False, solver=solver, gap=0)
    assert chosen.devices.tolist() == [1, 2]
    assert chosen.objective == pytest.approx(5)
    assert chosen.solver == solver


@pytest.mark.parametrize("solver", ALL)
def test_scaled_utilities_by_hand(solver):
    """-3, 1, 5 become 0, 1/2, 1; κ = 1/2: values 0, 1/2 · 1/2, 1 · 1/5; one fits."""
    chosen = select([-3, 1, 5], [1, 4, 25], [1, 1, 1], 1, kappa=0.5, solver=solver, gap=0)
    assert chosen.devices.tolist() == [1]
    assert chosen.objective == pytest.approx(0.25)


def test_kappa_0_ignores_latencies():
    chosen = select([-3, 1, 5], [1, 4, 25], [1, 1, 1], 1, kappa=0)
    assert chosen.devices.tolist() == [2]


@pytest.mark.parametrize("budget", [None, 6])
def test_who_fits_altogether_needs_no_solver(budget, monkeypatch):
    monkeypatch.setattr(milp, "_SOLVERS", {})
    chosen = select([-1, 2, 3], [1, 1, 1], [1, 2, 3], budget)
    assert (chosen.devices.tolist(), chosen.solver) == ([2, 1, 0], "none")
    raw = select([-1, 2, 3], [1, 1, 1], [1, 2, 3], budget, scaled=False)
    assert (raw.devices.tolist(), raw.objective) == ([2, 1], 5)


@pytest.mark.parametrize("budget", [0, -1e-9, 0.5])
def test_nobody_where_nobody_fits(budget):
    assert select([1, 2], [1, 1], [1, 1], budget).devices.tolist() == []
    assert select([], [], [], budget).devices.tolist() == []


def test_a_scaled_utility_of_0_comes_along_if_it_fits():
    """Of 4, the two best take 3; of the others only the last, least useful of all, fits."""
    chosen = select([9, 9, 5, 1], [1, 1, 1, 1], [1, 2, 2, 1], 4)
    assert chosen.devices.tolist() == [0, 1, 3]


def test_unknown_utility_counts_like_the_best():
    assert known(np.array([np.nan, 2, 4, 3]), scaled=True).tolist() == [1, 0, 1, 0.5]
    assert known(np.array([np.nan, -2, -4]), scaled=False).tolist() == [-2, -2, -4]
    assert known(np.array([np.nan, np.nan]), scaled=False).tolist() == [1, 1]
    assert known(np.array([3, 3]), scaled=True).tolist() == [1, 1]


def best_subset(values, rates, budget):
    indices = range(len(values))
    subsets = chain.from_iterable(combinations(indices, k) for k in range(len(values) + 1))
    return max(values[list(s)].sum() for s in subsets if rates[list(s)].sum() <= budget)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(10))
def test_selection_is_the_best_of_all_subsets(solver, seed):
    rng = np.random.default_rng(seed)
    u, tau = rng.normal(size=10), rng.lognormal(4, 1, 10)
    rates = 1.6e6 / tau
    chosen = select_devices(u, tau, rates, rates.sum() / 3, kappa=0.5, solver=solver, gap=0)
    values = (u - u.min()) / (u.max() - u.min()) / np.sqrt(tau)
    assert chosen.objective == pytest.approx(best_subset(values, rates, rates.sum() / 3))
    assert chosen.objective == pytest.approx(values[chosen.devices].sum())


@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("solver", SOLVERS)
def test_magnitudes_do_not_matter(solver, scale):
    """Solvers' tolerances are absolute."""
    rng = np.random.default_rng(1)
    u, tau, rates = rng.uniform(size=(3, 12)) + 0.1
    options = {"kappa": 1.0, "scaled": False, "solver": solver, "gap": 0}
    plain = select_devices(u, tau, rates, 2.0, **options)
    scaled = select_devices(u * scale, tau, rates * scale, 2.0 * scale, **options)
    assert plain.devices.tolist() == scaled.devices.tolist()


positive = st.floats(1e-3, 1e6)
device = st.tuples(st.floats(-1e3, 1e3).map(lambda u: round(u, 9)), positive, positive)
"""Values must not underflow: -5e-324 / 2 is not negative."""


@pytest.mark.parametrize("solver", ALL)
@settings(max_examples=40, deadline=None)
@given(st.lists(device, min_size=1, max_size=12), positive, st.booleans())
def test_budget_is_never_exceeded_and_nobody_who_fits_stays_idle(solver, devices, budget, scaled):
    u, tau, rates = np.array(devices).T
    chosen = select_devices(u, tau, rates, budget, kappa=1.0, scaled=scaled, solver=solver)
    used = rates[chosen.devices].sum()
    assert used <= budget * (1 + 1e-8)
    idle = np.setdiff1d(np.arange(len(u)), chosen.devices)
    if scaled:
        assert (rates[idle] > (budget - used) * (1 - 1e-8)).all()
    else:
        assert (u[chosen.devices] >= 0).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(device, min_size=1, max_size=9), positive)
def test_greedy_selection_has_half_of_the_best(devices, budget):
    u, tau, rates = np.array(devices).T
    u = np.abs(u)
    options = {"kappa": 1.0, "scaled": False}
    chosen = select_devices(u, tau, rates, budget, solver="greedy", **options)
    assert chosen.objective >= best_subset(u / tau, rates, budget) / 2 * (1 - 1e-9)


# Association, Eq. (11)

RATES = np.array([[4, 1], [2, 2], [1, 3]])
EVERYWHERE = np.ones((3, 2), dtype=bool)


@pytest.mark.parametrize("solver", ALL)
def test_association_by_hand(solver):
    """Utilities 3, 2, 1: 3 against 2 + 1; of the two ways the one with less load, 0.1 against .7."""
    utilities = np.array([3.0, 2.0, 1.0])
    found = associate(utilities, RATES, EVERYWHERE, [10, 10], phi=1.0, solver=solver, gap=0)
    assert found.gateways.tolist() == [1, 0, 0]
    assert found.objective == pytest.approx(3 - 3 / 10)
    assert found.solver == solver


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_budget_no_load(solver):
    """As above, but gateway 1's budget is infinite: 3 to gateway 0 would weigh 4/10."""
    utilities = np.array([3.0, 2.0, 1.0])
    found = associate(utilities, RATES, EVERYWHERE, [10, None], phi=1.0, solver=solver, gap=0)
    assert found.gateways.tolist() == [1, 0, 0]
    none = associate(utilities, RATES, EVERYWHERE, [None, None], phi=1.0, solver=solver, gap=0)
    assert none.objective == pytest.approx(3)


@pytest.mark.parametrize("solver", ALL)
def test_a_device_out_of_reach_and_a_dead_gateway(solver):
    """Gateway 1 is in nobody's reach and does not hold u_slack at 0; device 1 has no gateway."""
    reachable = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1]], dtype=bool)
    rates = np.full((3, 3), np.nan)
    rates[reachable] = 1
    u = np.array([2.0, 5.0, 2.5])
    found = associate(u, rates, reachable, [1, 1, 1], phi=0.1, solver=solver, gap=0)
    assert sorted(found.gateways[[0, 2]]) == [0, 2]
    assert found.gateways[1] == -1
    assert found.objective == pytest.approx(2 - 0.1)


def test_nothing_in_reach():
    found = associate(np.ones(2), np.ones((2, 1)), np.zeros((2, 1)), [1], phi=0.1)
    assert (found.gateways.tolist(), found.solver) == ([-1, -1], "none")


@pytest.mark.parametrize("solver", ALL)
def test_at_most_one_gateway_drops_negative_utilities(solver):
    u, rates, reachable = np.array([2.0, -1.0]), np.ones((2, 1)), np.ones((2, 1), dtype=bool)
    at_most = associate(u, rates, reachable, [10], phi=0.1, everyone=False, solver=solver, gap=0)
    assert (at_most.gateways.tolist(), at_most.objective) == ([0, -1], pytest.approx(2 - 0.01))
    everyone = associate(u, rates, reachable, [10], phi=0.1, solver=solver, gap=0)
    assert (everyone.gateways.tolist(), everyone.objective) == ([0, 0], pytest.approx(1 - 0.02))


def test_scaled_association():
    """-1, 0, 1 become 0, 1/2, 1: the best balance is 1 against 1/2 + 0, 1/2 in the least."""
    u = np.array([-1.0, 0.0, 1.0])
    scaled = associate(u, RATES, EVERYWHERE, [10, 10], phi=0.0, scaled=True, gap=0)
    assert scaled.objective == pytest.approx(0.5)
    raw = associate(u, RATES, EVERYWHERE, [10, 10], phi=0.0, gap=0)
    assert raw.objective == pytest.approx(0)


def network(seed, devices, gateways):
    """Utilities, rates, who reaches whom, budgets."""
    rng = np.random.default_rng(seed)
    reachable = rng.random((devices, gateways)) < 0.6
    rates = 1.6e6 / rng.lognormal(4, 0.5, (devices, gateways))
    return rng.normal(0.3, 1, devices), rates, reachable, [1e5] * gateways


def best_association(utilities, rates, reachable, budgets, phi, everyone):
    alive = reachable.any(axis=0)
    choices = [([*np.flatnonzero(row)] + ([] if everyone else [-1])) or [-1] for row in reachable]
    best = -np.inf
    for gateways in product(*choices):
        on = np.array(gateways)[:, None] == np.arange(len(budgets))
        u, load = utilities @ on, (on * rates).sum(axis=0) / budgets
        best = max(best, u[alive].min() - phi * load.max())
    return best


@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(6))
def test_association_is_the_best_of_all(solver, seed, everyone):
    problem = network(seed, 6, 3)
    found = associate(*problem, phi=0.2, everyone=everyone, solver=solver, gap=0)
    assert found.objective == pytest.approx(best_association(*problem, 0.2, everyone), rel=1e-5)
    assert_feasible(found, problem[2], everyone)


def assert_feasible(found, reachable, everyone=True):
    for gateway, row in zip(found.gateways, reachable, strict=True):
        assert gateway == -1 or row[gateway]
        assert gateway != -1 or not (everyone and row.any())


@pytest.mark.parametrize("seed", range(20))
def test_solvers_and_greedy_on_larger_networks(seed):
    u, *rest = network(seed, 40, 4)
    problem = (np.abs(u), *rest)
    gurobi, highs, greedy = (associate(*problem, phi=0.1, solver=s) for s in ALL)
    for found in (gurobi, highs, greedy):
        assert_feasible(found, problem[2])
    assert gurobi.objective == pytest.approx(highs.objective, rel=0.021)
    assert greedy.objective > 0.9 * highs.objective


def of_gradients(seed, devices):
    """Eq. (9) of ten kinds of gradients with noise, some long and some short."""
    rng = np.random.default_rng(seed)
    kinds = rng.normal(size=(10, 30))[rng.integers(0, 10, devices)]
    gradients = kinds + 0.3 * rng.normal(size=kinds.shape)
    utility = LearningUtility(list(range(devices)))
    for device, gradient in enumerate(gradients * rng.uniform(0.2, 1.5, (devices, 1))):
        utility.update(device, gradient)
    return utility.utilities()


@pytest.mark.parametrize("seed", range(50))
def test_solvers_agree_on_both_programs(seed):
    """Within the gap that they are asked for, on utilities as gradients have them."""
    rng = np.random.default_rng(seed)
    u, tau = of_gradients(seed, 31), rng.lognormal(4, 1, 31)
    rates = 1.7e6 / tau
    selected = [
        select_devices(u, tau, rates, rates.sum() / 3, kappa=0.5, solver=s, gap=0.02)
        for s in SOLVERS
    ]
    _, *rest = network(seed, 24, 3)
    placed = [associate(u[:24], *rest, phi=0.1, solver=s, gap=0.02) for s in SOLVERS]
    for gurobi, highs in (selected, placed):
        assert (gurobi.solver, highs.solver) == ("gurobi", "highs")
        assert gurobi.objective == pytest.approx(highs.objective, rel=0.021)


@pytest.mark.parametrize("scale", [1e-7, 1e7])
def test_small_utilities_and_large_rates(scale):
    u, rates, reachable, budgets = network(3, 8, 3)
    plain = associate(u, rates, reachable, budgets, phi=0.0, gap=0)
    scaled = associate(u * scale, rates * scale, reachable, budgets, phi=0.0, gap=0)
    assert scaled.objective == pytest.approx(plain.objective * scale)


def test_greedy_when_no_solver_finds_an_answer(monkeypatch):
    def no_answer(problem, gap):
        raise milp._NoAnswer("no answer")

    monkeypatch.setattr(milp, "_SOLVERS", {"gurobi": no_answer, "highs": no_answer})
    problem = network(1, 40, 4)
    found = associate(*problem, phi=0.1)
    assert (found.solver, found.fallback) == ("greedy", True)
    assert found.reason == "no answer; no answer"
    assert_feasible(found, problem[2])
    chosen = select([8, 9, 8], [2, 3, 4], [3, 2, 2], 4, scaled=False)
    assert (chosen.devices.tolist(), chosen.fallback) == ([1, 2], True)


def test_too_large_for_the_free_licence_goes_to_highs():
    """1001 x 2 links."""
    rng = np.random.default_rng(1)
    u, rates = rng.uniform(size=1001), rng.uniform(1, 2, (1001, 2))
    found = associate(u, rates, np.ones((1001, 2), dtype=bool), [100.0] * 2, phi=0.1)
    if found.solver == "gurobi":
        pytest.skip("a larger licence is installed")
    assert (found.solver, found.fallback) == ("highs", False)
    assert found.reason == "2004 variables and 1005 constraints are beyond Gurobi's licence"
