from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.data.dataset import load
from simulator.data.letters import ALPHABET, encode
from simulator.errors import UserError


def write(folder: Path, part: str, users: dict[str, Any], file: str = "all_data_0.json") -> None:
    (folder / part).mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(users),
        "num_samples": [len(data["y"]) for data in users.values()],
        "user_data": users,
    }
    (folder / part / file).write_text(json.dumps(content))


def test_femnist_by_writer(tmp_path: Path) -> None:
    folder = tmp_path / "femnist"
    white, black = [1.0] * 784, [0.0] * 784
    write(folder, "train", {"f02": {"x": [white, black], "y": [61, 0]}})
    write(folder, "train", {"f01": {"x": [black], "y": [5]}}, "all_data_1.json")
    write(folder, "test", {"f01": {"x": [white], "y": [7]}})
    data = load("femnist", tmp_path)
    assert data.x_train.shape == (3, 1, 28, 28)
    assert data.owner_names == ("f01", "f02")
    assert data.owner is not None
    assert data.owner.tolist() == [0, 1, 1]
    assert data.y_train.tolist() == [5, 61, 0]
    assert data.x_train[:, 0, 0, 0].tolist() == [-1, 1, -1]


def test_shakespeare_by_role(tmp_path: Path) -> None:
    folder = tmp_path / "shakespeare-leaf"
    line = "To be, or not to be".ljust(80)
    write(folder, "train", {"HAMLET": {"x": [line], "y": ["t"]}})
    write(folder, "test", {"HAMLET": {"x": [line], "y": ["\n"]}})
    data = load("shakespeare-leaf", tmp_path)
    assert "".join(ALPHABET[code] for code in data.x_train[0]) == line
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([ALPHABET.index("t")], [0])
    assert data.num_classes == 80


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "JSONDecodeError"),
        ("{}", "user_data"),
        ('{"user_data": {"a": {"x": ["short"], "y": ["b"]}}}', "strings of 80 characters"),
        (json.dumps({"user_data": {"a": {"x": ["é" * 80], "y": ["b"]}}}), "strange: .'é'"),
        (json.dumps({"user_data": {"a": {"x": ["e" * 80], "y": []}}}), "'a': 1 x, 0 y"),
    ],
)
def test_broken_json_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "shakespeare-leaf" / "train" / "data.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(UserError, match=f"{path} cannot be read .*{message}"):
        load("shakespeare-leaf", tmp_path)


def test_empty_folder_says_what_belongs_there(tmp_path: Path) -> None:
    (tmp_path / "femnist").mkdir()
    with pytest.raises(UserError, match=r"train holds no \.json file; put LEAF's train/"):
        load("femnist", tmp_path)


def test_encode_takes_strange_characters_for_spaces() -> None:
    assert len(ALPHABET) == 80
    np.testing.assert_array_equal(encode(ALPHABET), np.arange(80))
    assert encode("é@Ω😀").tolist() == [1, 1, 1, 1]
