"""Mixed-integer linear programs: one description, two solvers, and an answer whatever happens.

Gurobi answers where its licence allows the size: the free one inside gurobipy holds 2000 variables
and 2000 constraints, a larger one is used as it is found. Else HiGHS answers, to the same gap. Both
run with a fixed seed, one thread and a limit on work or nodes, never on time: the same problem has
the same answer, however busy the machine. Two solvers may differ within the gap, so
``Solution.solver`` belongs into a run's record.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from simulator.errors import UserError

Solver = Literal["auto", "gurobi", "highs", "greedy"]

WORK_LIMIT = 2.0
"""Gurobi's deterministic measure of work; a unit is about a second."""
NODE_LIMIT = 200
"""HiGHS has no such measure; nodes beyond the root of branch and bound. About two seconds."""
FREE_SIZE = 2000
"""Variables, and constraints, in the licence that comes with gurobipy."""
_NO_LICENCE, _TOO_LARGE = 10009, 10010


@dataclass(frozen=True)
class Milp:
    """Maximise ``objective @ x`` with ``row_lower <= rows @ x <= row_upper``, x within its bounds.

    Infinite bounds are none. Values far from 1 are the caller's to scale: solvers' tolerances are
    absolute.
    """

    objective: np.ndarray
    rows: sparse.csr_array
    row_lower: np.ndarray
    row_upper: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    binary: np.ndarray


@dataclass(frozen=True)
class Solution:
    x: np.ndarray
    objective: float
    solver: str
    """Who answered: gurobi, highs or greedy."""
    gap: float
    """Proven distance to the best possible objective, relative; inf or nan: nothing is proven."""
    fallback: bool
    """No solver had an answer, the fallback's was taken."""
    reason: str
    """Why those before the one who answered did not, or its own answer is not proven; or empty."""


class _NoAnswer(Exception):
    """This solver cannot answer this problem here."""


class _Unavailable(_NoAnswer):
    """The installation or the licence is to blame, not the problem."""


def solve(
    problem: Milp,
    *,
    fallback: Callable[[], np.ndarray],
    solver: Solver = "auto",
    gap: float = 0.02,
) -> Solution:
    """``fallback`` makes a feasible x without a solver; "greedy" asks for nothing else."""
    reasons = []
    for name in _ORDER[solver]:
        try:
            x, bound = _SOLVERS[name](problem, gap)
        except _Unavailable as error:
            if solver == "gurobi":
                raise _refusal(str(error)) from None
            reasons.append(str(error))
        except _NoAnswer as error:
            reasons.append(str(error))
        else:
            solution = _solution(problem, x, bound, name, reasons)
            if not solution.gap <= gap + 1e-6:
                return replace(solution, reason="; ".join([*reasons, _unproven(name, gap)]))
            return solution
    return _solution(problem, fallback(), np.nan, "greedy", reasons)


def check_solver(solver: Solver) -> None:
    """Refuse at once what the first problem would be refused for."""
    environment = _environment(os.getpid()) if solver == "gurobi" else None
    if isinstance(environment, str):
        raise _refusal(environment)


def _refusal(reason: str) -> UserError:
    return UserError(f"solver 'gurobi': {reason}; 'auto' takes HiGHS instead")


def _unproven(name: str, gap: float) -> str:
    return f"{_NAMES[name]} stopped at its limit on work, with an answer, but not proven to {gap:g}"


def _solution(
    problem: Milp, x: np.ndarray, bound: float, name: str, reasons: list[str]
) -> Solution:
    x = np.where(problem.binary, np.round(x), x)
    objective = float(problem.objective @ x)
    apart = np.maximum(bound - objective, 0.0)  # a nan stays one
    gap = 0.0 if apart < 1e-9 else apart / max(abs(objective), 1e-12)
    failed = name == "greedy" and bool(reasons)
    return Solution(x, objective, name, float(gap), failed, "; ".join(reasons))


def _gurobi(problem: Milp, gap: float) -> tuple[np.ndarray, float]:
    environment = _environment(os.getpid())
    if isinstance(environment, str):
        raise _Unavailable(environment)
    count, size = len(problem.objective), len(problem.row_lower)
    if max(count, size) > FREE_SIZE and _is_free(os.getpid()):
        raise _Unavailable(_too_large(count, size))
    import gurobipy

    try:
        with gurobipy.Model(env=environment) as model:
            return _optimise(model, problem, gap)
    except gurobipy.GurobiError as error:
        if error.errno == _TOO_LARGE:
            raise _Unavailable(_too_large(count, size)) from None
        if error.errno == _NO_LICENCE:
            raise _Unavailable(f"Gurobi has no licence: {error}") from None
        raise _NoAnswer(f"Gurobi failed: {error}") from None


def _optimise(model: Any, problem: Milp, gap: float) -> tuple[np.ndarray, float]:
    kinds = np.where(problem.binary, "B", "C")
    x = model.addMVar(
        len(kinds), lb=problem.lower, ub=problem.upper, obj=problem.objective, vtype=kinds
    )
    equal = problem.row_lower == problem.row_upper
    for sense, bound in (("<", problem.row_upper), (">", problem.row_lower)):
        wanted = np.isfinite(bound) & ~equal
        if wanted.any():
            model.addMConstr(problem.rows[wanted], x, sense, bound[wanted])
    if equal.any():
        model.addMConstr(problem.rows[equal], x, "=", problem.row_upper[equal])
    model.ModelSense = -1
    model.Params.MIPGap = gap
    model.Params.WorkLimit = WORK_LIMIT
    model.optimize()
    if model.SolCount == 0:
        raise _NoAnswer(f"Gurobi found no answer (status {model.Status})")
    return x.X, model.ObjBound


@functools.cache
def _environment(process: int) -> Any:
    """The one environment of this process, or why there is none; a fork makes its own."""
    try:
        import gurobipy
    except ImportError:
        return "gurobipy is not installed"
    try:
        return gurobipy.Env(params={"OutputFlag": 0, "Threads": 1, "Seed": 0})
    except gurobipy.GurobiError as error:
        return f"Gurobi has no licence: {error}"


@functools.cache
def _is_free(process: int) -> bool:
    """Whether the licence stops at the free size, found out with a problem just beyond it."""
    import gurobipy

    try:
        with gurobipy.Model(env=_environment(process)) as model:
            model.addMVar(FREE_SIZE + 1)
            model.optimize()
    except gurobipy.GurobiError as error:
        return bool(error.errno == _TOO_LARGE)
    return False


def _too_large(count: int, size: int) -> str:
    return f"{count} variables and {size} constraints are beyond Gurobi's licence"


def _highs(problem: Milp, gap: float) -> tuple[np.ndarray, float]:
    import highspy

    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "threads": 1,
        "parallel": "off",
        "random_seed": 0,
        "mip_rel_gap": gap,
        "mip_abs_gap": 1e-9,
        "mip_max_nodes": NODE_LIMIT,
    }
    for option, value in options.items():
        highs.setOptionValue(option, value)
    highs.passModel(_highs_model(problem))
    highs.run()
    info = highs.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        status = highs.modelStatusToString(highs.getModelStatus())
        raise _NoAnswer(f"HiGHS found no answer ({status.lower()})")
    return np.array(highs.getSolution().col_value), info.mip_dual_bound


def _highs_model(problem: Milp) -> Any:
    import highspy

    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model = highspy.HighsLp()
    model.sense_ = highspy.ObjSense.kMaximize
    model.num_row_, model.num_col_ = problem.rows.shape
    model.col_cost_ = problem.objective
    model.col_lower_, model.col_upper_ = problem.lower, problem.upper
    model.row_lower_, model.row_upper_ = problem.row_lower, problem.row_upper
    model.integrality_ = [kinds[int(b)] for b in problem.binary]
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = problem.rows.indptr
    model.a_matrix_.index_ = problem.rows.indices
    model.a_matrix_.value_ = problem.rows.data
    return model


_SOLVERS = {"gurobi": _gurobi, "highs": _highs}
_NAMES = {"gurobi": "Gurobi", "highs": "HiGHS"}
_ORDER: dict[Solver, tuple[str, ...]] = {
    "auto": ("gurobi", "highs"),
    "gurobi": ("gurobi",),
    "highs": ("highs",),
    "greedy": (),
}
