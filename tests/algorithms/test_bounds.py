"""HGA-FL's limits against the inequalities that they come from, and numbers worked by hand."""

from math import sqrt

import pytest

from algorithms.bounds import (
    least_alpha,
    mean_square_gradient,
    most_global_rate,
    most_sub_center_rate,
)

SETTING = {
    "smoothness": 1.0, "alpha": 2.0, "global_rate": 0.5, "rounds": 2, "buffer": 1,
    "sub_centers": 2, "steps": 10, "staleness": 1.0, "cached_age": 2.0, "loss_drop": 3.0,
    "variance_within": 0.0, "variance_between": 0.0,
}  # fmt: skip


def test_proposition_1():
    assert most_sub_center_rate(1.0, 2.0) == 1  # sqrt(2 + 2) / 2
    assert most_sub_center_rate(0.0, 2.0) == pytest.approx(1 / sqrt(2))


def test_alpha_by_hand():
    assert least_alpha(1.0, 8) == pytest.approx(10 * sqrt(24) * 8)
    assert least_alpha(0.0, 8) == 1


@pytest.mark.parametrize("smoothness", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("rounds", [1, 8])
def test_at_the_least_alpha_the_sub_center_rate_keeps_66_and_38(smoothness, rounds):
    rate = most_sub_center_rate(smoothness, least_alpha(smoothness, rounds))
    assert rate**2 <= 1 / (600 * rounds**2 * smoothness**2) * (1 + 1e-9)
    assert rate <= 1 / (8 * rounds * smoothness)


def test_global_rate_by_hand():
    # Gamma = 1, zeta = 2: 4 + 4 = 8, sqrt(129) - 1
    assert most_global_rate(1, 2) == pytest.approx(5 * sqrt(6) * (sqrt(129) - 1) / 32)


@pytest.mark.parametrize(("staleness", "cached_age"), [(1, 1), (3, 6), (500, 1000)])
def test_at_the_most_global_rate_64_is_an_equation(staleness, cached_age):
    length, rounds, eta = 0.7, 8, most_global_rate(staleness, cached_age)
    eta_s = 1 / (10 * sqrt(6) * rounds * length)
    delay = 4 * staleness**2 + cached_age**2
    both = eta * eta_s
    left = 2 * both * rounds * length**2 * both**2 * delay
    assert left + (length * both**2 * rounds - both) / (2 * rounds) == pytest.approx(0, abs=1e-12)


def test_the_papers_own_alpha_is_outside_its_limit():
    assert least_alpha(1.0, 8) > 2


def test_its_own_rate_is_outside_only_if_mini_batches_are_taken_for_global_steps():
    assert most_global_rate(500, 1000) < 0.1 < most_global_rate(10, 20)


def test_theorem_1_term_by_term():
    # C = 2, B = 5 + 54 * 2 = 113, delay = 8; each term alone
    assert mean_square_gradient(**SETTING) == pytest.approx(2 * 2 / (2 * 0.5 * 2 * 10) * 3)
    within = mean_square_gradient(**SETTING | {"loss_drop": 0.0, "variance_within": 1.0})
    assert within == pytest.approx(113 * (5 * 2 + 15 * 4 * 0.5 + 60 * 8 * 0.25 * 8))
    between = mean_square_gradient(**SETTING | {"loss_drop": 0.0, "variance_between": 1.0})
    assert between == pytest.approx(9 * (12 * 4 * 0.25 * 8 + 3 * 2 * 0.5))
