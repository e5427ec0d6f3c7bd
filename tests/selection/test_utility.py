import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selection.utility import LearningUtility
from simulator.state import load_state, save_state

VECTORS = {7: [1.0, 0.0], 3: [1.0, 2.0], 5: [-2.0, 1.0]}
"""Mean (0, 1). Products: 7·3 = 1, 7·5 = -2, 3·5 = 0."""


def filled(vectors, devices=None):
    utility = LearningUtility(devices or list(vectors))
    for device, vector in vectors.items():
        utility.update(device, np.array(vector))
    return utility


def as_printed(vectors):
    """Eq. (9), literally."""
    g, n = np.array(vectors), len(vectors)
    mean = g.sum(axis=0) / n
    others = [sum(g[i] @ g[k] for k in range(n) if k != i) for i in range(n)]
    return [g[i] @ mean - others[i] / (n - 1) for i in range(n)]


def test_by_hand():
    """η = 0, 2, 1; ν = 1/2, -1/2, 1."""
    assert filled(VECTORS).utilities().tolist() == pytest.approx([0.5, 1.5, 2.0])


def test_of_a_gateway_s_candidates_in_their_order():
    """Of 5 and 7 the mean is (-1/2, 1/2): η = 3/2, -1/2; ν = 2, 2."""
    assert filled(VECTORS).utilities([5, 7]).tolist() == pytest.approx([3.5, 1.5])


def test_a_device_without_a_vector_has_no_utility_and_does_not_count():
    utility = filled(VECTORS, devices=[1, 7, 3, 5])
    assert utility.utilities().tolist() == pytest.approx([np.nan, 0.5, 1.5, 2.0], nan_ok=True)
    assert utility.utilities([5, 1, 7]).tolist() == pytest.approx([3.5, np.nan, 1.5], nan_ok=True)
    assert np.isnan(LearningUtility([1, 2]).utilities()).all()
    assert utility.utilities([]).tolist() == []


def test_alone_it_is_the_squared_length():
    """Nobody else to differ from: ν = 0."""
    assert filled(VECTORS).utilities([3]).tolist() == [5]


vectors = st.lists(st.floats(-10, 10), min_size=3, max_size=3)


@given(st.lists(vectors, min_size=2, max_size=6), st.lists(st.tuples(st.integers(0, 5), vectors)))
def test_kept_up_to_date_it_is_as_computed_anew(first, changes):
    utility = filled(dict(enumerate(first)))
    for device, vector in changes:
        if device < len(first):
            first[device] = vector
            utility.update(device, np.array(vector))
    assert utility.utilities().tolist() == pytest.approx(as_printed(first), abs=1e-9)


@pytest.mark.parametrize("updates", [0, 2])
def test_saved_loaded_and_updated(tmp_path, updates):
    utility = filled(dict(list(VECTORS.items())[:updates]), devices=list(VECTORS))
    save_state(tmp_path / "s", utility)
    back = load_state(tmp_path / "s", None)
    for device, vector in VECTORS.items():
        back.update(device, np.array(vector))
    assert back.utilities().tolist() == pytest.approx([0.5, 1.5, 2.0])
