"""Noise and loss of transfers, drawn in the order of sends from one saved generator."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from simulator.rng import Stream, generator
from simulator.section import Section


class NoisySection(Section):
    noise_sigma: float = Field(0.0, ge=0, le=10)
    """Log-normal noise of mean 1 on every transfer's work (or table delay); 0 is none."""
    loss_probability: float = Field(0.0, ge=0, le=1)
    """Chance that a transfer is lost; it still takes its time, and is reported at its end."""


class Noise:
    """An option that is off draws nothing."""

    def __init__(self, section: NoisySection, seed: int) -> None:
        self._sigma = section.noise_sigma
        self._loss = section.loss_probability
        self.active = self._sigma > 0 or self._loss > 0
        self._rng = generator(seed, Stream.NETWORK)

    def draw(self) -> tuple[float, bool]:
        """The next transfer's factor, and whether it is lost."""
        factor, lost = 1.0, False
        if self._sigma > 0:
            sigma = self._sigma
            factor = math.exp(sigma * self._rng.standard_normal() - sigma * sigma / 2)
        if self._loss > 0:
            lost = self._rng.random() < self._loss
        return factor, lost

    def save(self) -> dict[str, object]:
        return dict(self._rng.bit_generator.state)

    def load(self, state: Any) -> None:
        self._rng.bit_generator.state = state
