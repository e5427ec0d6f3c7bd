"""How the weight of an update falls with its staleness: the ``staleness`` table of a scenario.

Xie et al., *Asynchronous Federated Optimization*, 2019. What counts as staleness, and from
which number on, is for each algorithm to say.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from algorithms.rules import hinge_staleness, polynomial_staleness
from simulator.section import Section


class ConstantStaleness(Section):
    kind: Literal["constant"] = "constant"

    def weight(self, staleness: int) -> float:
        return 1.0


class PolynomialStaleness(Section):
    kind: Literal["polynomial"] = "polynomial"
    q: float = Field(0.5, gt=0)
    """Exponent: s(x) = (x + 1)^-q."""

    def weight(self, staleness: int) -> float:
        return polynomial_staleness(staleness, self.q)


class HingeStaleness(Section):
    kind: Literal["hinge"] = "hinge"
    a: float = Field(10.0, gt=0)
    """Slope: s(x) = 1 / (a (x - b) + 1) for x > b, else 1."""
    b: float = Field(4.0, ge=0)
    """Staleness up to which an update counts in full."""

    def weight(self, staleness: int) -> float:
        return hinge_staleness(staleness, self.a, self.b)


Staleness = Annotated[
    ConstantStaleness | PolynomialStaleness | HingeStaleness, Field(discriminator="kind")
]
