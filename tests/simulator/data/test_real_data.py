"""The real data sets, where the data folder has them (MESHFL_DATA, or data/)."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.data.catalog import data_folder, find
from simulator.data.dataset import Dataset, load
from simulator.errors import UserError

pytestmark = pytest.mark.slow


def real(name: str) -> Dataset:
    try:
        find(name, data_folder())
    except UserError as missing:
        pytest.skip(str(missing))
    return load(name, data_folder())


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_images(name: str) -> None:
    data = real(name)
    assert len(data.y_test) == 10000
    assert len(data.y_train) == (50000 if name == "cifar10" else 60000)
    assert np.bincount(data.y_train).min() > 5000 - 1
    # Sums of 50 million squares stop growing in float32.
    mean = data.x_train.mean(axis=(0, 2, 3), dtype=np.float64)
    std = data.x_train.std(axis=(0, 2, 3), dtype=np.float64)
    np.testing.assert_allclose(mean, 0, atol=2e-3)
    np.testing.assert_allclose(std, 1, atol=2e-3)


def test_har() -> None:
    data = real("har")
    assert len(data.owner_names) == 30
    # 10017 windows; one of each subject's each activity overlaps the test part.
    assert len(data.y_train) + len(data.y_test) == 10017 - 30 * 6


def test_shakespeare() -> None:
    data = real("shakespeare")
    assert len({name.split(":")[0] for name in data.owner_names}) == 37
    assert 1000 < len(data.owner_names) < 1100
    letters = np.bincount(data.y_train, minlength=80)
    assert letters.argmax() == 1
    assert letters[1] / letters.sum() == pytest.approx(0.16, abs=0.02)


def test_weather() -> None:
    data = real("weather")
    assert len(data.owner_names) == 12
    assert len(data.y_train) + len(data.y_test) == 12 * (6574 - 24)
    # Tomorrow is like today: better than the mean, far from perfect.
    assert 0.2 < np.mean((data.x_test[:, -1, :1] - data.y_test) ** 2) < 1.2
