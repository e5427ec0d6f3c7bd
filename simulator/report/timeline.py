"""Who trained, sent, received and waited: some nodes of a run, in a readable window."""

from __future__ import annotations

import numpy as np
import pandas as pd

from simulator.compare import human_bytes
from simulator.report.activity import RECEIVES, SENDS, TRAINS, WAITS, gaps
from simulator.report.chart import Chart, Control, Section, Trace, View, axis, label, plain
from simulator.report.gather import Gathered
from simulator.report.numbers import thinned
from simulator.report.run import Run
from simulator.units import SECOND

MOST_RUNS = 12
MOST_SPANS = 1200
_MOST_DEVICES, _MOST_GATEWAYS = 30, 6
_LOOKS = {
    WAITS: ("@grid", 0.16, -0.08), TRAINS: ("@k0", 0.8, -0.4), RECEIVES: ("@k4", 0.4, -0.4),
    SENDS: ("@k1", 0.4, 0.0),
}  # fmt: skip
"""Colour, height of the bar and where it begins, from the middle of the row; drawn in order."""


def section(gathered: Gathered) -> Section:
    title = "Timeline"
    views, shown = {}, {}
    for group in gathered.groups[:MOST_RUNS]:
        run = group.first
        all_spans = run.spans
        if not len(all_spans) or not run.end:
            continue
        views[str(group.number)] = _view(run, all_spans)
        shown[str(group.number)] = f"{group.name}, seed {run.seed}"
    if not views:
        return Section("timeline", title, missing="nothing took any time")
    words = [
        "Each gateway's row is followed by those of devices that exchanged models with it first. "
        "Drag to zoom, double-click to see all. The chart ends where more could not be read: "
        "'meshfl timeline DIR -o trace.json' writes all of a run for ui.perfetto.dev.",
    ]
    chart = Chart(views, (Control("run", shown),), alt=title)
    return Section("timeline", title, tuple(words), chart=chart)


def rows_of(run: Run) -> list[str]:
    """Gateways, each before some of its devices."""
    first = run.partners["first"].to_dict()
    gateways = [run.gateways[i] for i in thinned(len(run.gateways), _MOST_GATEWAYS)]
    each = max(1, _MOST_DEVICES // max(len(gateways), 1))
    rows: list[str] = []
    for gateway in gateways:
        members = [device for device in run.devices if first.get(device) == gateway]
        rows += [gateway, *(members[i] for i in thinned(len(members), each))]
    if not any(node in first for node in rows):
        rows += [run.devices[i] for i in thinned(len(run.devices), _MOST_DEVICES)]
    return rows


def window_of(all_spans: pd.DataFrame, nodes: list[str], end: int) -> int:
    """Until when no more than MOST_SPANS begin, in these rows."""
    starts = all_spans.loc[all_spans["node"].isin(nodes), "start"].to_numpy()
    return end if len(starts) <= MOST_SPANS else max(int(starts[MOST_SPANS]), 1)


def _view(run: Run, all_spans: pd.DataFrame) -> View:
    nodes = rows_of(run)
    window = window_of(all_spans, nodes, run.end)
    ours = all_spans[all_spans["node"].isin(nodes) & (all_spans["start"] < window)]
    waiting = gaps(ours, window, nodes)
    gateways = set(run.gateways)
    traces = [_bars(waiting.assign(what=WAITS, other="", status="", bytes=0), WAITS, window)]
    for what in (TRAINS, RECEIVES, SENDS):
        its = ours[ours["what"] == what]
        if len(its):
            traces.append(_bars(its, what, window))
    labels = [label(node) for node in nodes]
    names = [f"<b>{label(node)}</b>" if node in gateways else label(node) for node in nodes]
    layout = {
        "xaxis": axis(_window_title(run, nodes, window), range=plain([0, window / SECOND])),
        "yaxis": {
            "type": "category", "categoryorder": "array", "categoryarray": labels,
            "tickmode": "array", "tickvals": labels, "ticktext": names,
            "autorange": "reversed", "showgrid": False, "tickfont": {"size": 10},
        },
        "barmode": "overlay", "height": 140 + 17 * len(nodes), "hovermode": "closest",
        "showlegend": True, "bargap": 0,
    }  # fmt: skip
    return {"data": traces, "layout": layout}


def _window_title(run: Run, nodes: list[str], window: int) -> str:
    drawn = len(set(nodes) & set(run.devices))
    whole = (
        ""
        if window == run.end
        else f", the first {window / SECOND:,.4g} of {run.end / SECOND:,.4g}"
    )
    return f"simulated time [s]{whole}<br>{drawn} of {len(run.devices)} devices"


def _bars(its: pd.DataFrame, what: str, window: int) -> Trace:
    """As far as the window reaches."""
    colour, height, offset = _LOOKS[what]
    edge = 0.5 if what == TRAINS else 0.0
    start, end = its["start"].to_numpy(), np.minimum(its["end"].to_numpy(), window)
    return {
        "type": "bar", "orientation": "h", "name": what, "y": [label(n) for n in its["node"]],
        "base": plain(start / SECOND), "x": plain((end - start) / SECOND), "width": height,
        "offset": offset, "marker": {"color": colour, "line": {"color": "@paper", "width": edge}},
        "text": [_told(what, row) for row in its.itertuples(index=False)], "textposition": "none",
        "hovertemplate": "%{y} %{text}<br>from %{base:.6g} s<extra></extra>",
        "meta": {"what": what},
    }  # fmt: skip


def _told(what: str, row: object) -> str:
    took = f"{(row.end - row.start) / SECOND:.4g} s"  # type: ignore[attr-defined]
    if what in (TRAINS, WAITS):
        return f"{what} {took}"
    towards = "to" if what == SENDS else "from"
    status = "" if row.status == "arrived" else f", {row.status}"  # type: ignore[attr-defined]
    size = human_bytes(row.bytes)  # type: ignore[attr-defined]
    return f"{what} {size} {towards} {label(row.other)}, {took}{status}"  # type: ignore[attr-defined]
