"""The little statistics of a report: intervals over a few seeds, ratios of pairs, fairness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    mean: float
    half: float
    """Half the width of its 95 % interval (Student's t); nan for a single value."""
    number: int
    """Of the values."""

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half


def estimate(values: Sequence[float]) -> Estimate:
    """Of what the values, one for each seed, are a sample; those that are nan do not count."""
    known = np.array([value for value in values if np.isfinite(value)], float)
    if not len(known):
        return Estimate(np.nan, np.nan, 0)
    return Estimate(float(known.mean()), _half(known), len(known))


def _half(values: np.ndarray) -> float:
    if len(values) < 2:
        return np.nan
    quantile = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)
    return float(quantile * values.std(ddof=1) / np.sqrt(len(values)))


def ratio(values: Sequence[float], references: Sequence[float]) -> Estimate:
    """Mean by mean, of pairs of the same seed; the interval is the ratio estimator's.

    (Cochran, Sampling Techniques, 1977, §6.4: s² of y - r x, divided by the mean of x.)
    """
    pairs = np.array(
        [pair for pair in zip(values, references, strict=True) if np.isfinite(pair).all()], float
    )
    if not len(pairs) or not pairs[:, 1].mean():
        return Estimate(np.nan, np.nan, 0)
    y, x = pairs.T
    r = float(y.mean() / x.mean())
    half = _half(y - r * x) / x.mean()
    return Estimate(r, float(half), len(pairs))


def jain(counts: Sequence[float]) -> float:
    """Jain's index: 1 where all have the same, 1/n where one has all."""
    values = np.array(counts, float)
    total = float((values**2).sum()) * len(values)
    return float(values.sum() ** 2 / total) if total else np.nan


def thinned(count: int, most: int) -> np.ndarray:
    """Which of ``count`` points to draw: all, or ``most`` of them evenly, the ends included."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(int))
