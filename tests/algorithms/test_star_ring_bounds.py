"""The star/ring paper's bounds, term by term, and what they must agree with."""

from math import inf, sqrt

import pytest

from algorithms.star_ring_bounds import (
    FOUR,
    Bound,
    Constants,
    Shape,
    appendix,
    corollary_1,
    drift,
    most_rate,
    rounds_of_corollary,
    steps_along,
    theorem_1,
)

SHAPE = Shape(groups=5, clients=3, rounds=2, steps=4)  # G, M, P, K
NOTHING = Constants(smoothness=2.0, noise=0.0, within=0.0, between=0.0, gap=0.0)


def only(**value):
    return NOTHING._replace(**value)


def test_factors_of_the_effective_rate():
    # PK, PMK, GPK, GPMK
    assert [steps_along(SHAPE, *pair) for pair in FOUR] == pytest.approx([8, 24, 40, 120])


@pytest.mark.parametrize(
    ("pair", "linear", "square"),
    [
        (("star", "star"), 2 / (2 * 3 * 4) + 2 / (2 * 4) ** 2, 0),
        (("star", "ring"), 2 / (2 * 3 * 4), 0),
        (("ring", "star"), 2 / (5 * 2 * 3 * 4), 4 / (5 * 2 * 4) ** 2),
        (("ring", "ring"), 2 / (5 * 2 * 3 * 4), 0),
    ],
)
def test_noise_in_theorem_1_as_printed(pair, linear, square):
    assert theorem_1(SHAPE, only(noise=1.0), *pair) == pytest.approx(Bound(0, linear, square))


def test_heterogeneity_in_theorem_1():
    for top, lower in FOUR:
        along = 2 if top == "star" else 5 * 2
        within = theorem_1(SHAPE, only(within=1.0), top, lower)
        assert within == pytest.approx(Bound(0, 0, 4 / along**2))
        assert theorem_1(SHAPE, only(between=1.0), top, lower) == Bound(0, 0, 4)
        assert theorem_1(SHAPE, only(gap=3.0), top, lower) == Bound(3, 0, 0)


def test_corollary_1_term_by_term():
    # L = 2, R = 10, A = 3; along a top star P = 2, along a top ring GP = 10
    for top, lower in FOUR:
        along = 2 if top == "star" else 10
        only_gap = corollary_1(SHAPE, only(gap=3.0), top, lower, 10)
        assert only_gap == pytest.approx(2 * 3 / 10)
        noise = sqrt(2 * 3 / (along * 3 * 4 * 10))
        noise += sqrt(2 * 3 / ((along * 4) ** 2 * 10)) if lower == "star" else 0
        found = corollary_1(SHAPE, only(gap=3.0, noise=1.0), top, lower, 10) - only_gap
        assert found == pytest.approx(noise)
        found = corollary_1(SHAPE, only(gap=3.0, within=1.0), top, lower, 10) - only_gap
        assert found == pytest.approx((4 * 9) ** (1 / 3) / (along * 10) ** (2 / 3))
        found = corollary_1(SHAPE, only(gap=3.0, between=1.0), top, lower, 10) - only_gap
        assert found == pytest.approx((4 * 9) ** (1 / 3) / 10 ** (2 / 3))


def test_table_6():
    """Phi / (eta^2 GPMK); of star-star with the M that the paper left out."""
    g, m, p, k = SHAPE
    assert drift(SHAPE, "star", "star") == pytest.approx(
        [11 * (k + p * k / m), 11 * k**2, 11 * (k**2 + (p * k) ** 2), 11 * (p * k) ** 2]
    )
    assert drift(SHAPE, "star", "ring") == pytest.approx(
        [
            16 * (k + m * k + p * m * k),
            16 * (k**2 + (m * k) ** 2),
            16 * (k**2 + (m * k) ** 2 + (p * m * k) ** 2),
            16 * (p * m * k) ** 2,
        ]
    )
    assert drift(SHAPE, "ring", "star") == pytest.approx(
        [
            16 * (k + p * k / m + g * p * k / m),
            16 * k**2,
            16 * (k**2 + (p * k) ** 2 + (g * p * k) ** 2),
            16 * (g * p * k) ** 2,
        ]
    )
    assert drift(SHAPE, "ring", "ring") == pytest.approx(
        [
            21 * (k + m * k + p * m * k + g * p * m * k),
            21 * (k**2 + (m * k) ** 2),
            21 * (k**2 + (m * k) ** 2 + (p * m * k) ** 2 + (g * p * m * k) ** 2),
            21 * (g * p * m * k) ** 2,
        ]
    )


def test_the_end_of_the_appendix_as_printed():
    g, m, p, k = SHAPE
    # Ring-ring, the only one that is printed without a misprint; L = 2
    noise = (
        24
        * 4
        * sum(
            1 / n
            for n in ((g * p * m) ** 2 * k, (g * p) ** 2 * m * k, g**2 * p * m * k, g * p * m * k)
        )
    )
    found = appendix(SHAPE, only(noise=1.0), "ring", "ring", "printed")
    assert found == pytest.approx(Bound(0, 24 * 2 / (5 * g * p * m * k), noise))
    between = 24 * 4 * (1 / (g * p * m) ** 2 + 1 / (g * p) ** 2 + 1 / g**2 + 1)
    assert appendix(SHAPE, only(between=1.0), "ring", "ring", "printed").square == pytest.approx(
        between
    )
    within = 24 * 4 * (1 / (g * p * m) ** 2 + 1 / (g * p) ** 2)
    assert appendix(SHAPE, only(within=1.0), "ring", "ring", "printed").square == pytest.approx(
        within
    )
    assert appendix(SHAPE, only(gap=1.0), "ring", "ring", "printed").start == pytest.approx(24 / 5)
    # Star-star: of its noise the first term with K instead of K^2
    noise = 12 * 4 * (1 / (p**2 * k) + 1 / (p * m * k))
    assert appendix(SHAPE, only(noise=1.0), "star", "star", "printed").square == pytest.approx(
        noise
    )
    between = 12 * 4 * (1 / p**2 + 1)
    assert appendix(SHAPE, only(between=1.0), "star", "star", "printed").square == pytest.approx(
        between
    )


def test_derived_is_the_proofs_last_step():
    """(A + L eta~^2 sigma^2 R / GPMK + L^2 eta~ Phi_2 R / (2 GPMK)) / (5/12 eta~ R)."""
    constants, eta_tilde, rounds = Constants(2.0, 0.3, 0.5, 0.7, 1.1), 0.03, 50
    g, m, p, k = SHAPE
    for pair in FOUR:
        eta = eta_tilde / steps_along(SHAPE, *pair)
        terms = drift(SHAPE, *pair)
        phi_2 = (
            eta**2 * g * p * m * k * (terms.noise * 0.3 + terms.within * 0.5 + terms.between * 0.7)
        )
        whole = (
            1.1 / (eta_tilde * rounds)
            + 2 * eta_tilde * 0.3 / (g * p * m * k)
            + 4 * phi_2 / (2 * g * p * m * k)
        )
        assert appendix(SHAPE, constants, *pair).at(eta_tilde, rounds) == pytest.approx(
            whole * 12 / 5
        )


def test_the_proofs_five_twelfths():
    """1/2 - L^2 Phi_1 / (2 GPMK) at the largest rate."""
    rate = most_rate(NOTHING)
    assert rate == 1 / 24
    for pair in FOUR:
        eta = rate / steps_along(SHAPE, *pair)
        assert 0.5 - 4 * eta**2 * drift(SHAPE, *pair).gradient / 2 >= 5 / 12


def test_the_text_and_the_appendix_differ_in_how_noisy_a_top_star_is():
    """G times as noisy as a top ring by (6) and (8), equally noisy, to first order, by the proof."""
    noise = only(noise=1.0)
    text = [theorem_1(SHAPE, noise, top, "ring").linear for top in ("star", "ring")]
    proof = [appendix(SHAPE, noise, top, "ring").linear for top in ("star", "ring")]
    assert text[0] == pytest.approx(5 * text[1])
    assert proof[0] == pytest.approx(proof[1])


def test_which_bound_is_least():
    def least(constants):
        bounds = {pair: appendix(SHAPE, constants, *pair).square for pair in FOUR}
        return min(bounds, key=bounds.get)

    assert least(only(between=1.0)) == ("star", "star")
    assert least(only(within=1.0))[0] == "ring"
    assert least(only(noise=1.0))[0] == "ring"


@pytest.mark.parametrize(
    "bound", [Bound(3.0, 0.5, 0.0), Bound(3.0, 0.0, 2.0), Bound(3.0, 0.5, 2.0)]
)
def test_the_best_rate_needs_the_fewest_rounds(bound):
    rate = bound.best_rate(0.4)
    rounds = bound.rounds_to(0.4, rate)
    assert bound.at(rate, rounds) == pytest.approx(0.4)
    assert all(bound.rounds_to(0.4, factor * rate) > rounds for factor in (0.9, 1.1))


def test_rates_have_a_limit_and_targets_may_be_out_of_reach():
    assert Bound(3.0, 0.0, 0.0).best_rate(0.4, most=0.1) == 0.1
    assert Bound(3.0, 0.0, 1.0).best_rate(0.4, most=0.1) == 0.1
    assert Bound(3.0, 1.0, 0.0).rounds_to(0.4, 0.5) == inf


def test_rounds_of_the_corollary():
    constants = Constants(2.0, 0.3, 0.5, 0.7, 1.1)
    for pair in FOUR:
        for target in (1e-4, 0.1, 5.0):
            rounds = rounds_of_corollary(SHAPE, constants, *pair, target)
            assert corollary_1(SHAPE, constants, *pair, rounds) == pytest.approx(target)
