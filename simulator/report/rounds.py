"""How long rounds take, phase by phase; and how stale what arrives is."""

from __future__ import annotations

import numpy as np
import pandas as pd

from simulator.report.activity import NO_TIME
from simulator.report.chart import (
    Chart,
    Control,
    Section,
    Trace,
    View,
    axis,
    colour,
    label,
    line_of,
    plain,
)  # fmt: skip
from simulator.report.gather import Gathered, Group
from simulator.report.numbers import thinned
from simulator.report.run import Run
from simulator.units import SECOND

_WHISKERS = (5, 25, 50, 75, 95)
_STEPS = 300
_MOST_TICKS = 12
"""Of whole numbers, one each."""
_TIERS = {
    "upload": "uploads of gateways",
    "gateway": "updates in gateways",
    "update": "updates in the cloud",
}  # fmt: skip


def phases_of(run: Run) -> dict[str, np.ndarray]:
    """Seconds of every round of a device that was answered, and of every transfer beyond."""
    rounds = run.visits
    whole = rounds[(rounds["begin"] != NO_TIME) & (rounds["answered"] != NO_TIME)]
    table = run.transfers
    far = table[(table["kind"] == "backhaul") & (table["status"] == "arrived")]
    inward = ~far["src"].isin(run.gateways)
    took = (far["end"] - far["start"]) / SECOND
    return {
        "model to device": _seconds(whole["begin"] - whole["asked"]),
        "training": _seconds(whole["trained"] - whole["begin"]),
        "answer of device": _seconds(whole["answered"] - whole["trained"]),
        "round of device": _seconds(whole["answered"] - whole["asked"]),
        "gateway to cloud": took[~inward].to_numpy(),
        "cloud to gateway": took[inward].to_numpy(),
    }


def _seconds(nanoseconds: pd.Series) -> np.ndarray:
    return nanoseconds.to_numpy(float) / SECOND


def latency(gathered: Gathered) -> Section:
    title = "Round latency by phase"
    found: dict[int, dict[str, np.ndarray]] = {}
    for group in gathered.groups:
        parts = [phases_of(run) for run in group.runs]
        found[group.number] = {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}
    names = list(next(iter(found.values())))
    names = [name for name in names if any(of[name].any() for of in found.values())]
    if not names:
        return Section("latency", title, missing="no transfer and no training took any time")
    traces = [_boxes(group, found[group.number], names) for group in gathered.groups]
    layout = {
        "xaxis": axis("seconds", rangemode="tozero"), "boxmode": "group", "hovermode": "closest",
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
        "height": 130 + len(names) * (26 + 16 * len(gathered.groups)),
    }  # fmt: skip
    words = (
        "Every device's round that was answered, over all seeds. Boxes are quartiles, with the "
        "median; whiskers reach from 5 to 95 % of the rounds, broken lines are means.",
    )
    chart = Chart({"": {"data": traces, "layout": layout}}, log_axis="xaxis", alt=title)
    return Section("latency", title, words, chart=chart)


def _boxes(group: Group, values: dict[str, np.ndarray], names: list[str]) -> Trace:
    """One box a phase, of percentiles: a page need not hold every round."""
    known = [name for name in names if len(values[name])]
    marks = np.array([np.percentile(values[name], _WHISKERS) for name in known]).reshape(-1, 5).T
    return {
        "type": "box", "orientation": "h", "name": label(group.name), "y": known,
        "lowerfence": plain(marks[0]), "q1": plain(marks[1]), "median": plain(marks[2]),
        "q3": plain(marks[3]), "upperfence": plain(marks[4]),
        "mean": plain(values[name].mean() for name in known), "boxmean": True,
        "line": {"color": colour(group), "width": 1.5}, "fillcolor": colour(group, 0.35),
        "meta": {"group": group.number}, "showlegend": False, "hoverinfo": "x+name",
    }  # fmt: skip


def staleness(gathered: Gathered) -> Section:
    title = "Staleness"
    tiers = {tier: name for tier, name in _TIERS.items() if any(
        len(_stale(run, tier)) for run in gathered.runs
    )}  # fmt: skip
    if not tiers:
        return Section("staleness", title, missing="only asynchronous methods record it")
    views = {tier: _stale_view(gathered, tier) for tier in tiers}
    mute = [g.name for g in gathered.groups if not any(len(_stale(g.first, t)) for t in tiers)]
    words = [
        "How many versions the model had moved on when what was made from it arrived: share of "
        "all that is at most so stale, over all seeds."
    ]
    if len(tiers) == 1:
        words[0] = f"Of {next(iter(tiers.values()))}. {words[0]}"
    if mute:
        words.append(f"None recorded by {', '.join(mute)}.")
    chart = Chart(views, (Control("of", tiers),), "xaxis", title)
    return Section("staleness", title, tuple(words), chart=chart)


def _stale(run: Run, tier: str) -> np.ndarray:
    table = run.results.metrics
    if "staleness" not in table:
        return np.array([])
    return table.loc[table["tier"] == tier, "staleness"].dropna().to_numpy(float)


def _stale_view(gathered: Gathered, tier: str) -> View:
    traces = []
    for group in gathered.groups:
        values = np.sort(np.concatenate([_stale(run, tier) for run in group.runs]))
        if not len(values):
            continue
        x, counts = np.unique(values, return_counts=True)
        share = counts.cumsum() / len(values)
        keep = thinned(len(x), _STEPS)
        mean = f"mean {values.mean():.3g}, most {values.max():g}"
        traces.append(
            line_of(
                group, x[keep], share[keep], mode="lines+markers", marker={"size": 4},
                hovertemplate=f"%{{y:.1%}} (of {len(values):,}; {mean})",
            )
        )  # fmt: skip
        traces[-1]["line"]["shape"] = "hv"
    most = max((trace["x"][-1] for trace in traces), default=0)
    ticks = {"dtick": 1} if most <= _MOST_TICKS else {}
    layout = {
        "xaxis": axis("staleness [versions]", tickformat=",d", **ticks), "hovermode": "x unified",
        "yaxis": axis("share", tickformat=".0%", range=[0, 1.03]),
    }  # fmt: skip
    return {"data": traces, "layout": layout}
