"""What sync-time HFL's theory says: Lemma 1, Theorems 1 and 2, Corollary 1, and bounds of our own.

Ali and Arafa, *Delay Sensitive Hierarchical Federated Learning With Stochastic Local Updates*,
IEEE TCCN 2025, with its appendices. All hold for step sizes up to 1 / L. ``iterations`` has a row
for each global round and in it t_i of each group; ``sizes`` are the clients of each group.

- Erratum: the second term of (20) lacks a factor and its power, and G^2 is missing in the fourth;
  here they are as Appendix D derives them. t_i^0, of which (20) speaks in the first round, is 0:
  there was no round before it.
- All terms of (20) but the first are smallest for t_i = 1, and the first wants many rounds:
  whatever the delays, (20) is least at S = 0. Two of its steps lose what a longer S is for. (37)
  goes from x^u to x_i^{u,l} by way of the round before, and (35) does not see that noise averages
  out over iterations. ``mean_step_bound`` does without both. And with whole differences
  (``normalise`` "none" or "fednova"), where every iteration counts, ``whole_steps_bound`` follows
  the mean of the groups' models, as Yu, Yang, Zhu (AAAI 2019), the paper's [18], do, with the
  dissimilarity of GROUPS in place of G, which devices' noise dominates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

Rounds = Sequence[Sequence[int]]
"""t_i^u: a row for each global round, in it a number for each group."""


@dataclass(frozen=True)
class Constants:
    smoothness: float
    """L."""
    gradient: float
    """G: root of the second moment of a device's stochastic gradient."""
    noise: float
    """sigma: root of its variance."""
    dissimilarity: float
    """Root of the mean square distance of groups' gradients from the global one; ours."""
    loss_drop: float
    """f(x^1) less what it may come down to."""


class Terms(NamedTuple):
    """Of a bound on the mean of |gradient|^2."""

    start: float
    """Of the way still to go: less with more rounds."""
    noise: float
    drift: float
    """Of local models' distance from the global one."""

    @property
    def total(self) -> float:
        return sum(self)


def kappa(sizes: Sequence[int]) -> float:
    """1 for groups of equal sizes, up to their number for unequal ones."""
    return len(sizes) * sum(n * n for n in sizes) / sum(sizes) ** 2  # below Eq. (19)


def most_deviation(rate: float, gradient: float, iterations: int, sizes: Sequence[int]) -> float:
    """Lemma 1: on |x^{u+1} - x_i^{u,t_i}|^2."""
    return 2 * rate**2 * (iterations**2 + kappa(sizes)) * gradient**2  # Eq. (18)


def group_bound(
    constants: Constants, rate: float, iterations: Sequence[int], sizes: Sequence[int], group: int
) -> Terms:
    """Theorem 1: for group i, on the mean over all its iterations, t_i^u of which are given."""
    c, total, rounds = constants, sum(iterations), len(iterations)
    drift = (1 / rate + 2 * (c.smoothness + 1) * kappa(sizes) * rate) * (rounds - 1)
    drift += 2 * (c.smoothness + 1) * rate * sum(t * t for t in iterations[:-1])
    return Terms(
        2 * c.loss_drop / (rate * total),
        rate * c.smoothness * c.noise**2 / sizes[group],
        drift * c.gradient**2 / total,
    )  # Eq. (19)


def global_bound(
    constants: Constants, rate: float, iterations: Rounds, sizes: Sequence[int]
) -> Terms:
    """Theorem 2: on the mean over global rounds."""
    c, rounds, weight = constants, len(iterations), len(sizes) / sum(sizes) ** 2
    squares = [n * n for n in sizes]
    before = [[0] * len(sizes), *iterations[:-1]]
    last = sum(n * t * t for row in before for n, t in zip(squares, row, strict=True)) / rounds
    now = [n * _mean_square(t) for row in iterations for n, t in zip(squares, row, strict=True)]
    drift = 12 * kappa(sizes) ** 2 + 12 * weight * last + 4 * weight * sum(now) / rounds
    return Terms(
        2 * c.loss_drop / (rate * rounds),
        rate * c.smoothness * kappa(sizes) * c.noise**2,
        (rate * c.smoothness * c.gradient) ** 2 * drift,
    )  # Eq. (20), (40)


def _mean_square(iterations: int) -> float:
    """Of l = 0 to t - 1."""
    return (iterations - 1) * (2 * iterations - 1) / 6  # Appendix E


def corollary_rate(rounds: int, smoothness: float) -> float:
    return min(1 / sqrt(rounds), 1 / smoothness)  # Corollary 1


def corollary_bound(
    constants: Constants, rounds: int, most: Sequence[int], sizes: Sequence[int]
) -> Terms:
    """Corollary 1: Theorem 2 at its rate, with every t_i at its most, t_i^max of (22)."""
    rate = corollary_rate(rounds, constants.smoothness)
    return global_bound(constants, rate, [list(most)] * rounds, sizes)  # Appendix E


# Ours


def mean_step_bound(
    constants: Constants, rate: float, iterations: Rounds, sizes: Sequence[int]
) -> Terms:
    """For ``printed``, rates up to 1 / (2 L): as Theorem 2, less what its proof gives away.

    With h the mean of gradients that (12) goes along, |h|^2 <= 2 |E h|^2 + 2 |noise|^2, and by
    (5) a group has gone at most alpha l G after l iterations.
    """
    c, rounds, clients = constants, len(iterations), sum(sizes)
    noise = drift = 0.0
    for row in iterations:
        for n, t in zip(sizes, row, strict=True):
            noise += n / clients**2 / t
            drift += n / clients * _mean_square(t)
    return Terms(
        2 * c.loss_drop / (rate * rounds),
        2 * rate * c.smoothness * c.noise**2 * noise / rounds,
        (rate * c.smoothness * c.gradient) ** 2 * drift / rounds,
    )


def whole_steps_bound(
    constants: Constants,
    rate: float,
    iterations: Rounds,
    sizes: Sequence[int],
    convex: bool = False,
) -> Terms:
    """For ``none`` and ``fednova``: on the mean over iterations, at the mean of groups' models.

    In each of them the loss falls by alpha / 2 |gradient|^2, but for the noise of all clients and
    for L^2 times the groups' mean square distance, which begins at 0 in each round. The groups
    of a round count as if all had its mean number of iterations. Where the loss is ``convex``,
    steps do not drive models apart that were apart before.
    """
    c, clients = constants, sum(sizes)
    counts = [sum(n * t for n, t in zip(sizes, row, strict=True)) / clients for row in iterations]
    distances = distances_of(constants, rate, ceil(max(counts)), sizes, convex)
    drift = sum(_up_to(distances, count) for count in counts)
    return Terms(
        2 * c.loss_drop / (rate * sum(counts)),
        rate * c.smoothness * c.noise**2 / clients,
        c.smoothness**2 * drift / sum(counts),
    )


def distances_of(
    constants: Constants, rate: float, iterations: int, sizes: Sequence[int], convex: bool
) -> list[float]:
    """Bounds on the groups' mean square distance from their mean, before each iteration.

    A step adds alpha times the dissimilarity, and noise; where the loss is not convex, also L alpha
    times the distance that there is.
    """
    c, growth = constants, 0.0 if convex else rate * constants.smoothness
    noise = len(sizes) * (rate * c.noise) ** 2 / sum(sizes)
    squares = [0.0]
    while len(squares) < iterations:
        grown = (1 + growth) * sqrt(squares[-1]) + rate * c.dissimilarity
        squares.append(grown * grown + noise)  # grows to infinity, without an error
    return squares


def _up_to(numbers: Sequence[float], count: float) -> float:
    """Their sum, the last one by the share of ``count`` that is left for it."""
    whole = int(count)
    rest = numbers[whole] * (count - whole) if whole < len(numbers) else 0.0
    return sum(numbers[:whole]) + rest
