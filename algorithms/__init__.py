"""One paper, one file. A new algorithm joins here with one line in each of the two places."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from algorithms.fedasync import FedAsync, FedAsyncSection
from algorithms.fedavg import FedAvg, FedAvgSection

ALGORITHMS: dict[str, Any] = {
    "fedavg": FedAvg,
    "async-hfl": AsyncHFL,
    "fedasync": FedAsync,
}

AlgorithmSection = Annotated[
    FedAvgSection | AsyncHFLSection | FedAsyncSection, Field(discriminator="name")
]
"""The [algorithm] table: the union of all, told apart by ``name``."""
