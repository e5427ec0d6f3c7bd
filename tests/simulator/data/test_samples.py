from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.data.dataset import load
from simulator.data.samples import Dataset, scale, standardise, tail_split
from simulator.errors import UserError


def good() -> Dataset:
    x = np.zeros((4, 3), np.float32)
    y = np.array([0, 1, 1, 0])
    owner = np.array([0, 0, 1, 1])
    return Dataset("toy", x, y, x[:2], y[:2], 2, owner, ("ann", "bob"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_train": np.array([0, 1])}, "4 training samples with 2 labels"),
        ({"x_test": np.zeros((0, 3), np.float32), "y_test": np.empty(0, np.int64)}, "0 test"),
        ({"x_train": np.zeros((4, 3))}, "training x is float64"),
        ({"x_train": np.full((4, 3), np.nan, np.float32)}, "training x holds values that are not"),
        ({"x_test": np.zeros((2, 4), np.float32)}, r"training x \(4, 3\) and test x \(2, 4\)"),
        ({"y_train": np.array([0, 1, 2, 0])}, "training labels 0 to 2, but 2 classes"),
        ({"y_test": np.array([-1, 0])}, "test labels -1 to 0"),
        ({"y_train": np.zeros(4, np.int32)}, "training y is int32"),
        ({"num_classes": None}, "training y is int64"),
        ({"owner": np.array([0, 0, 1, 2])}, "owners 0 to 2, but 2 owner names"),
        ({"owner": np.array([0, 0, 1])}, "owner is int64"),
        ({"class_names": ("a",)}, "1 class names, 2 classes"),
    ],
)
def test_check_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(good(), **change)  # type: ignore[arg-type]


def test_standardise_by_channel() -> None:
    images = np.array([0, 255], np.uint8).reshape(1, 2, 1, 1)
    x = standardise(images, [0.5, 0.2], [0.25, 0.4])
    np.testing.assert_allclose(x.ravel(), [-2, 2], rtol=1e-6)


def test_scale_uses_the_training_part_only() -> None:
    train = np.array([[0.0, 7.0], [4.0, 7.0]])
    scaled, test = scale(train, np.array([[6.0, 8.0]]))
    np.testing.assert_allclose(scaled, [[-1, 0], [1, 0]])
    np.testing.assert_allclose(test, [[2, 1]])


def test_tail_split_takes_the_last_fifth_of_each_key_and_leaves_a_gap() -> None:
    keys = np.array([0] * 10 + [1] * 4)
    train, test = tail_split(keys, gap=1)
    assert test.tolist() == [8, 9]
    assert train.tolist() == [0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13]


def test_digits_are_complete_and_stratified(tmp_path: Path) -> None:
    digits = load("digits", tmp_path)
    assert digits.x_train.shape == (1442, 1, 8, 8)
    assert digits.x_test.shape == (355, 1, 8, 8)
    assert digits.x_train.min() == 0
    assert digits.x_train.max() == 1
    assert np.bincount(digits.y_test).min() >= 34
    assert digits.class_names == tuple("0123456789")
