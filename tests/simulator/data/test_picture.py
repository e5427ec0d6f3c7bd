from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from simulator.data.dataset import load
from simulator.data.picture import label_counts, plot_labels
from simulator.data.samples import Dataset
from simulator.data.schemes import classes_per_device, dirichlet, iid
from simulator.rng import Stream, generator


def rng() -> np.random.Generator:
    return generator(1, Stream.PARTITION)


def test_counts() -> None:
    x, y = np.zeros((4, 1), np.float32), np.array([0, 2, 2, 1])
    data = Dataset("toy", x, y, x, y, 3)
    parts = [np.array([0, 1, 2]), np.array([3])]
    assert label_counts(data, parts).tolist() == [[1, 0, 2], [0, 1, 0]]


@pytest.mark.parametrize("devices", [10, 184])
def test_picture_of_digits(tmp_path: Path, devices: int) -> None:
    digits = load("digits", tmp_path)
    parts = classes_per_device(digits.y_train, devices, rng(), 2)
    names = [f"device-{number}" for number in range(devices)]
    path = tmp_path / "figures" / "labels.png"
    plot_labels(digits, parts, names, path, groups=[number % 6 for number in range(devices)])
    assert [file.name for file in path.parent.iterdir()] == ["labels.png"]
    with Image.open(path) as image:
        assert image.width > image.height > 400
        assert len(image.convert("RGB").getcolors(100_000) or []) > 10


@pytest.mark.parametrize("num_classes", [15, 62, None])
def test_many_classes_and_regression(tmp_path: Path, num_classes: int | None) -> None:
    x = np.zeros((500, 1), np.float32)
    y: npt.NDArray[Any] = rng().integers(0, num_classes, 500) if num_classes else x
    data = Dataset("toy", x, y, x, y, num_classes)
    parts = dirichlet(y, 5, rng(), 0.5) if num_classes else iid(y, 5, rng())
    plot_labels(data, parts, list("abcde"), tmp_path / "labels.png")
    assert (tmp_path / "labels.png").stat().st_size > 5000
