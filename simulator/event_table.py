"""The event log as a table."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd

from simulator.errors import UserError
from simulator.units import SECOND

_TRANSFER = ("flow", "src", "dst", "kind", "bytes", "start_s", "reason")
"""What follows time and event in the line of a transfer that has ended."""
_TEXTS = ("alarm", "record")
_COUNTS = ("flow", "bytes", "steps")


def read_events(path: Path) -> pd.DataFrame:
    """A row for each line, in order; what an event has not is missing."""
    fields = [f"field {i}" for i in range(len(_TRANSFER))]
    try:
        lines = pd.read_csv(
            path, sep="\t", names=["time", "event", *fields], quoting=csv.QUOTE_NONE,
            dtype={"time": "int64", "event": "str"} | dict.fromkeys(fields, "str"),
            keep_default_na=False,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    table = lines[["event"]].copy()
    table.insert(0, "sim_time_s", lines["time"] / SECOND)
    trained, texts = lines["event"] == "trained", lines["event"].isin(_TEXTS)
    for name, values in zip(_TRANSFER, fields, strict=True):
        table[name] = lines[values].mask(trained | texts)
    table["node"] = lines[fields[0]].where(trained)
    table["steps"] = lines[fields[1]].where(trained)
    table["text"] = lines[fields[0]].where(texts)
    for name in _COUNTS:
        table[name] = pd.to_numeric(table[name]).astype("Int64")
    table["start_s"] = pd.to_numeric(table["start_s"]) / SECOND
    return table
