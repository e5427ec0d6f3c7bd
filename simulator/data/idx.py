"""The idx files of MNIST, Fashion-MNIST and EMNIST, gzipped or plain."""

from __future__ import annotations

import gzip
import struct
from math import prod
from pathlib import Path

import numpy as np

from simulator.data.catalog import EMNIST_SPLITS
from simulator.data.samples import Bytes, Dataset, Ints, reading, standardise

MNIST_MEAN_STD = (0.1307, 0.3081)
FASHION_MEAN_STD = (0.2860, 0.3530)

_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def read_idx(path: Path) -> Bytes:
    """The bytes of ``path``, or of ``path``.gz, in the shape that its header gives."""
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    with reading(path):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        zeros, kind, dimensions = struct.unpack_from(">HBB", raw)
        if zeros != 0 or kind != 8:
            raise ValueError(f"an idx file of bytes starts with 0 0 8, this with {list(raw[:3])}")
        shape = struct.unpack_from(f">{dimensions}I", raw, 4)
        start = 4 + 4 * dimensions
        if len(raw) - start != prod(shape):
            raise ValueError(f"its header promises {shape}, but {len(raw) - start} bytes follow")
        return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _labels(path: Path) -> Ints:
    return read_idx(path).astype(np.int64)


def load_mnist(folder: Path) -> Dataset:
    return _load_mnist_files("mnist", folder, MNIST_MEAN_STD, _DIGITS)


def load_fashion_mnist(folder: Path) -> Dataset:
    return _load_mnist_files("fashion-mnist", folder, FASHION_MEAN_STD, _CLOTHES)


def _load_mnist_files(
    name: str, folder: Path, mean_std: tuple[float, float], class_names: tuple[str, ...]
) -> Dataset:
    mean, std = mean_std

    def images(part: str) -> Bytes:
        return read_idx(folder / f"{part}-images-idx3-ubyte")[:, np.newaxis]

    return Dataset(
        name,
        standardise(images("train"), [mean], [std]),
        _labels(folder / "train-labels-idx1-ubyte"),
        standardise(images("t10k"), [mean], [std]),
        _labels(folder / "t10k-labels-idx1-ubyte"),
        num_classes=10,
        class_names=class_names,
    )


def load_emnist(split: str, folder: Path) -> Dataset:
    """EMNIST keeps its images transposed; its letters count from 1. MNIST's mean and std."""
    first_label = 1 if split == "letters" else 0
    mean, std = MNIST_MEAN_STD

    def images(part: str) -> Bytes:
        stored = read_idx(folder / f"emnist-{split}-{part}-images-idx3-ubyte")
        return stored[:, np.newaxis].swapaxes(2, 3)

    def labels(part: str) -> Ints:
        return _labels(folder / f"emnist-{split}-{part}-labels-idx1-ubyte") - first_label

    return Dataset(
        f"emnist-{split}",
        standardise(images("train"), [mean], [std]),
        labels("train"),
        standardise(images("test"), [mean], [std]),
        labels("test"),
        num_classes=EMNIST_SPLITS[split],
    )
