import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.networks.maxmin import max_min_few, max_min_many


def both(caps, groups):
    few = max_min_few(list(caps), groups)
    many = max_min_many(np.array(caps, dtype=float), groups)
    assert many.tolist() == pytest.approx(few)
    return few


def test_nobody_shares():
    assert both([3.0, 5.0], []) == [3, 5]


def test_low_caps_leave_more_to_the_others():
    assert both([1.0, 9.0, 9.0, 2.0], [(11.0, None)]) == [1, 4, 4, 2]


def test_room_for_all():
    assert both([1.0, 2.0], [(3.5, None)]) == [1, 2]


def test_three_links():
    """0 and 1 share 10; 0 and 2 share 4; 2 and 3 share 12: 2, 8, 2, 10."""
    groups = [(10.0, [0, 1]), (4.0, [0, 2]), (12.0, [2, 3])]
    assert both([99.0] * 4, groups) == [2, 8, 2, 10]


def test_one_that_counts_twice():
    assert both([9.0, 9.0], [(12.0, [0, 0, 1])]) == [4, 4]


@st.composite
def problems(draw):
    n = draw(st.integers(1, 12))
    number = st.floats(0.1, 100, allow_nan=False)
    caps = draw(st.lists(number, min_size=n, max_size=n))
    members = st.one_of(
        st.none(), st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n, unique=False)
    )
    return caps, draw(st.lists(st.tuples(number, members), max_size=6))


@given(problems())
def test_every_rate_has_a_bottleneck(problem):
    """The definition: no capacity is exceeded, and whoever is below its cap crosses a full group
    in which nobody has more."""
    caps, groups = problem
    rates = both(caps, groups)
    groups = [(c, range(len(caps)) if m is None else m) for c, m in groups]
    for capacity, members in groups:
        assert sum(rates[i] for i in members) <= capacity * (1 + 1e-9)
    for i, rate in enumerate(rates):
        assert 0 < rate <= caps[i]
        assert rate == caps[i] or any(
            i in members
            and math.isclose(sum(rates[k] for k in members), capacity, rel_tol=1e-9)
            and rate >= max(rates[k] for k in members) * (1 - 1e-9)
            for capacity, members in groups
        )
