"""The two integer linear programs of Async-HFL, §5.4: device selection (10), association (11).

Yu et al., "Async-HFL: Efficient and Robust Asynchronous Federated Learning in Hierarchical IoT
Networks", IoTDI 2023. Where we read the paper in our own way:

- (10b) is printed per device; it bounds the sum over the selected devices, by what the busy ones
  leave of the budget (§3.2).
- (10a) with a negative utility never selects the device. Utilities are scaled linearly to [0, 1]
  over the candidates, as the authors' program does; ``scaled=False`` takes them as they are.
- (11a) takes utilities as they are, as the authors' program does; ``scaled=True`` gives φ the same
  meaning whatever the gradients' magnitude.
- (11e) is "= 1" where a device has a gateway in reach; ``everyone=False`` takes the printed "≤ 1".
- (11b) leaves out a gateway in nobody's reach: it would hold u_slack at 0 or below.
- A device of unknown utility (nan) counts like the best known one: it is tried soon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from selection.milp import Milp, Solver, solve

_ROUNDING = 1 + 1e-9
"""A sum of rates that is over the budget by less is a rounding error."""


@dataclass(frozen=True)
class Selected:
    devices: np.ndarray
    """Positions among the candidates, the most valuable first."""
    objective: float
    solver: str
    """"none" where the budget forces no choice."""
    fallback: bool
    reason: str


@dataclass(frozen=True)
class Associated:
    gateways: np.ndarray
    """For each device the gateway's column; -1 is none."""
    objective: float
    solver: str
    fallback: bool
    reason: str


def select_devices(
    utilities: np.ndarray,
    latencies_s: np.ndarray,
    rates: np.ndarray,
    budget: float | None,
    *,
    kappa: float,
    scaled: bool = True,
    solver: Solver = "auto",
    gap: float = 0.02,
) -> Selected:
    """Eq. (10): who trains next. ``budget`` is what the busy devices leave; None is no limit.

    Whoever still fits into the rest of the budget comes along, unless his value is negative: the
    gap, or a scaled utility of 0, leaves nobody idle for nothing.
    """
    values = known(utilities, scaled) * (1 / latencies_s) ** kappa  # Eq. (10a)
    room = np.inf if budget is None else max(budget, 0.0) * _ROUNDING
    candidates = np.flatnonzero((values >= 0) & (rates <= room))
    if rates[candidates].sum() <= room:
        return Selected(
            _best_first(candidates, values), _sum(values, candidates), "none", False, ""
        )
    v, r = values[candidates], rates[candidates]
    problem = _knapsack(v / (v.max() or 1.0), r / room)
    solution = solve(problem, fallback=lambda: _greedy(v, r, room), solver=solver, gap=gap)
    chosen = solution.x > 0.5
    if r[chosen].sum() > room:  # the solver's tolerance
        chosen = _fill(np.zeros_like(chosen), _by_ratio(v, r, chosen), r, room)
    devices = candidates[_fill(chosen, _by_ratio(v, r), r, room)]
    return Selected(
        _best_first(devices, values), _sum(values, devices),
        solution.solver, solution.fallback, solution.reason,
    )  # fmt: skip


def _best_first(devices: np.ndarray, values: np.ndarray) -> np.ndarray:
    return devices[np.argsort(-values[devices], kind="stable")]


def _sum(values: np.ndarray, devices: np.ndarray) -> float:
    return float(values[devices].sum())


def known(utilities: np.ndarray, scaled: bool) -> np.ndarray:
    """No nan, and if ``scaled`` then from 0 to 1; all 1 where they do not differ."""
    u = np.asarray(utilities, dtype=float)
    there = u[~np.isnan(u)]
    if not len(there):
        return np.ones(len(u))
    low, high = there.min(), there.max()
    u = np.where(np.isnan(u), high, u)
    if not scaled:
        return u
    return (u - low) / (high - low) if high > low else np.ones(len(u))


def _knapsack(values: np.ndarray, rates: np.ndarray) -> Milp:
    count = len(values)
    return Milp(
        objective=values,
        rows=sparse.csr_array(rates[None, :]),  # Eq. (10b)
        row_lower=np.array([-np.inf]),
        row_upper=np.ones(1),
        lower=np.zeros(count),
        upper=np.ones(count),
        binary=np.ones(count, dtype=bool),  # Eq. (10c)
    )


def _by_ratio(values: np.ndarray, rates: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
    order = np.argsort(-values / rates, kind="stable")
    return order if among is None else order[among[order]]


def _fill(chosen: np.ndarray, order: np.ndarray, rates: np.ndarray, room: float) -> np.ndarray:
    """Those chosen, and in this order whoever else fits."""
    chosen, left = chosen.copy(), room - rates[chosen].sum()
    for i in order:
        if not chosen[i] and rates[i] <= left:
            chosen[i] = True
            left -= rates[i]
    return chosen


def _greedy(values: np.ndarray, rates: np.ndarray, room: float) -> np.ndarray:
    """Best ratios first, or the one best device: at least half of the best possible."""
    chosen = _fill(np.zeros(len(values), dtype=bool), _by_ratio(values, rates), rates, room)
    best = np.arange(len(values)) == values.argmax()
    return chosen if values[chosen].sum() >= values.max() else best


def associate(
    utilities: np.ndarray,
    rates: np.ndarray,
    reachable: np.ndarray,
    budgets: Sequence[float | None],
    *,
    phi: float,
    everyone: bool = True,
    scaled: bool = False,
    solver: Solver = "auto",
    gap: float = 0.02,
) -> Associated:
    """Eq. (11): which gateway each device belongs to.

    ``rates`` and ``reachable`` are devices x gateways; a rate without a link is not looked at. A
    budget of None is no limit: the gateway has no part in R_slack.
    """
    links = _Links.of(known(utilities, scaled), rates, reachable, budgets, phi, everyone)
    if not len(links.device):
        return Associated(np.full(len(utilities), -1), 0.0, "none", False, "")
    solution = solve(links.problem(), fallback=links.greedy, solver=solver, gap=gap)
    on = solution.x[: len(links.device)] > 0.5
    gateways = np.full(len(utilities), -1)
    gateways[links.device[on]] = links.gateway[on]
    objective = links.objective(on)
    return Associated(gateways, objective, solution.solver, solution.fallback, solution.reason)


@dataclass(frozen=True)
class _Links:
    """One entry for each feasible link (11d): device, gateway, its utility and load R/B."""

    device: np.ndarray
    gateway: np.ndarray
    utility: np.ndarray
    load: np.ndarray
    phi: float
    everyone: bool

    @classmethod
    def of(
        cls,
        utilities: np.ndarray,
        rates: np.ndarray,
        reachable: np.ndarray,
        budgets: Sequence[float | None],
        phi: float,
        everyone: bool,
    ) -> _Links:
        device, gateway = np.nonzero(reachable)
        budget = np.array([np.inf if b is None else b for b in budgets], dtype=float)
        load = rates[device, gateway] / budget[gateway]
        return cls(device, gateway, utilities[device], load, phi, everyone)

    def sums(self, on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Utility and load of each gateway in somebody's reach."""
        alive, place = np.unique(self.gateway, return_inverse=True)
        utility = np.bincount(place, on * self.utility, len(alive))
        return utility, np.bincount(place, on * self.load, len(alive))

    def objective(self, on: np.ndarray) -> float:
        utility, load = self.sums(on)
        return float(utility.min() - self.phi * load.max())  # Eq. (11a)

    def problem(self) -> Milp:
        """Variables: a binary for each link, then u_slack and R_slack, all near 1."""
        count = len(self.device)
        _, device = np.unique(self.device, return_inverse=True)
        _, gateway = np.unique(self.gateway, return_inverse=True)
        devices, gateways = device.max() + 1, gateway.max() + 1
        most_u, most_r = _most(self.utility), _most(self.load)
        once = _rows(device, np.ones(count))
        utility = sparse.hstack([_rows(gateway, self.utility / most_u), _slack(gateways, 0)])
        load = sparse.hstack([_rows(gateway, self.load / most_r), _slack(gateways, 1)])
        weights = np.array([most_u, -self.phi * most_r])
        bound = float(devices)
        return Milp(
            objective=np.r_[np.zeros(count), weights / np.abs(weights).max()],  # Eq. (11a)
            rows=sparse.vstack(
                [
                    utility,  # Eq. (11b)
                    load,  # Eq. (11c)
                    sparse.hstack([once, sparse.csr_array((devices, 2))]),  # Eq. (11e)
                ],
                format="csr",
            ),
            row_lower=np.r_[
                np.zeros(gateways),
                np.full(gateways, -np.inf),
                np.full(devices, 1.0 if self.everyone else -np.inf),
            ],
            row_upper=np.r_[np.full(gateways, np.inf), np.zeros(gateways), np.ones(devices)],
            lower=np.r_[np.zeros(count), -bound, 0.0],
            upper=np.r_[np.ones(count), bound, bound],
            binary=np.arange(count + 2) < count,  # Eq. (11f)
        )

    def greedy(self) -> np.ndarray:
        """Each to the gateway that has least utility (if his is negative, most), loads considered.

        Devices with few gateways go first, then large utilities: the others even out what they did.
        A second round places each anew among all others.
        """
        on = np.zeros(len(self.device), dtype=bool)
        sums = np.zeros((2, self.gateway.max() + 1))  # of utilities, of loads
        starts = np.flatnonzero(np.diff(self.device, prepend=-1))
        groups = np.split(np.arange(len(on)), starts[1:])
        groups.sort(key=lambda links: (len(links), -abs(self.utility[links[0]])))
        for links in groups + groups:
            sign = 1 if self.utility[links[0]] >= 0 else -1
            if sign < 0 and not self.everyone:
                continue
            for link in links[on[links]]:
                self._put(link, sums, on, False)
            utility, load = sums[:, self.gateway[links]]
            cost = sign * utility + self.phi * (load + self.load[links])
            self._put(links[cost.argmin()], sums, on, True)
        return np.concatenate([on, self._slacks(on)])

    def _put(self, link: int, sums: np.ndarray, on: np.ndarray, new: bool) -> None:
        on[link] = new
        change = np.array([self.utility[link], self.load[link]])
        sums[:, self.gateway[link]] += change if new else -change

    def _slacks(self, on: np.ndarray) -> np.ndarray:
        utility, load = self.sums(on)
        return np.array([utility.min() / _most(self.utility), load.max() / _most(self.load)])


def _most(values: np.ndarray) -> float:
    return float(np.abs(values).max()) or 1.0


def _rows(row: np.ndarray, values: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array((values, (row, np.arange(len(row)))))


def _slack(rows: int, column: int) -> sparse.csr_array:
    """-1 in one of two columns."""
    return sparse.csr_array(np.tile(-np.eye(2)[column], (rows, 1)))
