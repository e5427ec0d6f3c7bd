import math

import numpy as np
import pytest

from simulator.report.numbers import estimate, jain, ratio, thinned


def test_the_interval_of_three_values_is_students():
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.302653 / math.sqrt(3))  # t of 2 degrees of freedom


def test_a_single_value_has_no_interval_and_none_has_no_mean():
    assert math.isnan(estimate([5.0]).half)
    assert estimate([math.nan, 5.0]).number == 1
    assert math.isnan(estimate([]).mean)


def test_a_ratio_is_of_means_and_its_interval_of_pairs():
    found = ratio([2.0, 4.0, 7.0], [1.0, 2.0, 3.0])
    r = 13 / 6
    left = np.array([2 - r, 4 - 2 * r, 7 - 3 * r])
    assert found.mean == pytest.approx(r)
    assert found.half == pytest.approx(4.302653 * left.std(ddof=1) / math.sqrt(3) / 2)


def test_a_ratio_of_what_is_always_twice_as_long_is_certain():
    found = ratio([2.0, 4.0], [1.0, 2.0])
    assert (found.mean, found.half) == (2, 0)


def test_a_pair_of_which_one_did_not_get_there_does_not_count():
    assert ratio([2.0, math.nan], [1.0, 9.0]).mean == 2
    assert ratio([math.nan], [1.0]).number == 0


def test_jains_index_of_the_paper():
    assert jain([1, 1, 1, 1]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([3, 1]) == pytest.approx(16 / 20)
    assert math.isnan(jain([0, 0]))


def test_thinned_keeps_the_ends():
    assert list(thinned(3, 5)) == [0, 1, 2]
    kept = thinned(1000, 10)
    assert (kept[0], kept[-1], len(kept)) == (0, 999, 10)
