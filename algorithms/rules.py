"""Aggregation rules: pure functions of models and numbers, all state with the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def weighted_mean(models: Iterable[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """Added up in the order given, one at a time, so that models may be computed on the way."""
    total = sum(weights)
    mean: torch.Tensor | None = None
    for model, weight in zip(models, weights, strict=True):
        mean = model.new_zeros(len(model)) if mean is None else mean
        mean.add_(model, alpha=weight / total)
    assert mean is not None
    return mean


def mix(old: torch.Tensor, new: torch.Tensor, weight: float) -> torch.Tensor:
    """A step of ``weight`` from the old model towards the new one."""
    return old.lerp(new, weight)


def polynomial_staleness(staleness: float, q: float) -> float:
    """FedAsync (Xie et al., 2019): s(x) = (x + 1)^-q."""
    return float((staleness + 1) ** -q)


def hinge_staleness(staleness: float, a: float, b: float) -> float:
    """FedAsync (Xie et al., 2019): full weight up to b, then hyperbolic."""
    return 1.0 if staleness <= b else 1 / (a * (staleness - b) + 1)
