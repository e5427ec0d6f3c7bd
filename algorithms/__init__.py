"""One paper, one file. A new algorithm joins here with one line in each of the two places."""

from __future__ import annotations

from typing import Any

from algorithms.fedavg import FedAvg, FedAvgSection

ALGORITHMS: dict[str, Any] = {
    "fedavg": FedAvg,
}

AlgorithmSection = FedAvgSection
"""The [algorithm] table: the union of all, told apart by ``name``."""
