from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from simulator.data.dataset import load
from simulator.data.idx import read_idx
from simulator.errors import UserError


def idx(array: npt.NDArray[np.uint8]) -> bytes:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


def write_mnist(folder: Path) -> None:
    folder.mkdir()
    images = np.arange(3 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28)
    labels = np.array([3, 0, 9], np.uint8)
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))


@pytest.mark.parametrize(
    ("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)]
)
def test_plain_and_gzipped_files(tmp_path: Path, name: str, mean: float, std: float) -> None:
    write_mnist(tmp_path / name)
    data = load(name, tmp_path)
    assert data.x_train.shape == (3, 1, 28, 28)
    assert data.y_test.tolist() == [3, 0, 9]
    assert data.x_train[0, 0, 0, 5] == pytest.approx((5 / 255 - mean) / std, rel=1e-5)


def write_emnist(folder: Path, split: str, labels: list[int]) -> None:
    folder.mkdir()
    image = np.zeros((1, 28, 28), np.uint8)
    image[0, 20, 3] = 255
    images = np.repeat(image, len(labels), axis=0)
    for part in ("train", "test"):
        name = f"emnist-{split}-{part}"
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        coded = gzip.compress(idx(np.array(labels, np.uint8)))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(coded)


def test_emnist_images_are_turned_upright(tmp_path: Path) -> None:
    write_emnist(tmp_path / "emnist-balanced", "balanced", [0, 46])
    data = load("emnist-balanced", tmp_path)
    assert data.num_classes == 47
    assert np.unravel_index(data.x_train[0, 0].argmax(), (28, 28)) == (3, 20)


def test_emnist_letters_count_from_one(tmp_path: Path) -> None:
    write_emnist(tmp_path / "emnist-letters", "letters", [1, 26])
    assert load("emnist-letters", tmp_path).y_train.tolist() == [0, 25]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "struct.error|error"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00", "starts with 0 0 8, this with .0, 0, 13."),
        (idx(np.zeros((2, 28, 28), np.uint8))[:-1], "promises .2, 28, 28., but 1567 bytes follow"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{path}.*({message})"):
        read_idx(path)


@pytest.mark.parametrize(
    "content",
    [gzip.compress(idx(np.zeros(5000, np.uint8)), mtime=0)[:-9], b"garbage"],
    ids=["cut", "garbage"],
)
def test_broken_gzip_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{path} cannot be read"):
        read_idx(tmp_path / "train-labels-idx1-ubyte")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"labels-idx1-ubyte\.gz is missing"):
        read_idx(tmp_path / "labels-idx1-ubyte")
