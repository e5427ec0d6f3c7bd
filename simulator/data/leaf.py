"""LEAF json, as its preprocess.sh writes it: FEMNIST by writer and Shakespeare by role."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simulator.data.letters import ALPHABET, encode
from simulator.data.samples import Array, Dataset, reading
from simulator.errors import UserError

SEQUENCE = 80


def load_femnist(folder: Path) -> Dataset:
    """Grey values in [0, 1] on white, taken to [-1, 1]."""
    return _load("femnist", folder, _femnist_samples, num_classes=62)


def load_shakespeare_leaf(folder: Path) -> Dataset:
    return _load("shakespeare-leaf", folder, _text_samples, num_classes=len(ALPHABET))


def _femnist_samples(x: list[Any], y: list[Any]) -> tuple[Array, Array]:
    images = np.asarray(x, np.float32).reshape(-1, 1, 28, 28)
    return images * 2 - 1, np.asarray(y, np.int64)


def _text_samples(x: list[Any], y: list[Any]) -> tuple[Array, Array]:
    text = "".join(x) + "".join(y)
    strange = sorted(set(text) - set(ALPHABET))
    if strange or any(len(line) != SEQUENCE for line in x) or any(len(char) != 1 for char in y):
        raise ValueError(
            f"x must be strings of {SEQUENCE} characters and y single ones, "
            f"of LEAF's alphabet (strange: {strange})"
        )
    codes = encode(text)
    return codes[: len(x) * SEQUENCE].reshape(-1, SEQUENCE), codes[len(x) * SEQUENCE :]


def _load(
    name: str,
    folder: Path,
    samples: Callable[[list[Any], list[Any]], tuple[Array, Array]],
    num_classes: int,
) -> Dataset:
    train = _read_users(folder / "train", samples)
    test = _read_users(folder / "test", samples)
    users = tuple(sorted(train))
    sizes = [len(train[user][1]) for user in users]
    return Dataset(
        name,
        *_join([train[user] for user in users]),
        *_join([test[user] for user in sorted(test)]),
        num_classes=num_classes,
        owner=np.repeat(np.arange(len(users), dtype=np.int64), sizes),
        owner_names=users,
    )


def _read_users(
    folder: Path, samples: Callable[[list[Any], list[Any]], tuple[Array, Array]]
) -> dict[str, tuple[Array, Array]]:
    users: dict[str, tuple[Array, Array]] = {}
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise UserError(f"{folder} holds no .json file; put LEAF's {folder.name}/*.json there")
    for path in paths:
        with reading(path):
            for user, data in json.loads(path.read_text())["user_data"].items():
                x, y = samples(data["x"], data["y"])
                if user in users or len(x) != len(y):
                    raise ValueError(f"user {user!r}: {len(x)} x, {len(y)} y, or listed twice")
                if len(y):
                    users[user] = x, y
    return users


def _join(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
