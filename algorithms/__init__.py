"""One paper, one file. A new algorithm joins here with one line in each of the two places."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from algorithms.fedasync import FedAsync, FedAsyncSection
from algorithms.fedavg import FedAvgSection, fedavg
from algorithms.rfl_ha import RflHaSection, rfl_ha
from algorithms.semi_async import SemiAsyncSection, semi_async
from algorithms.star_ring_hfl import StarRing, StarRingSection
from algorithms.sync_time_hfl import SyncTimeSection, sync_time_hfl
from algorithms.two_level import TwoLevelSection, two_level

ALGORITHMS: dict[str, Any] = {
    "fedavg": fedavg,
    "async-hfl": AsyncHFL,
    "fedasync": FedAsync,
    "rfl-ha": rfl_ha,
    "semi-async": semi_async,
    "sync-time": sync_time_hfl,
    "two-level": two_level,
    "hga-fl": two_level,
    "star-ring-hfl": StarRing,
}

AlgorithmSection = Annotated[
    FedAvgSection
    | AsyncHFLSection
    | FedAsyncSection
    | RflHaSection
    | SemiAsyncSection
    | SyncTimeSection
    | TwoLevelSection
    | StarRingSection,
    Field(discriminator="name"),
]
"""The [algorithm] table: the union of all, told apart by ``name``."""
