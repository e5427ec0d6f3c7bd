import math

from hypothesis import given
from hypothesis import strategies as st

from simulator.networks.sharing import max_min


def test_nobody_shares():
    assert max_min([3.0, 5.0], []) == [3, 5]


def test_low_caps_leave_more_to_the_others():
    assert max_min([1.0, 9.0, 9.0, 2.0], [(11.0, range(4))]) == [1, 4, 4, 2]


def test_room_for_all():
    assert max_min([1.0, 2.0], [(3.5, range(2))]) == [1, 2]


def test_three_links():
    """0 and 1 share 10; 0 and 2 share 4; 2 and 3 share 12: 2, 8, 2, 10."""
    groups = [(10.0, [0, 1]), (4.0, [0, 2]), (12.0, [2, 3])]
    assert max_min([99.0] * 4, groups) == [2, 8, 2, 10]


def test_one_that_counts_twice():
    assert max_min([9.0, 9.0], [(12.0, [0, 0, 1])]) == [4, 4]


@st.composite
def problems(draw):
    n = draw(st.integers(1, 12))
    number = st.floats(0.1, 100, allow_nan=False)
    caps = draw(st.lists(number, min_size=n, max_size=n))
    members = st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n, unique=False)
    return caps, draw(st.lists(st.tuples(number, members), max_size=6))


@given(problems())
def test_every_rate_has_a_bottleneck(problem):
    """The definition: no capacity is exceeded, and whoever is below its cap crosses a full group
    in which nobody has more."""
    caps, groups = problem
    rates = max_min(caps, groups)
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
