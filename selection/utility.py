"""Learning utility of Async-HFL, §5.3, Eq. (9), from a Gram matrix that is kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator.units import NodeId


def _nothing() -> np.ndarray:
    return np.zeros((0, 0))


@dataclass
class LearningUtility:
    """Latest vectors of a fixed list of devices: gradients, or sketches with their dot products.

    A device without a vector yet has no utility (nan) and does not count in N. All state is plain
    data, to be saved with the algorithm that holds it.
    """

    devices: list[NodeId]
    place: dict[NodeId, int] = field(init=False)
    vectors: np.ndarray = field(init=False, default_factory=_nothing)
    gram: np.ndarray = field(init=False)
    is_known: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.devices)
        self.place = {device: i for i, device in enumerate(self.devices)}
        self.gram = np.zeros((count, count))
        self.is_known = np.zeros(count, dtype=bool)

    def update(self, device: NodeId, vector: np.ndarray) -> None:
        """A device's new vector: one row and one column of the Gram matrix change."""
        if not self.is_known.any():
            self.vectors = np.zeros((len(self.devices), len(vector)), vector.dtype)
        i = self.place[device]
        self.vectors[i] = vector
        self.is_known[i] = True
        self.gram[i] = self.gram[:, i] = self.vectors @ self.vectors[i]

    def knows(self, device: NodeId) -> bool:
        return bool(self.is_known[self.place[device]])

    def gram_of(self, devices: Sequence[NodeId]) -> np.ndarray:
        """Dot products of these devices' vectors."""
        places = np.array([self.place[d] for d in devices], dtype=int)
        gram: np.ndarray = self.gram[np.ix_(places, places)]
        return gram

    def utilities(self, devices: Sequence[NodeId] | None = None) -> np.ndarray:
        """u of each of ``devices``, which are the N of Eq. (9): all, or a gateway's candidates."""
        if devices is None:
            gram, known = self.gram, self.is_known
        else:
            places = np.array([self.place[d] for d in devices], dtype=int)
            gram, known = self.gram[np.ix_(places, places)], self.is_known[places]
        n = int(known.sum())
        sums = gram.sum(axis=1)  # those unknown are zero vectors
        eta = sums / max(n, 1)  # Eq. (9b)
        nu = -(sums - gram.diagonal()) / max(n - 1, 1)  # Eq. (9c)
        return np.where(known, eta + nu, np.nan)  # Eq. (9a)
