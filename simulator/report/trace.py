"""A run as a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open.

A process for the cloud, one for the gateways and one for each gateway's devices; in them a thread
for each node, and more where a node does several things at once, for the spans of a thread must
not overlap. Times are microseconds of simulated time.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator.errors import UserError
from simulator.report.activity import RECEIVES, SENDS, TRAINS, WAITS, gaps
from simulator.report.gather import gather
from simulator.report.run import Run
from simulator.report.writing import write_whole
from simulator.units import SECOND

Event = dict[str, Any]
_CLOUD, _GATEWAYS = 1, 2
_MICROSECOND = 1000


def trace_of(run: Run) -> dict[str, Any]:
    return {
        "traceEvents": [*_events(run)],
        "displayTimeUnit": "ms",
        "otherData": {
            "run": run.results.name, "algorithm": run.summary["algorithm"], "seed": run.seed,
            "clock": "simulated", "meshfl_version": run.summary.get("meshfl_version", ""),
        },
    }  # fmt: skip


def write_trace(folder: Path, out: Path) -> Path:
    """Whole or not at all."""
    runs = gather([folder]).runs
    if len(runs) > 1:
        raise UserError(f"{folder}: holds {len(runs)} runs; name one, such as {runs[0].folder}")
    text = json.dumps(trace_of(runs[0]), separators=(",", ":"), allow_nan=False)
    return write_whole(out, text + "\n")


def _events(run: Run) -> Iterator[Event]:
    all_spans = run.spans
    waiting = gaps(all_spans, run.end, run.devices)
    waiting = waiting.assign(what=WAITS, other="", kind="", bytes=0, status="")
    everything = pd.concat([all_spans, waiting])
    order = {name: i for i, name in enumerate([*run.gateways, *run.devices])}
    everything["place"] = everything["node"].map(order).fillna(-1)
    everything = everything.sort_values(["place", "start", "end"], kind="stable")
    processes = _processes(run, list(everything["node"].unique()))
    names = {_CLOUD: "cloud", _GATEWAYS: "gateways"}
    names |= {process: f"devices of {of}" for process, of in processes.values() if of}
    for process, name in names.items():
        yield _meta("process_name", process, 0, name=name)
        yield _meta("process_sort_index", process, 0, sort_index=process)
    thread = 0
    rows = everything.itertuples(index=False)
    for node, its in groupby(rows, key=attrgetter("node")):
        process = processes[node][0]
        lanes: dict[int, int] = {}
        for row, lane in _laid_out(its):
            if lane not in lanes:
                thread += 1
                lanes[lane] = thread
                name = node if lane == 0 else f"{node} ({lane + 1})"
                yield _meta("thread_name", process, thread, name=name)
                yield _meta("thread_sort_index", process, thread, sort_index=thread)
            yield _span(row, process, lanes[lane])
    yield from _scores(run)


def _processes(run: Run, nodes: list[str]) -> dict[str, tuple[int, str]]:
    """By node its process, and of which gateway's devices that is."""
    gateways, devices = {g: i for i, g in enumerate(run.gateways)}, set(run.devices)
    first = run.partners["first"].to_dict()
    found = {}
    for node in nodes:
        if node in gateways:
            found[node] = (_GATEWAYS, "")
        elif node in devices:
            gateway = str(first.get(node, "no gateway"))
            found[node] = (_GATEWAYS + 1 + gateways.get(gateway, len(gateways)), gateway)
        else:
            found[node] = (_CLOUD, "")
    return found


def _laid_out(rows: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """Each span with the lowest lane that is free when it begins."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    used = 0
    for row in rows:
        while busy and busy[0][0] <= row.start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, used)
            used += 1
        lane = heapq.heappop(free)
        heapq.heappush(busy, (row.end, lane))
        yield row, lane


def _meta(what: str, process: int, thread: int, **arguments: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": arguments}


def _span(row: Any, process: int, thread: int) -> Event:
    event = {
        "ph": "X", "name": row.what, "cat": row.kind or "local", "pid": process, "tid": thread,
        "ts": row.start / _MICROSECOND, "dur": (row.end - row.start) / _MICROSECOND,
    }  # fmt: skip
    if row.what in (SENDS, RECEIVES):
        direction = "to" if row.what == SENDS else "from"
        event["name"] = f"{row.what} {direction} {row.other}"
        event["args"] = {"bytes": int(row.bytes), "kind": row.kind, "status": row.status}
    elif row.what == TRAINS:
        event["cat"] = "training"
    return event


def _scores(run: Run) -> Iterator[Event]:
    """Accuracy and loss as counters of the cloud."""
    for _, row in run.curve.iterrows():
        for score in ("accuracy", "loss"):
            if row[score] is not None and np.isfinite(row[score]):
                yield {
                    "ph": "C", "name": score, "pid": _CLOUD, "tid": 0,
                    "ts": row["sim_time_s"] * SECOND / _MICROSECOND,
                    "args": {score: float(row[score])},
                }  # fmt: skip
