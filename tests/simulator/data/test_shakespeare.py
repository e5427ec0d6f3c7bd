from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.data.dataset import load
from simulator.data.letters import encode
from simulator.data.shakespeare import roles_of, windows
from simulator.errors import UserError

PLAY = """A PLAY

PERSONS REPRESENTED

KING HAL, of nowhere.
QUEEN ANNE.
Her servants.

ACT I.

SCENE I. A room. [Enter all.]

[Enter the KING.]

KING HAL.
First line,
second line. [Aside.] Third.

[Exit a dog.]

He goes on.

Ber.
Who's there?

1 Clown.
Me.

QUEEN ANNE [Sings.]
A song.

SCENE II. Another room.

This belongs to nobody.

KING HAL.
Again.
"""


def test_roles() -> None:
    assert roles_of(PLAY) == {
        "KING HAL": "First line,\nsecond line.  Third.\nHe goes on.\nAgain.",
        "Ber": "Who's there?",
        "1 Clown": "Me.",
        "QUEEN ANNE": "A song.",
    }


def test_windows_start_every_five_characters() -> None:
    x, y = windows(np.arange(91))
    assert x.shape == (3, 80)
    assert x[:, 0].tolist() == [0, 5, 10]
    assert y.tolist() == [80, 85, 90]
    assert len(windows(np.arange(80))[1]) == 0


def test_split_by_role(tmp_path: Path) -> None:
    folder = tmp_path / "shakespeare"
    folder.mkdir()
    long, short = "abcdefghi " * 50, "x" * 159
    (folder / "one_gut.txt").write_text(f"ACT I.\n\nHAL.\n{long}\n\nANNE.\n{short}\n")
    (folder / "two_gut.txt").write_text(f"ACT I.\n\nHAL.\n{long}\n")
    data = load("shakespeare", tmp_path)
    assert data.owner_names == ("one: HAL", "two: HAL")
    # 499 characters (the last space is stripped): 400 for training, 99 for testing.
    assert data.owner is not None
    assert np.bincount(data.owner).tolist() == [64, 64]
    assert len(data.y_test) == 2 * 4
    np.testing.assert_array_equal(data.x_train[0], encode(long[:80]))
    assert data.y_train[0] == encode("a")[0]


def test_folder_without_plays(tmp_path: Path) -> None:
    (tmp_path / "shakespeare").mkdir()
    with pytest.raises(UserError, match="shakespeare holds no play"):
        load("shakespeare", tmp_path)
