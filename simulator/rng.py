"""Every random number of a run comes from here, so a run is a function of its seed."""

from __future__ import annotations

from enum import IntEnum
from functools import cache

import numpy as np


class Stream(IntEnum):
    """What a generator is for. The numbers are part of every recorded run: never renumber."""

    DATA = 0
    PARTITION = 1
    MODEL = 2
    TRAIN = 3
    COMPUTE = 4
    NETWORK = 5
    SELECTION = 6
    ASSOCIATION = 7
    TOPOLOGY = 8
    SKETCH = 9
    ORDER = 10


def generator(seed: int, stream: Stream, node: int = 0, count: int = 0) -> np.random.Generator:
    """A fresh generator, independent of every other (stream, node, count) of the same seed."""
    # The words that SeedSequence(seed, spawn_key=(stream, node, count)) finds, but more slowly.
    words = np.array([*_seed_words(seed), int(stream), node, count], np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


@cache
def _seed_words(seed: int) -> list[int]:
    """Of 32 bits each, the lowest first, and at least four."""
    count = max(4, -(-seed.bit_length() // 32))
    return [seed >> 32 * i & 0xFFFFFFFF for i in range(count)]
