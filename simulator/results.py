"""Reading a finished run back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.errors import UserError
from simulator.kernel import BYTE_KINDS
from simulator.recorder import METRICS, SUMMARY, TRANSFERS


@dataclass(frozen=True)
class Milestone:
    """Where a run stood when it first reached a target."""

    sim_time_s: float
    epoch: int
    total_bytes: int


@dataclass(frozen=True)
class Results:
    folder: Path
    summary: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Results:
        return cls(folder, read_summary(folder))

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def metrics(self) -> pd.DataFrame:
        return _read(self.folder / METRICS)

    @cached_property
    def transfers(self) -> pd.DataFrame:
        return _read(self.folder / TRANSFERS)

    @property
    def curve(self) -> pd.DataFrame:
        """The evaluations of the global model, in order of time."""
        return self.metrics[self.metrics["tier"] == "cloud"]

    @property
    def is_regression(self) -> bool:
        return self.summary["final_accuracy"] is None

    def milestone(self, target: float) -> Milestone | None:
        """When accuracy first came up to ``target`` (for regression: loss down to it)."""
        curve = self.curve
        there = curve["loss"] <= target if self.is_regression else curve["accuracy"] >= target
        if not there.any():
            return None
        row = curve[there].iloc[0]
        total = sum(int(row[f"bytes_{kind}"]) for kind in BYTE_KINDS)
        return Milestone(float(row["sim_time_s"]), int(row["epoch"]), total)


def read_summary(folder: Path) -> dict[str, Any]:
    try:
        summary: dict[str, Any] = json.loads((folder / SUMMARY).read_text())
    except FileNotFoundError:
        raise UserError(f"{folder}: holds no finished run ({SUMMARY} is missing)") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / SUMMARY}: cannot be read ({error})") from None
    return summary


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except Exception as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
