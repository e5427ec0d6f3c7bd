"""Characters as numbers, in the alphabet of LEAF's Shakespeare."""

from __future__ import annotations

import numpy as np

from simulator.data.samples import Ints

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"

_CODES = np.full(256, ALPHABET.index(" "), np.int64)
_CODES[list(ALPHABET.encode())] = np.arange(len(ALPHABET))


def encode(text: str) -> Ints:
    """Index of each character in the alphabet; a character outside it counts as a space."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return _CODES[np.minimum(points, 255)]
