from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from simulator.data.dataset import load
from simulator.data.photos import CIFAR10_MEAN, CIFAR10_STD
from simulator.errors import UserError

BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
Bytes = npt.NDArray[np.uint8]


def cifar_batches() -> dict[str, tuple[Bytes, list[int]]]:
    """Two images [n, 32, 32, 3] a batch, and their labels."""
    rng = np.random.default_rng(0)
    return {
        name: (rng.integers(0, 256, (2, 32, 32, 3), np.uint8), [number, 9 - number])
        for number, name in enumerate(BATCHES)
    }


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, (images, labels) in cifar_batches().items():
        records = np.concatenate(
            [
                np.array(labels, np.uint8)[:, np.newaxis],
                images.transpose(0, 3, 1, 2).reshape(2, -1),
            ],
            axis=1,
        )
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_sheets(folder: Path) -> None:
    folder.mkdir(parents=True)
    batches = cifar_batches()
    for name, (images, _) in batches.items():
        Image.fromarray(images.reshape(2, 1024, 3)).save(folder / f"{name}.png")
    train = [label for name in BATCHES[:5] for label in batches[name][1]]
    (folder / "train_lables.json").write_text(json.dumps(train))
    (folder / "test_lables.json").write_text(json.dumps(batches["test_batch"][1]))


def test_both_forms_of_cifar10_give_the_same_data(tmp_path: Path) -> None:
    write_binary(tmp_path / "a" / "cifar10")
    write_sheets(tmp_path / "b" / "cifar10")
    binary, sheets = load("cifar10", tmp_path / "a"), load("cifar10", tmp_path / "b")
    assert binary.x_train.shape == (10, 3, 32, 32)
    np.testing.assert_array_equal(binary.x_train, sheets.x_train)
    np.testing.assert_array_equal(binary.x_test, sheets.x_test)
    assert binary.y_train.tolist() == sheets.y_train.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    green = cifar_batches()["data_batch_1"][0][1, 20, 7, 1]
    expected = (green / 255 - CIFAR10_MEAN[1]) / CIFAR10_STD[1]
    assert binary.x_train[1, 1, 20, 7] == pytest.approx(expected, rel=1e-5)


def test_truncated_binary_batch_is_named(tmp_path: Path) -> None:
    write_binary(tmp_path / "cifar10")
    path = tmp_path / "cifar10" / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"data_batch_4\.bin.*6145 bytes are not whole records"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize("keep", [0, 30, 2000])
def test_broken_sheet_is_named(tmp_path: Path, keep: int) -> None:
    write_sheets(tmp_path / "cifar10")
    path = tmp_path / "cifar10" / "data_batch_2.png"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"data_batch_2\.png cannot be read"):
        load("cifar10", tmp_path)


def test_missing_labels_are_named(tmp_path: Path) -> None:
    write_sheets(tmp_path / "cifar10")
    (tmp_path / "cifar10" / "test_lables.json").unlink()
    with pytest.raises(UserError, match=r"test_lables\.json is missing"):
        load("cifar10", tmp_path)


def write_cinic(folder: Path) -> None:
    for part, label, shade in [
        ("train", "cat", 0),
        ("train", "airplane", 255),
        ("valid", "dog", 7),
        ("test", "truck", 255),
    ]:
        place = folder / part / label
        place.mkdir(parents=True)
        Image.new("RGB", (32, 32), (shade, 0, 0)).save(place / "1.png")


def test_cinic10_folder_and_official_tar_give_the_same_data(tmp_path: Path) -> None:
    write_cinic(tmp_path / "a" / "cinic10")
    (tmp_path / "b" / "cinic10").mkdir(parents=True)
    with tarfile.open(tmp_path / "b" / "cinic10" / "CINIC-10.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "a" / "cinic10", ".")
    folder, archive = load("cinic10", tmp_path / "a"), load("cinic10", tmp_path / "b")
    assert folder.y_train.tolist() == archive.y_train.tolist() == [0, 3]
    assert folder.y_test.tolist() == [9]
    np.testing.assert_array_equal(folder.x_train, archive.x_train)
    assert folder.x_train[0, 0, 0, 0] > folder.x_train[1, 0, 0, 0]


def test_cinic10_image_of_wrong_size_is_named(tmp_path: Path) -> None:
    write_cinic(tmp_path / "cinic10")
    Image.new("RGB", (8, 8)).save(tmp_path / "cinic10/train/cat/2.png")
    with pytest.raises(UserError, match=r"train/cat/2\.png.*\(8, 8\), not 32 x 32"):
        load("cinic10", tmp_path)


def test_truncated_cinic10_tar_is_named(tmp_path: Path) -> None:
    write_cinic(tmp_path / "a")
    archive = tmp_path / "cinic10" / "CINIC-10.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "a", ".")
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(UserError, match=r"CINIC-10\.tar\.gz cannot be read"):
        load("cinic10", tmp_path)


def test_empty_cinic10_folder(tmp_path: Path) -> None:
    (tmp_path / "cinic10").mkdir()
    with pytest.raises(UserError, match=r"train holds no CLASS/\*\.png"):
        load("cinic10", tmp_path)
