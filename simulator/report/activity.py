"""What devices and gateways did when, from a run's transfers and its log of trainings.

The log says when a training ended. It began when the model arrived that it started from: the last
one before, for a newer model drops the job (a whole model of the warm-up counts as overhead).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

NO_TIME: int = np.iinfo(np.int64).min
"""In place of the end of a transfer that was still under way."""
TRAINS, RECEIVES, SENDS, WAITS = "trains", "receives", "sends", "waits"
_TO_DEVICES = ("down", "peer")


def visits(trained: pd.DataFrame, transfers: pd.DataFrame, model_bytes: int) -> pd.DataFrame:
    """A row for each finished training: times in nanoseconds, or NO_TIME where there is none.

    ``device``, ``giver`` and ``taker`` of the models; ``asked`` (its way began), ``begin``,
    ``trained``, ``answered`` (the answer arrived), ``up_bytes``.
    """
    trained = trained.rename(columns={"node": "device", "time": "trained"})
    orders = _orders(transfers, set(trained["device"]), model_bytes)
    found = pd.merge_asof(
        trained, orders, left_on="trained", right_on="begin", by="device", direction="backward"
    )
    found = found.merge(_answers(transfers), on=["device", "trained"], how="left")
    for column in ("asked", "begin", "answered", "up_bytes"):
        missing = 0 if column == "up_bytes" else NO_TIME
        found[column] = found[column].astype("Int64").fillna(missing).astype("int64")
    return found


def _orders(table: pd.DataFrame, trainers: set[str], model_bytes: int) -> pd.DataFrame:
    """Models that arrived at those who train."""
    whole = (table["kind"] == "overhead") & (table["bytes"] == model_bytes)
    models = table["kind"].isin(_TO_DEVICES) | whole
    there = (table["status"] == "arrived") & table["dst"].isin(trainers)
    columns = {"dst": "device", "src": "giver", "start": "asked", "end": "begin"}
    found: pd.DataFrame = table.loc[models & there, list(columns)].rename(columns=columns)
    return found.sort_values("begin", kind="stable").reset_index(drop=True)


def _answers(transfers: pd.DataFrame) -> pd.DataFrame:
    """What devices sent at the moment their training ended: the largest of it."""
    columns = {
        "src": "device", "start": "trained", "dst": "taker", "end": "answered",
        "bytes": "up_bytes", "status": "status",
    }  # fmt: skip
    sent = transfers[list(columns)].rename(columns=columns)
    sent.loc[sent["status"] != "arrived", "answered"] = NO_TIME
    sent = sent.sort_values("up_bytes", kind="stable").drop(columns="status")
    return sent.drop_duplicates(["device", "trained"], keep="last")


def spans(trainings: pd.DataFrame, table: pd.DataFrame, end: int) -> pd.DataFrame:
    """``node``, ``what``, ``other``, ``kind``, ``bytes``, ``status``, ``start``, ``end``, by start.

    A transfer is a span of both its ends; what was still under way ends with the run.
    """
    trainings = trainings[trainings["begin"] != NO_TIME]
    parts = [
        pd.DataFrame(
            {
                "node": trainings["device"], "what": TRAINS, "other": "", "kind": "", "bytes": 0,
                "status": "", "start": trainings["begin"], "end": trainings["trained"],
            }
        )
    ]  # fmt: skip
    shared = {key: table[key] for key in ("kind", "bytes", "status", "start")}
    shared["end"] = table["end"].where(table["end"] != NO_TIME, end)
    parts.append(
        pd.DataFrame({"node": table["src"], "what": SENDS, "other": table["dst"], **shared})
    )
    parts.append(
        pd.DataFrame({"node": table["dst"], "what": RECEIVES, "other": table["src"], **shared})
    )
    return pd.concat(parts).sort_values(["start", "end"], kind="stable").reset_index(drop=True)


def gaps(spans: pd.DataFrame, end: int, nodes: list[str]) -> pd.DataFrame:
    """When nodes waited: neither trained, nor sent, nor received; ``node``, ``start``, ``end``."""
    ends = pd.DataFrame({"node": nodes, "start": end, "end": end})
    busy = spans.loc[spans["node"].isin(nodes), ["node", "start", "end"]]
    busy = pd.concat([busy, ends]).sort_values(["node", "start", "end"], kind="stable")
    until = busy.groupby("node")["end"].cummax()
    busy["until"] = until.groupby(busy["node"]).shift(fill_value=0)
    found = busy.loc[busy["start"] > busy["until"], ["node", "until", "start"]]
    return found.set_axis(["node", "start", "end"], axis=1).reset_index(drop=True)


def partners(table: pd.DataFrame, devices: list[str]) -> pd.DataFrame:
    """By device (index) its ``first`` and ``last`` gateway, and how often it moved (``moves``).

    Gateways that it exchanged models with; in a ring of devices the one that led the ring.
    """
    models = _meetings(table, devices, "up", "down")
    in_rings = passed_on(table) - set(models["device"])
    led = _meetings(table, devices, "overhead", "overhead")
    met = pd.concat([models, led[led["device"].isin(in_rings)]]).sort_index()
    before = met.groupby("device", sort=False)["gateway"].shift()
    met["moves"] = (before.notna() & (before != met["gateway"])).astype(int)
    return met.groupby("device", sort=False).agg(
        first=("gateway", "first"), last=("gateway", "last"), moves=("moves", "sum")
    )


def passed_on(table: pd.DataFrame) -> set[str]:
    """Who exchanged models with devices."""
    peers = table[table["kind"] == "peer"]
    return {*peers["src"], *peers["dst"]}


def _meetings(table: pd.DataFrame, devices: list[str], up: str, down: str) -> pd.DataFrame:
    """``device`` and ``gateway`` of these kinds of transfers; the index is the tables'."""
    sent = table.loc[table["kind"] == up, ["src", "dst"]]
    received = table.loc[table["kind"] == down, ["dst", "src"]]
    columns = ["device", "gateway"]
    both = pd.concat([sent.set_axis(columns, axis=1), received.set_axis(columns, axis=1)])
    return both[both["device"].isin(devices) & ~both["gateway"].isin(devices)]
