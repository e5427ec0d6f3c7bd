"""Every random number of a run comes from here, so a run is a function of its seed."""

from __future__ import annotations

from enum import IntEnum

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
    key = (int(stream), node, count)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
