"""Accuracy and loss of the global model against simulated time, epochs and bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.report.chart import (
    BYTES_AXIS,
    Chart,
    Control,
    Section,
    Trace,
    View,
    axis,
    band_of,
    line_of,
    time_unit,
)  # fmt: skip
from simulator.report.costs import target_of
from simulator.report.gather import Gathered, Group
from simulator.report.numbers import thinned

MOST_POINTS = 400
"""Of one run's curve that are drawn as they are."""
_PLACES = 250
"""Where the mean of several runs is computed."""
_COLUMNS = {"seconds": "sim_time_s", "epochs": "epoch", "bytes": "bytes_total"}


def section(gathered: Gathered, target: float | None) -> Section:
    groups = [group for group in gathered.groups if group.first.results.learned]
    if not groups:
        missing = 'nothing was learned in these runs ([run] learning = "none")'
        return Section("curves", "Accuracy and loss", missing=missing)
    scores = {"accuracy": "accuracy", "loss": "loss"}
    if all(group.is_regression for group in groups):
        del scores["accuracy"]
    longest = max(run.curve["sim_time_s"].max() for group in groups for run in group.runs)
    scale, unit = time_unit(float(longest))
    axes: dict[str, dict[str, Any]] = {
        "seconds": axis(f"simulated time [{unit}]", rangemode="tozero"),
        "epochs": axis("cloud epochs", rangemode="tozero"),
        "bytes": axis("bytes sent in all", **BYTES_AXIS),
    }
    views = {
        f"{what}|{score}": _view(groups, what, score, scale if what == "seconds" else 1.0)
        | {"layout": {"xaxis": x_axis, **_layout(groups, score, target)}}
        for what, x_axis in axes.items()
        for score in scores
    }
    controls = (
        Control("against", {"seconds": "time", "epochs": "epochs", "bytes": "bytes"}),
        Control("score", scores),
    )
    words = ["The global model on the test set."]
    if any(len(group.runs) > 1 for group in groups):
        words.append(
            "Lines are means over the seeds, bands reach from the least to the most; "
            "between two evaluations the score is taken as a straight line, and a run that has "
            f"ended keeps its last one. Means are computed at {_PLACES} places."
        )
    if any(len(run.curve) > MOST_POINTS for group in groups for run in group.runs):
        words.append(f"Of more than {MOST_POINTS} evaluations so many are drawn, evenly chosen.")
    chart = Chart(views, controls, log_axis="xaxis", alt="Curves of accuracy and loss")
    return Section("curves", "Accuracy and loss", tuple(words), chart=chart)


def _view(groups: list[Group], what: str, score: str, scale: float) -> View:
    traces: list[Trace] = []
    for group in groups:
        if score == "accuracy" and group.is_regression:
            continue
        x, low, mean, high = _curve(group, _COLUMNS[what], score)
        if len(group.runs) > 1:
            traces.append(band_of(group, x / scale, low, high))
        dots = {"mode": "lines+markers", "marker": {"size": 4}} if len(x) <= 40 else {}
        traces.append(line_of(group, x / scale, mean, hovertemplate="%{y:.4f}", **dots))
    return {"data": traces}


def _curve(
    group: Group, column: str, score: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, least, mean and most."""
    curves = []
    for run in group.runs:
        x, y = run.curve[column].to_numpy(float), run.curve[score].to_numpy(float)
        keep = np.isfinite(y)
        keep[:-1] &= x[1:] > x[:-1]  # of several evaluations at one place the last counts
        curves.append((x[keep], y[keep]))
    curves = [curve for curve in curves if len(curve[0])]
    if not curves:
        return (np.array([]),) * 4
    if len(curves) == 1:
        x, y = curves[0]
        keep = thinned(len(x), MOST_POINTS)
        return x[keep], y[keep], y[keep], y[keep]
    begin, end = min(x[0] for x, _ in curves), max(x[-1] for x, _ in curves)
    places = np.linspace(begin, end, _PLACES)
    if column == "epoch" and end - begin < _PLACES:
        places = np.arange(begin, end + 1)
    values = np.array([np.interp(places, x, y) for x, y in curves])
    return places, values.min(axis=0), values.mean(axis=0), values.max(axis=0)


def _layout(groups: list[Group], score: str, target: float | None) -> dict[str, Any]:
    targets = {
        aim
        for group in groups
        if group.is_regression == (score == "loss")
        and (aim := target_of(group.first, target)) is not None
    }
    shapes = [
        {
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": target, "y1": target,
            "line": {"color": "@soft", "width": 1, "dash": "dot"},
        }
        for target in sorted(targets)
    ]  # fmt: skip
    notes = [
        {
            "xref": "paper", "x": 1, "y": target, "text": f"target {target:g}", "showarrow": False,
            "xanchor": "right", "yanchor": "bottom", "font": {"color": "@soft", "size": 11},
        }
        for target in sorted(targets)
    ]  # fmt: skip
    return {
        "yaxis": axis(f"test {score}"), "hovermode": "x unified", "shapes": shapes,
        "annotations": notes,
    }  # fmt: skip
