"""Generators are those of numpy's SeedSequence, whose words never change."""

import numpy as np
import pytest

from simulator.rng import Stream, generator


@pytest.mark.parametrize(
    "seed", [0, 1, 2**32 - 1, 2**32, 2**63 + 5, 2**128 - 1, 2**128, 2**200 + 7]
)
@pytest.mark.parametrize("key", [(0, 0, 0), (4, 99_999, 3), (9, 2**32 - 1, 2**32 - 1)])
def test_a_generator_is_that_of_its_seed_and_key(seed, key):
    stream, node, count = key
    truth = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))
    ours = generator(seed, Stream(stream), node, count)
    assert ours.bit_generator.state == truth.state
