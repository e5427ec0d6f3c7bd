from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits as sklearn_digits

from simulator.data.digits import load_digits


def test_the_samples_are_those_of_scikit_learn() -> None:
    ours, theirs = load_digits(Path()), sklearn_digits()
    assert len(ours.y_train) + len(ours.y_test) == len(theirs.target) == 1797
    assert sorted([*ours.y_train, *ours.y_test]) == sorted(theirs.target)
    every_fifth_zero = np.flatnonzero(theirs.target == 0)[4]
    first_test_zero = ours.x_test[ours.y_test == 0][0, 0]
    assert np.array_equal(first_test_zero * 16, theirs.images[every_fifth_zero])


def test_every_class_is_in_both_parts() -> None:
    digits = load_digits(Path())
    assert set(digits.y_train) == set(digits.y_test) == set(range(10))
