"""Samples in memory: what every loader returns, checked once."""

from __future__ import annotations

import lzma
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.errors import UserError

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

TEST_SHARE = 5
"""Where a data set brings no test part of its own, one in this many samples is for testing."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples.

    x: float32 images [n, channels, h, w], series [n, time, features] or vectors [n, features];
    or int64 characters [n, length]. y: int64 class labels [n], or float32 [n, targets].
    """

    name: str
    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    num_classes: int | None
    """None: regression."""
    owner: Ints | None = None
    """Natural owner of each training sample (subject, writer, role, station)."""
    owner_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self)


def check(data: Dataset) -> None:
    """Raise a UserError where shapes, types or values are not as ``Dataset`` promises."""
    _check_part(data, "training", data.x_train, data.y_train)
    _check_part(data, "test", data.x_test, data.y_test)
    if data.x_train.shape[1:] != data.x_test.shape[1:]:
        raise _broken(data, f"training x {data.x_train.shape} and test x {data.x_test.shape}")
    if data.class_names and len(data.class_names) != data.num_classes:
        raise _broken(data, f"{len(data.class_names)} class names, {data.num_classes} classes")
    owner, owners = data.owner, len(data.owner_names)
    if owner is None:
        return
    if owner.shape != (len(data.y_train),) or owner.dtype != np.int64:
        raise _broken(data, f"owner is {owner.dtype} {owner.shape}, x is {data.x_train.shape}")
    if owner.min() < 0 or owner.max() >= owners:
        raise _broken(data, f"owners {owner.min()} to {owner.max()}, but {owners} owner names")


def _check_part(data: Dataset, part: str, x: Array, y: Array) -> None:
    if len(x) == 0 or len(x) != len(y):
        raise _broken(data, f"{len(x)} {part} samples with {len(y)} labels")
    if x.ndim < 2 or x.dtype not in (np.float32, np.int64):
        raise _broken(data, f"{part} x is {x.dtype} {x.shape}")
    if not np.isfinite(x).all():
        raise _broken(data, f"{part} x holds values that are not finite")
    if data.num_classes is None:
        if y.ndim != 2 or y.dtype != np.float32 or not np.isfinite(y).all():
            raise _broken(data, f"{part} y is {y.dtype} {y.shape} or not finite")
    elif y.ndim != 1 or y.dtype != np.int64:
        raise _broken(data, f"{part} y is {y.dtype} {y.shape}")
    elif y.min() < 0 or y.max() >= data.num_classes:
        raise _broken(data, f"{part} labels {y.min()} to {y.max()}, but {data.num_classes} classes")


def _broken(data: Dataset, what: str) -> UserError:
    return UserError(f"data set {data.name!r} is not usable: {what}; fetch it again")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong while a file is read becomes a UserError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; fetch the data set again") from error
    except (
        OSError,
        EOFError,
        LookupError,
        RecursionError,
        SyntaxError,  # Pillow's for a broken PNG
        TypeError,
        ValueError,
        UnpicklingError,
        lzma.LZMAError,
        struct.error,
        tarfile.TarError,
        zlib.error,
    ) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(
            f"{path} cannot be read ({reason}); delete it and fetch the data set again"
        ) from error


def standardise(images: Bytes, mean: Sequence[float], std: Sequence[float]) -> Floats:
    """Bytes [n, channels, h, w] to (x / 255 - mean) / std per channel."""
    x = images.astype(np.float32)
    x /= 255
    x -= np.asarray(mean, np.float32).reshape(-1, 1, 1)
    x /= np.asarray(std, np.float32).reshape(-1, 1, 1)
    return x


def scale(train: Array, test: Array) -> tuple[Floats, Floats]:
    """Both parts with mean 0 and deviation 1 per feature (last axis) of the training part."""
    axes = tuple(range(train.ndim - 1))
    mean, std = train.mean(axes), train.std(axes)
    std = np.where(std > 0, std, 1)
    return ((train - mean) / std).astype(np.float32), ((test - mean) / std).astype(np.float32)


def tail_split(keys: Array, gap: int = 0) -> tuple[Ints, Ints]:
    """Indices for training and testing: the last fifth of the samples of each key, in order.

    ``gap`` samples before a test part go into neither: they overlap it.
    """
    train, test = [], []
    for key in np.unique(keys):
        own = np.flatnonzero(keys == key)
        first = len(own) - len(own) // TEST_SHARE
        train.append(own[: first - gap] if first < len(own) else own)
        test.append(own[first:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
