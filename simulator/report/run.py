"""A finished run as a report needs it: its tables, and what is derived from them, once each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from simulator.errors import UserError
from simulator.parts import BYTE_KINDS
from simulator.recorder import EVENTS, SCENARIO
from simulator.report.activity import NO_TIME, partners, spans, visits
from simulator.results import Results
from simulator.units import SECOND
from topologies import Topology, TopologySection, load_topology

_TOPOLOGY: TypeAdapter[Any] = TypeAdapter(TopologySection)


@dataclass(frozen=True)
class Run:
    """A finished run and its tables; times of transfers in nanoseconds too, as the events' are."""

    results: Results

    @property
    def summary(self) -> dict[str, Any]:
        return self.results.summary

    @property
    def seed(self) -> int:
        return int(self.summary["seed"])

    @property
    def folder(self) -> Path:
        return self.results.folder

    @cached_property
    def scenario_text(self) -> str:
        try:
            return (self.folder / SCENARIO).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.folder / SCENARIO}: cannot be read ({error})") from None

    @cached_property
    def scenario(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.scenario_text)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{self.folder / SCENARIO}: not a TOML file: {error}") from None

    @cached_property
    def curve(self) -> pd.DataFrame:
        """Evaluations of the global model, with ``bytes_total``."""
        curve = self.results.curve
        return curve.assign(bytes_total=curve[[f"bytes_{kind}" for kind in BYTE_KINDS]].sum(axis=1))

    @cached_property
    def transfers(self) -> pd.DataFrame:
        table = self.results.transfers
        return table.assign(start=_ns(table["start_s"]), end=_ns(table["end_s"]))

    @cached_property
    def trained(self) -> pd.DataFrame:
        """Ends of training: ``node`` and ``time`` in nanoseconds, in order."""
        times, nodes = [], []
        try:
            with (self.folder / EVENTS).open(encoding="utf-8") as log:
                for line in log:
                    if "\ttrained\t" in line:
                        time, _, told = line.split("\t", 2)
                        times.append(int(time))
                        nodes.append(told.rpartition("\t")[0])
        except (OSError, ValueError) as error:
            raise UserError(f"{self.folder / EVENTS}: cannot be read ({error})") from None
        return pd.DataFrame({"node": pd.Series(nodes, dtype="str"), "time": np.array(times, "i8")})

    @property
    def end(self) -> int:
        """Nanoseconds of simulated time."""
        return round(float(self.summary["sim_time_s"]) * SECOND)

    @cached_property
    def topology(self) -> Topology | None:
        """None where the run's files do not tell any more."""
        try:
            section = _TOPOLOGY.validate_python(self.scenario["topology"])
            return load_topology(section, self.seed, self.folder)
        except (KeyError, ValidationError, UserError, OSError):
            return None

    @cached_property
    def devices(self) -> list[str]:
        """All of them if the topology is known, else those that have trained."""
        if self.topology is None:
            return sorted(set(self.trained["node"]))
        return [self.topology.nodes[node].name for node in self.topology.devices]

    @cached_property
    def gateways(self) -> list[str]:
        if self.topology is None:
            backhaul = self.transfers[self.transfers["kind"] == "backhaul"]
            return sorted(set(backhaul["src"]))
        return [self.topology.nodes[node].name for node in self.topology.gateways]

    @cached_property
    def visits(self) -> pd.DataFrame:
        """What became of each training, see ``activity.visits``."""
        return visits(self.trained, self.transfers, int(self.summary["model_bytes"]))

    @cached_property
    def spans(self) -> pd.DataFrame:
        """What each node did when, see ``activity.spans``."""
        return spans(self.visits, self.transfers, self.end)

    @cached_property
    def partners(self) -> pd.DataFrame:
        """With whom devices exchanged models, see ``activity.partners``."""
        return partners(self.transfers, self.devices)


def _ns(seconds: pd.Series) -> np.ndarray:
    known = seconds.notna().to_numpy()
    result = np.full(len(seconds), NO_TIME, np.int64)
    result[known] = np.rint(seconds.to_numpy()[known] * SECOND).astype(np.int64)
    return result
