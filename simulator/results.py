"""Reading a finished run back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from simulator.errors import UserError
from simulator.parts import BYTE_KINDS
from simulator.recorder import ENERGY, EVENTS, METRICS, SCENARIO, SUMMARY, TRANSFERS

if TYPE_CHECKING:
    import pandas as pd

    from simulator.scenario import Scenario

_NEEDED = (
    "algorithm", "seed", "devices", "gateways", "sim_time_s", "wall_time_s", "epochs", "events",
    "stop_reason", "final_accuracy", "final_loss", "best_accuracy", "best_loss", "target",
    "time_to_target_s", *(f"bytes_{kind}" for kind in BYTE_KINDS),
)  # fmt: skip


@dataclass(frozen=True)
class Milestone:
    """Where a run stood when it first reached a target."""

    sim_time_s: float
    epoch: int
    total_bytes: int


@dataclass(frozen=True)
class Results:
    """A finished run. Tables are pandas frames, read when they are first asked for."""

    folder: Path
    summary: dict[str, Any]
    """What ``summary.json`` holds: the numbers that matter, by name."""
    _temporary: TemporaryDirectory[str] | None = field(default=None, repr=False, compare=False)
    """Around the folder of a run that nobody wanted to keep; it goes when the results go."""

    @classmethod
    def load(cls, folder: Path | str) -> Results:
        """Of the run in that folder."""
        return cls(Path(folder), read_summary(Path(folder)))

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def scenario(self) -> Scenario:
        """As it was resolved, every default included; it can be run again."""
        from simulator.scenario import Scenario

        return Scenario.load(self.folder / SCENARIO)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Evaluations and rounds by ``tier``: accuracy, loss and bytes over simulated time."""
        sent = [f"bytes_{kind}" for kind in BYTE_KINDS]
        needed = ["sim_time_s", "tier", "epoch", "accuracy", "loss", *sent]
        return _read(self.folder / METRICS, needed)

    @cached_property
    def transfers(self) -> pd.DataFrame:
        """Every transfer: from, to, kind, bytes, start, end, status."""
        return _read(self.folder / TRANSFERS, ["src", "dst", "kind", "bytes", "start_s", "end_s"])

    @cached_property
    def energy(self) -> pd.DataFrame:
        """What each device has used; empty where nobody measured it (all networks but ns-3)."""
        import pandas as pd

        columns = ["device", "class", "radio_j", "processor_j"]
        path = self.folder / ENERGY
        return _read(path, columns) if path.exists() else pd.DataFrame(columns=columns)

    @cached_property
    def events(self) -> pd.DataFrame:
        """The event log, a row for each line, in order; fields that an event has not are missing.

        ``event`` is how a transfer ended (arrived, lost, in-flight), or trained, alarm, record.
        """
        from simulator.event_table import read_events

        return read_events(self.folder / EVENTS)

    @property
    def curve(self) -> pd.DataFrame:
        """The evaluations of the global model, in order of time."""
        return self.metrics[self.metrics["tier"] == "cloud"]

    @property
    def scored_gateways(self) -> list[str]:
        """Whose own models were evaluated."""
        own = self.metrics[(self.metrics["tier"] == "gateway") & self.metrics["loss"].notna()]
        return sorted(own["node"].unique())

    def gateway_curve(self, node: str) -> pd.DataFrame:
        """The evaluations of a gateway's own model, in order of time."""
        own = self.metrics[(self.metrics["tier"] == "gateway") & self.metrics["loss"].notna()]
        return own[own["node"] == node]

    @property
    def learned(self) -> bool:
        """False for a run of the network and the scheduling alone: it has no scores."""
        return bool(self.summary.get("learning") != "none")

    @property
    def is_regression(self) -> bool:
        return self.summary["final_accuracy"] is None

    def milestone(self, target: float) -> Milestone | None:
        """When accuracy first came up to ``target`` (for regression: loss down to it)."""
        if not self.learned:
            return None
        curve = self.curve
        there = curve["loss"] <= target if self.is_regression else curve["accuracy"] >= target
        if not there.any():
            return None
        row = curve[there].iloc[0]
        total = sum(int(row[f"bytes_{kind}"]) for kind in BYTE_KINDS)
        return Milestone(float(row["sim_time_s"]), int(row["epoch"]), total)


def labels(runs: list[Results]) -> list[str]:
    """The ends of their paths, as long as it takes to tell them apart."""
    paths = [run.folder.resolve().parts for run in runs]
    longest = max(map(len, paths))
    for length in range(1, longest):
        names = ["/".join(path[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(run.folder) for run in runs]


def check_target(target: float, runs: Iterable[Results]) -> None:
    """That somebody may ask for it, of these runs."""
    learned = [run for run in runs if run.learned]
    accuracy = bool(learned) and not any(run.is_regression for run in learned)
    if not 0 < target < math.inf or (accuracy and target > 1):
        bound = "at most 1, as 0.8 for 80 %" if accuracy else "finite"
        raise UserError(f"--target {target:g}: must be above 0 and {bound}")


def read_summary(folder: Path) -> dict[str, Any]:
    try:
        summary = json.loads((folder / SUMMARY).read_text())
    except FileNotFoundError:
        raise UserError(f"{folder}: holds no finished run ({SUMMARY} is missing)") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / SUMMARY}: cannot be read ({error})") from None
    found = summary if isinstance(summary, dict) else {}
    for key in _NEEDED:
        if key not in found:
            raise UserError(f"{folder / SUMMARY}: not a run's summary (no {key!r})")
    return found


def _read(path: Path, needed: list[str]) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except Exception as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    for column in needed:
        if column not in frame:
            raise UserError(f"{path}: not a run's table (no column {column!r})")
    return frame
