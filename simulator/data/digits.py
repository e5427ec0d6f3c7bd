"""digits: embedded in scikit-learn, so it is always there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from simulator.data.samples import TEST_SHARE, Dataset


def load_digits(_folder: Path) -> Dataset:
    """x / 16 as [n, 1, 8, 8]; every fifth sample of each class is for testing."""
    table = np.loadtxt(_embedded_file(), delimiter=",")
    x = (table[:, :-1] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    y = table[:, -1].astype(np.int64)
    test = np.zeros(len(y), bool)
    for label in range(10):
        test[np.flatnonzero(y == label)[TEST_SHARE - 1 :: TEST_SHARE]] = True
    names = tuple(str(label) for label in range(10))
    return Dataset("digits", x[~test], y[~test], x[test], y[test], 10, class_names=names)


def _embedded_file() -> Path:
    """What sklearn.datasets.load_digits reads; importing that takes over a second."""
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
