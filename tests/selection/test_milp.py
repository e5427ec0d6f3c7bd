import os
import subprocess
import sys
from pathlib import Path

import gurobipy
import numpy as np
import pytest
from scipy import sparse

from selection import milp
from selection.milp import Milp, solve
from simulator.build import build
from simulator.errors import UserError

SOLVERS = ["gurobi", "highs"]


@pytest.fixture
def afresh():
    """What a process finds out once about Gurobi is found out anew, before and after."""
    caches = milp._environment, milp._is_free
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def knapsack(values, sizes, room):
    count = len(values)
    return Milp(
        objective=np.array(values, dtype=float),
        rows=sparse.csr_array(np.array([sizes], dtype=float)),
        row_lower=np.array([-np.inf]),
        row_upper=np.array([float(room)]),
        lower=np.zeros(count),
        upper=np.ones(count),
        binary=np.ones(count, dtype=bool),
    )


def random_problem(seed, count=25):
    """Binaries under three rows of each kind, and one continuous variable below what they sum to."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1, (3, count))
    rows = np.block([[weights, np.zeros((3, 1))], [-weights[:1], np.ones((1, 1))]])
    return Milp(
        objective=np.append(rng.uniform(0.1, 1, count), 1.0),
        rows=sparse.csr_array(rows),
        row_lower=np.array([0.2, -np.inf, 1.0, -np.inf]),
        row_upper=np.array([np.inf, 0.3 * count, 0.2 * count, 0.0]),
        lower=np.zeros(count + 1),
        upper=np.append(np.ones(count), 5.0),
        binary=np.arange(count + 1) < count,
    )


def nothing():
    raise AssertionError("no fallback is needed")


@pytest.mark.parametrize("solver", SOLVERS)
def test_by_hand(solver):
    """Sizes 3, 2, 2 into 4: the two small ones, 5 + 5, beat the large one, 9."""
    solution = solve(knapsack([9, 5, 5], [3, 2, 2], 4), fallback=nothing, solver=solver, gap=0)
    assert solution.x.tolist() == [0, 1, 1]
    assert (solution.objective, solution.gap) == (10, 0)
    assert (solution.solver, solution.fallback, solution.reason) == (solver, False, "")


@pytest.mark.parametrize("solver", SOLVERS)
def test_all_kinds_of_rows_and_variables(solver):
    """x0 + x1 = 1, 0.5 <= x1 + y <= 2 and y <= 1.5: x1 pays more than x0, y takes what is left."""
    problem = Milp(
        objective=np.array([1.0, 2.0, 3.0]),
        rows=sparse.csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])),
        row_lower=np.array([1.0, 0.5]),
        row_upper=np.array([1.0, 2.0]),
        lower=np.array([0.0, 0.0, -np.inf]),
        upper=np.array([1.0, 1.0, 1.25]),
        binary=np.array([True, True, False]),
    )
    solution = solve(problem, fallback=nothing, solver=solver, gap=0)
    assert solution.x.tolist() == pytest.approx([0, 1, 1])
    low = solve(
        Milp(**{**vars(problem), "objective": np.array([1.0, 0.5, -1.0])}),
        fallback=nothing,
        solver=solver,
        gap=0,
    )
    assert low.x.tolist() == pytest.approx([0, 1, -0.5])


@pytest.mark.parametrize("seed", range(50))
def test_both_solvers_agree_within_their_gaps(seed):
    problem = random_problem(seed)
    a, b = (solve(problem, fallback=nothing, solver=s, gap=0.02) for s in SOLVERS)
    assert max(a.gap, b.gap) <= 0.02 + 1e-9
    best = min(s.objective * (1 + s.gap) for s in (a, b))
    assert max(a.objective, b.objective) <= best * (1 + 1e-6)
    for solution in (a, b):
        total = problem.rows @ solution.x
        assert (total >= problem.row_lower - 1e-5).all()
        assert (total <= problem.row_upper + 1e-5).all()


def test_an_answer_that_is_not_proven_says_so(monkeypatch):
    problem = random_problem(1, 60)
    best = solve(problem, fallback=nothing, gap=0)
    assert (best.gap, best.reason) == (pytest.approx(0, abs=1e-6), "")
    monkeypatch.setattr(milp, "WORK_LIMIT", 0)
    early = solve(problem, fallback=nothing, gap=0)
    assert early.objective < best.objective
    assert early.gap > 0
    assert early.reason == (
        "Gurobi stopped at its limit on work, with an answer, but not proven to 0"
    )
    assert not early.fallback


def fingerprint(solver):
    solutions = [solve(random_problem(s, 60), fallback=nothing, solver=solver) for s in range(5)]
    return " ".join(s.x.tobytes().hex() for s in solutions)


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_answer_again_and_in_another_process(solver):
    here = fingerprint(solver)
    assert fingerprint(solver) == here
    code = f"import test_milp; print(test_milp.fingerprint({solver!r}))"
    root = Path(milp.__file__).parent.parent
    path = os.pathsep.join([str(root), str(Path(__file__).parent)])
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here  # and nobody else has printed anything


def test_gurobi_is_the_default_and_its_environment_is_reused():
    first = solve(knapsack([1], [1], 1), fallback=nothing)
    assert first.solver == "gurobi"
    assert milp._environment(os.getpid()) is milp._environment(os.getpid())


def test_without_gurobipy_highs_answers(monkeypatch, afresh):
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    solution = solve(knapsack([9, 5, 5], [3, 2, 2], 4), fallback=nothing)
    assert (solution.solver, solution.fallback) == ("highs", False)
    assert solution.reason == "gurobipy is not installed"
    assert solution.objective == 10


def test_without_a_licence_highs_answers(monkeypatch, afresh):
    def no_licence(params):
        raise gurobipy.GurobiError(10009, "License expired 2001-01-01")

    monkeypatch.setattr(gurobipy, "Env", no_licence)
    solution = solve(knapsack([9, 5, 5], [3, 2, 2], 4), fallback=nothing)
    assert solution.solver == "highs"
    assert solution.reason.startswith("Gurobi has no licence: License expired")


def test_who_insists_on_gurobi_is_told_what_is_missing(monkeypatch, afresh):
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    with pytest.raises(UserError, match="gurobipy is not installed; 'auto' takes HiGHS instead"):
        solve(knapsack([1], [1], 1), fallback=nothing, solver="gurobi")


BUDGET = {"name": "utility-ilp", "budget_bytes_per_s": 1e6}


@pytest.mark.parametrize(
    "insisting",
    [
        {"selection": BUDGET | {"solver": "gurobi"}},
        {"selection": BUDGET, "association": {"name": "utility-ilp", "solver": "gurobi"}},
    ],
)
def test_and_before_a_run_begins(insisting, scenario, monkeypatch, afresh):
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    with pytest.raises(UserError, match="solver 'gurobi': gurobipy is not installed"):
        build(scenario(insisting), Path())


@pytest.mark.parametrize(("count", "solver"), [(2000, "gurobi"), (2001, "highs")])
def test_the_free_licence_stops_at_2000_variables(count, solver, afresh):
    if not milp._is_free(os.getpid()):
        pytest.skip("a larger licence is installed")
    solution = solve(knapsack(np.ones(count), np.ones(count), 5), fallback=nothing)
    assert (solution.solver, solution.objective) == (solver, 5)
    beyond = "2001 variables and 1 constraints are beyond Gurobi's licence"
    assert solution.reason == ("" if solver == "gurobi" else beyond)


def test_a_licence_that_stops_elsewhere_is_found_out_by_its_error(monkeypatch):
    def refuse(model, problem, gap):
        raise gurobipy.GurobiError(10010, "Model too large")

    monkeypatch.setattr(milp, "_optimise", refuse)
    solution = solve(knapsack([9, 5, 5], [3, 2, 2], 4), fallback=nothing)
    assert solution.solver == "highs"
    assert "3 variables and 1 constraints are beyond" in solution.reason


def test_a_larger_licence_is_used(monkeypatch):
    monkeypatch.setattr(milp, "_is_free", lambda process: False)
    monkeypatch.setattr(milp, "_optimise", lambda model, problem, gap: (np.ones(2500), 2500.0))
    solution = solve(knapsack(np.ones(2500), np.ones(2500), 2500), fallback=nothing)
    assert (solution.solver, solution.reason) == ("gurobi", "")


def test_fallback_when_no_solver_finds_an_answer():
    """Nor can they: three things of size 1 are to fill 4."""
    problem = knapsack([1, 1, 1], [1, 1, 1], 4)
    problem.row_lower[0] = 4
    solution = solve(problem, fallback=lambda: np.ones(3))
    assert (solution.solver, solution.fallback, solution.objective) == ("greedy", True, 3)
    assert solution.reason.startswith("Gurobi found no answer (status 3); HiGHS found no answer (")
    assert np.isnan(solution.gap)


def test_fallback_when_highs_may_do_nothing(monkeypatch):
    monkeypatch.setattr(milp, "NODE_LIMIT", 0)
    solution = solve(random_problem(1), fallback=lambda: np.zeros(26), solver="highs")
    assert (solution.solver, solution.fallback) == ("greedy", True)


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_was_found_within_the_limit_is_the_answer(monkeypatch, solver):
    """Of a problem that takes longer, as what pays is what weighs: same twice, and not proven."""
    monkeypatch.setattr(milp, "WORK_LIMIT", 0.01)
    monkeypatch.setattr(milp, "NODE_LIMIT", 1)
    weights = np.random.default_rng(1).uniform(0.1, 1, (5, 60))
    rooms = weights.sum(axis=1) / 2
    flat = knapsack(weights.mean(axis=0) + 0.1, weights[0], 1)
    rows = {"rows": sparse.csr_array(weights), "row_lower": 0 * rooms, "row_upper": rooms}
    problem = Milp(**{**vars(flat), **rows})
    a, b = (solve(problem, fallback=nothing, solver=solver, gap=0) for _ in range(2))
    assert a.x.tobytes() == b.x.tobytes()
    assert a.gap > 1e-6


def test_greedy_by_choice_is_no_fallback():
    solution = solve(knapsack([1], [1], 1), fallback=lambda: np.ones(1), solver="greedy")
    assert (solution.solver, solution.fallback, solution.reason) == ("greedy", False, "")
