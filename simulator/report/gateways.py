"""What each gateway's bandwidth is used for, over time, against its budget."""

from __future__ import annotations

import numpy as np
import pandas as pd

from simulator.report.activity import NO_TIME
from simulator.report.chart import (
    COLOURS,
    Chart,
    Control,
    Section,
    Trace,
    View,
    axis,
    dash,
    label,
    plain,
    time_unit,
)  # fmt: skip
from simulator.report.gather import Gathered
from simulator.report.run import Run
from simulator.units import SECOND

BINS = 120
MOST_RUNS = 12
MOST_GATEWAYS = 12
_SHORTEST = 1000
"""What takes less than this part of a bin, or no time, is taken for so long."""
_HELD, _UP, _DOWN, _BACKHAUL = "held", "up", "down", "backhaul"
_NAMES = {
    _HELD: "rounds", _UP: "from devices", _DOWN: "to devices", _BACKHAUL: "with the cloud",
}  # fmt: skip


def rates(start: np.ndarray, end: np.ndarray, nbytes: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Bytes per second in each bin, of transfers that are spread evenly over their time."""
    least = (edges[-1] - edges[0]) / len(edges) / _SHORTEST
    start, end = start.astype(float), np.maximum(end, start + least).astype(float)
    rate = nbytes / (end - start)

    def until(times: np.ndarray) -> np.ndarray:
        """Sum of rate * (t - time) over the times before t."""
        order = np.argsort(times, kind="stable")
        sums = np.insert(np.cumsum(rate[order]), 0, 0.0)
        moments = np.insert(np.cumsum((rate * times)[order]), 0, 0.0)
        count = np.searchsorted(times[order], edges, side="right")
        return np.asarray(sums[count] * edges - moments[count])

    sent = np.diff(until(start) - until(end))
    return np.asarray(np.maximum(sent, 0.0) / (np.diff(edges) / SECOND))


def uses_of(run: Run) -> dict[str, pd.DataFrame]:
    """By use: ``gateway``, ``start``, ``end``, ``bytes``."""
    table = run.transfers
    ended = table["end"].where(table["end"] != NO_TIME, run.end)
    table = table.assign(end=ended)[["src", "dst", "start", "end", "bytes"]]
    gateways, devices = set(run.gateways), set(run.devices)
    of_src, of_dst = table["src"].isin(gateways), table["dst"].isin(gateways)
    from_device, to_device = table["src"].isin(devices), table["dst"].isin(devices)
    up, down = table[of_dst & from_device], table[of_src & to_device]
    far = table[(of_src & ~to_device) | (of_dst & ~from_device)]
    far = far.assign(gateway=far["src"].where(far["src"].isin(gateways), far["dst"]))
    rounds = run.visits
    whole = rounds[(rounds["begin"] != NO_TIME) & (rounds["answered"] != NO_TIME)]
    whole = whole[whole["taker"].isin(gateways)].assign(bytes=run.summary["model_bytes"])
    columns = ["gateway", "start", "end", "bytes"]
    return {
        _HELD: whole.rename(columns={"taker": "gateway", "asked": "start", "answered": "end"})[
            columns
        ],
        _UP: up.rename(columns={"dst": "gateway"})[columns],
        _DOWN: down.rename(columns={"src": "gateway"})[columns],
        _BACKHAUL: far[columns],
    }


def section(gathered: Gathered) -> Section:
    title = "Bandwidth of gateways"
    views: dict[str, View] = {}
    shown: dict[str, str] = {}
    budgets = False
    for group in gathered.groups[:MOST_RUNS]:
        run = group.first
        uses = uses_of(run)
        if not run.end or not any(len(use) for use in uses.values()):
            continue
        budget = run.scenario.get("selection", {}).get("budget_bytes_per_s")
        budgets = budgets or budget is not None
        shown[str(group.number)] = f"{group.name}, seed {run.seed}"
        for name, use in uses.items():
            views[f"{group.number}|{name}"] = _view(run, use, budget if name == _HELD else None)
    if not views:
        return Section("gateways", title, missing="gateways have carried nothing")
    words = [
        f"Bytes per second, in {BINS} bins of the run. 'Rounds' spreads each answered model over "
        "its device's round, as a budget counts it: the model's bytes by the round's latency."
    ]
    if budgets:
        words.append("The dotted line is the budget (selection.budget_bytes_per_s).")
    else:
        words.append("No budget was set.")
    if len(gathered.groups) > MOST_RUNS:
        words.append(f"Of the first {MOST_RUNS} variants.")
    if max(len(group.first.gateways) for group in gathered.groups) > MOST_GATEWAYS:
        words.append(f"The {MOST_GATEWAYS} busiest gateways are drawn.")
    controls = (Control("run", shown), Control("use", _NAMES))
    return Section("gateways", title, tuple(words), chart=Chart(views, controls, alt=title))


def _view(run: Run, use: pd.DataFrame, budget: float | None) -> View:
    scale, unit = time_unit(run.end / SECOND)
    edges = np.linspace(0, run.end, BINS + 1)
    middle = (edges[:-1] + edges[1:]) / 2 / SECOND / scale
    total = use.groupby("gateway")["bytes"].sum().reindex(run.gateways, fill_value=0)
    busiest = set(total.nlargest(MOST_GATEWAYS).index)
    traces: list[Trace] = []
    for i, gateway in enumerate(name for name in run.gateways if name in busiest):
        its = use[use["gateway"] == gateway]
        start, end, nbytes = (its[key].to_numpy() for key in ("start", "end", "bytes"))
        y = rates(start, end, nbytes, edges)
        traces.append(
            {
                "type": "scatter", "mode": "lines", "name": label(gateway), "x": plain(middle),
                "y": plain(y), "hovertemplate": "%{y:.4s}B/s",
                "line": {"color": f"@c{i % COLOURS}", "dash": dash(i), "width": 1.6},
                "meta": {"mean": total[gateway] / (run.end / SECOND)},
            }
        )  # fmt: skip
    if budget is not None:
        traces.append(
            {
                "type": "scatter", "mode": "lines", "name": "budget", "x": plain(middle[[0, -1]]),
                "y": [budget, budget], "hovertemplate": "%{y:.4s}B/s",
                "line": {"color": "@ink", "dash": "dot", "width": 1.5},
            }
        )  # fmt: skip
    layout = {
        "xaxis": axis(f"simulated time [{unit}]", rangemode="tozero"), "hovermode": "x unified",
        "yaxis": axis("bytes per second", tickformat="~s", ticksuffix="B/s", rangemode="tozero"),
        "showlegend": True,
    }  # fmt: skip
    return {"data": traces, "layout": layout}
