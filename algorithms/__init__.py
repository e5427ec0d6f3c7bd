"""One paper, one file. A new algorithm joins here with one line in each of the two places."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from algorithms.fedavg import FedAvg, FedAvgSection

ALGORITHMS: dict[str, Any] = {
    "fedavg": FedAvg,
    "async-hfl": AsyncHFL,
}

AlgorithmSection = Annotated[FedAvgSection | AsyncHFLSection, Field(discriminator="name")]
"""The [algorithm] table: the union of all, told apart by ``name``."""
