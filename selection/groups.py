"""Groups that look alike: which gateway each device belongs to, by a program.

What a device looks like is a vector: its shares of labels, or a sketch of its gradient. A group
looks like everybody if the differences of its members from the mean of all add up to nothing:

    min  sum_jc t_jc + w sum_j s_j + eps sum_ij l_ij I_ij
    s.t. t_jc >= +-sum_i I_ij (h_ic - mean_c)           how far group j is off in component c
         floor(N_j) - s_j <= sum_i I_ij <= ceil(N_j) + s_j          unless sizes are free
         sum_j I_ij = 1,  I binary, only where device i reaches gateway j

N_j is N/G, or as many as gateway j is to have. l_ij, from 0 to 1, is how long the link takes: among
groups that are equally alike, and of such sizes, the nearest. Variables only for links that there
are, as in ``selection.ilp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from selection.milp import Milp, Solver, solve

Sizes = Literal["equal", "free"] | Sequence[float]
"""Or shares of all devices, one for each gateway."""
_SIZE_WEIGHT = 10.0
_LINK_WEIGHT = 1e-3
"""Of all links together."""


@dataclass(frozen=True)
class Grouped:
    gateways: np.ndarray
    """For each device the gateway's column."""
    apart: float
    """The sum of t_jc."""
    solver: str
    fallback: bool
    reason: str


def group(
    features: np.ndarray,
    reachable: np.ndarray,
    links_s: np.ndarray,
    *,
    sizes: Sizes = "equal",
    solver: Solver = "auto",
    gap: float = 0.02,
) -> Grouped:
    """``features``: devices x components; ``reachable`` and ``links_s``: devices x gateways.

    Every device reaches a gateway.
    """
    links = _Links.of(features, reachable, links_s, sizes)
    solution = solve(links.problem(), fallback=links.greedy, solver=solver, gap=gap)
    on = solution.x[: len(links.device)] > 0.5
    gateways = np.full(len(features), -1)
    gateways[links.device[on]] = links.gateway[on]
    apart = float(np.abs(links.sums(on)).sum()) * links.unit
    return Grouped(gateways, apart, solution.solver, solution.fallback, solution.reason)


@dataclass(frozen=True)
class _Links:
    """One entry for each link: device, gateway, the device's difference from the mean, l_ij."""

    device: np.ndarray
    gateway: np.ndarray
    off: np.ndarray
    cost: np.ndarray
    devices: int
    gateways: int
    least: np.ndarray
    """Devices of each gateway."""
    most: np.ndarray
    unit: float
    """What the differences were divided by."""

    @classmethod
    def of(
        cls, features: np.ndarray, reachable: np.ndarray, links_s: np.ndarray, sizes: Sizes
    ) -> _Links:
        device, gateway = np.nonzero(reachable)
        off = features - features.mean(axis=0)
        unit = float(np.abs(off).max(initial=0.0)) or 1.0
        cost = links_s[device, gateway] / (links_s[device, gateway].max() or 1.0)
        devices, gateways = reachable.shape
        least, most = _bounds(reachable, sizes)
        return cls(device, gateway, off[device] / unit, cost, devices, gateways, least, most, unit)

    def sums(self, on: np.ndarray) -> np.ndarray:
        """Gateways x components."""
        total = np.zeros((self.gateways, self.off.shape[1]))
        np.add.at(total, self.gateway[on], self.off[on])
        return total

    def problem(self) -> Milp:
        """Variables: a binary for each link, t_jc, s_j."""
        count, components = self.off.shape
        alive, gateway = np.unique(self.gateway, return_inverse=True)
        groups = len(alive)
        offs = groups * components
        row = (gateway[:, None] * components + np.arange(components)).ravel()
        column = np.repeat(np.arange(count), components)
        sums = sparse.csr_array((self.off.ravel(), (row, column)), shape=(offs, count))
        members = sparse.csr_array((np.ones(count), (gateway, np.arange(count))))
        once = sparse.csr_array((np.ones(count), (self.device, np.arange(count))))
        t, s = sparse.eye_array(offs), sparse.eye_array(groups)
        rows = sparse.block_array(
            [[sums, -t, None], [sums, t, None], [members, None, s], [members, None, -s],
             [once, None, None]], format="csr",
        )  # fmt: skip
        infinite = np.full(offs, np.inf), np.full(groups, np.inf)
        return Milp(
            objective=-np.r_[
                _LINK_WEIGHT * self.cost / self.devices, np.ones(offs),
                np.full(groups, _SIZE_WEIGHT),
            ],
            rows=rows,
            row_lower=np.r_[
                -infinite[0], np.zeros(offs), self.least[alive], -infinite[1],
                np.ones(self.devices),
            ],
            row_upper=np.r_[
                np.zeros(offs), infinite[0], infinite[1], self.most[alive],
                np.ones(self.devices),
            ],
            lower=np.zeros(count + offs + groups),
            upper=np.r_[np.ones(count), np.full(offs + groups, float(self.devices))],
            binary=np.arange(count + offs + groups) < count,
        )  # fmt: skip

    def greedy(self) -> np.ndarray:
        """Each to the group that he brings nearest to the mean, in squares, and that is not full.

        Devices with few gateways go first, then those that differ most; twice, as in
        ``selection.ilp``.
        """
        on = np.zeros(len(self.device), dtype=bool)
        sums, sizes = self.sums(on), np.zeros(self.gateways)
        starts = np.flatnonzero(np.diff(self.device, prepend=-1))
        choices = np.split(np.arange(len(on)), starts[1:])
        choices.sort(key=lambda links: (len(links), -np.abs(self.off[links[0]]).sum()))
        for links in choices + choices:
            for link in links[on[links]]:
                on[link] = False
                sums[self.gateway[link]] -= self.off[link]
                sizes[self.gateway[link]] -= 1
            there = self.gateway[links]
            worse = ((sums[there] + self.off[links]) ** 2 - sums[there] ** 2).sum(axis=1)
            full = np.where(sizes[there] >= self.most[there], float(self.devices) ** 3, 0.0)
            best = links[(worse + full + _LINK_WEIGHT * self.cost[links]).argmin()]
            on[best] = True
            sums[self.gateway[best]] += self.off[best]
            sizes[self.gateway[best]] += 1
        return self._whole(on)

    def _whole(self, on: np.ndarray) -> np.ndarray:
        alive = np.unique(self.gateway)
        sizes = np.bincount(self.gateway[on], minlength=self.gateways)[alive]
        off = np.maximum(self.least[alive] - sizes, sizes - self.most[alive])
        slack = np.maximum(off, 0)
        return np.concatenate([on, np.abs(self.sums(on))[alive].ravel(), slack])


def _bounds(reachable: np.ndarray, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most devices of each gateway; one that nobody reaches has none."""
    devices, gateways = reachable.shape
    if sizes == "free":
        return np.full(gateways, -np.inf), np.full(gateways, np.inf)
    shares = np.ones(gateways) if sizes == "equal" else np.array(sizes, float)
    shares[~reachable.any(axis=0)] = 0
    exact = (devices * shares / shares.sum()).round(9)
    return np.floor(exact), np.ceil(exact)
