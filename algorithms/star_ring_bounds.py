"""What the star/ring paper's theory says: Table 4, Theorem 1, Corollary 1, and Appendix C.

*Unified Analyses for Hierarchical Federated Learning: Topology Selection under Data
Heterogeneity* (under review, authors unknown). All bounds are on the least E|gradient|^2 of R
rounds, and of one form: ``start / (eta~ R) + linear eta~ + square eta~^2``, for eta~ <= 1/(12 L).

Misprints, and what we make of them:

- (5), star-star: its third term comes from sigma^2 L^2 eta~^2 / (P^2 K^2) in Appendix C, which by
  Table 6 (11 eta^2 GPMK^2 sigma^2 over GPMK) must be / (P^2 K). The same for (7), ring-star, whose
  third term has eta~^2 although (11) needs eta~. ``theorem_1`` has them as printed.
- (5) and (6) say sigma^2 / (PMK) where the appendix has L eta~ sigma^2 / (GPMK) and
  L^2 eta~^2 sigma^2 / (PMK): the second is made linear by L eta~ <= 1/12. That, not the appendix,
  makes a top star look G times noisier than a top ring in the text.
- Table 6, Phi_1 and Phi_2 of star-star: GP^3 K^3 must be GP^3 M K^3, as in ring-star and as the
  bound that follows needs; 15 in ring-star must be 16. Lemma 2 repeats or garbles some terms of
  star-ring and ring-star; Table 5 says which there are.
- Appendix C ends with constants 12, 18, 18, 24, and a fifth of them where Phi_2 is not. Its own
  last step (dividing by 5/12) gives 12/5 for all four there, and 6/5 of 11, 16, 16, 21 elsewhere.
  ``appendix(..., "printed")`` has the first, "derived" (the default) the second.
- Assumption 2 is printed as a bound on a difference of two points; the proof uses the variance.
- zeta_g^2 enters by its mean over groups.

So by the appendix the four differ in the terms of eta~^2 alone, which are small where eta~ is: with
much heterogeneity between groups star-star's bound is the least (11 against 21), with much within
them or with much noise a ring's (a factor of G^2 P^2, or GM).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Literal, NamedTuple

Tier = Literal["star", "ring"]
FOUR: tuple[tuple[Tier, Tier], ...] = (
    ("star", "star"), ("star", "ring"), ("ring", "star"), ("ring", "ring"),
)  # fmt: skip
"""Top and lower tier, in the paper's order."""


class Shape(NamedTuple):
    groups: int
    """G."""
    clients: float
    """M, of each group; the mean, if they are not equal."""
    rounds: int
    """P: group rounds in a global round."""
    steps: int
    """K: local steps in a group round."""


class Constants(NamedTuple):
    smoothness: float
    """L."""
    noise: float
    """sigma^2."""
    within: float
    """zeta^^2: the mean of zeta_g^2."""
    between: float
    """zeta^2."""
    gap: float
    """A: how far the loss at the start is above the least."""


def aggregation_factor(shape: Shape, top: Tier, lower: Tier) -> float:
    """What every local step is multiplied by in a global round."""
    return 1 / ((shape.groups if top == "star" else 1) * (shape.clients if lower == "star" else 1))


def steps_along(shape: Shape, top: Tier, lower: Tier) -> float:
    """eta~ / eta: PK, PMK, GPK or GPMK."""
    everything = shape.groups * shape.rounds * shape.clients * shape.steps
    return aggregation_factor(shape, top, lower) * everything  # Th. 1, Table 4


def most_rate(constants: Constants) -> float:
    return 1 / (12 * constants.smoothness)  # Th. 1


class Bound(NamedTuple):
    """start / (eta~ R) + linear eta~ + square eta~^2."""

    start: float
    linear: float
    square: float

    def at(self, rate: float, rounds: float) -> float:
        return self.start / (rate * rounds) + self.linear * rate + self.square * rate**2

    def best_rate(self, target: float, most: float = inf) -> float:
        """The eta~, up to ``most``, with which the bound falls to the target soonest.

        That is where eta~ (target - linear eta~ - square eta~^2) is largest.
        """
        a, b = 3 * self.square, 2 * self.linear
        if not a and not b:
            return most
        root = 2 * target / (b + sqrt(b**2 + 4 * a * target))
        return min(root, most)

    def rounds_to(self, target: float, rate: float) -> float:
        """R with which the bound is the target; infinite if it never falls so far."""
        left = target - self.linear * rate - self.square * rate**2
        return self.start / (rate * left) if left > 0 else inf


def theorem_1(shape: Shape, constants: Constants, top: Tier, lower: Tier) -> Bound:
    """Eq. (5) to (8) as printed, without the constants that they leave out."""
    g, m, p, k = shape
    length, noise, within, between, gap = constants
    if (top, lower) == ("star", "star"):
        linear = length * noise / (p * m * k) + length * noise / (p * k) ** 2
        square = length**2 * (within / p**2 + between)
        return Bound(gap, linear, square)  # Eq. (5)
    if (top, lower) == ("star", "ring"):
        square = length**2 * (within / p**2 + between)
        return Bound(gap, length * noise / (p * m * k), square)  # Eq. (6)
    square = length**2 * (within / (g * p) ** 2 + between)
    if lower == "star":
        square += length**2 * noise / (g * p * k) ** 2
    return Bound(gap, length * noise / (g * p * m * k), square)  # Eq. (7), (8)


def corollary_1(shape: Shape, constants: Constants, top: Tier, lower: Tier, rounds: float) -> float:
    """Eq. (9) to (12): Theorem 1 at its best eta~, without constants."""
    g, m, p, k = shape
    length, noise, within, between, gap = constants
    along = g * p if top == "ring" else p
    total = length * gap / rounds
    total += sqrt(length * noise * gap / (along * m * k * rounds))
    if lower == "star":
        total += sqrt(length * noise * gap / ((along * k) ** 2 * rounds))
    square = (length * gap) ** 2
    total += (square * within / (along * rounds) ** 2) ** (1 / 3)
    total += (square * between / rounds**2) ** (1 / 3)
    return float(total)  # Eq. (9) to (12)


class Drift(NamedTuple):
    """Phi_2 / (eta^2 G P M K), by what it is multiplied with; and Phi_1 the same."""

    noise: float
    within: float
    between: float
    gradient: float


def _inequality(top: Tier, lower: Tier) -> int:
    """What the proof pays for squaring a sum of so many stages: 11, 16, 16, 21."""
    return 5 * (2 + (lower == "ring") + (top == "ring")) + 1


def drift(shape: Shape, top: Tier, lower: Tier) -> Drift:
    """How far clients are from the round's start, in squares, summed over all local steps.

    A term for each stage of Table 5: own steps, clients before, group rounds before, groups before.
    """
    g, m, p, k = shape
    along, averaged = (k, m) if lower == "star" else (m * k, 1)
    own = [(k, k**2, k**2)]
    clients = [(m * k, (m * k) ** 2, (m * k) ** 2)] if lower == "ring" else []
    rounds = [(p * along / averaged, 0, (p * along) ** 2)]
    groups = [(g * p * along / averaged, 0, (g * p * along) ** 2)] if top == "ring" else []
    stages = [*own, *clients, *rounds, *groups]
    constant = _inequality(top, lower)
    noise, within, between = (constant * sum(terms) for terms in zip(*stages, strict=True))
    return Drift(noise, within, between, constant * stages[-1][2])  # Table 6


_PRINTED: dict[tuple[Tier, Tier], float] = dict(zip(FOUR, (12, 18, 18, 24), strict=True))


def appendix(
    shape: Shape,
    constants: Constants,
    top: Tier,
    lower: Tier,
    reading: Literal["derived", "printed"] = "derived",
) -> Bound:
    """The bound at the end of Appendix C, with constants."""
    along = steps_along(shape, top, lower)
    everything = along / aggregation_factor(shape, top, lower)
    terms = drift(shape, top, lower)
    drifted = (
        terms.noise * constants.noise
        + terms.within * constants.within
        + terms.between * constants.between
    ) / along**2
    first, second = 12 / 5, 6 / 5
    if reading == "printed":
        printed = _PRINTED[top, lower]
        first, second = printed / 5, printed / _inequality(top, lower)
    return Bound(
        first * constants.gap,
        first * constants.smoothness * constants.noise / everything,
        second * constants.smoothness**2 * drifted,
    )  # App. C.2


def rounds_of_corollary(
    shape: Shape, constants: Constants, top: Tier, lower: Tier, target: float
) -> float:
    """R with which (9) to (12) come down to the target; they fall with R, from infinity to 0."""
    from scipy.optimize import brentq

    def above(exponent: float) -> float:
        return corollary_1(shape, constants, top, lower, 10.0**exponent) - target

    return float(10.0 ** brentq(above, -30, 60))
