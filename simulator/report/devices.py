"""Who took part, how fair that was, and what it cost in energy."""

from __future__ import annotations

import numpy as np
import pandas as pd

from simulator.report.activity import NO_TIME
from simulator.report.chart import (
    Chart,
    Section,
    Table,
    Trace,
    axis,
    label,
    line_of,
    plain,
    wrapped,
)  # fmt: skip
from simulator.report.gather import Gathered, Group
from simulator.report.numbers import estimate, jain, thinned
from simulator.report.run import Run

_MOST_DEVICES = 300


def answers_of(run: Run) -> pd.Series:
    """By device how many of its trainings were answered, those with none included."""
    rounds = run.visits
    counts = rounds[rounds["answered"] != NO_TIME].groupby("device").size()
    return counts.reindex(sorted(set(run.devices) | set(counts.index)), fill_value=0)


def participation(gathered: Gathered) -> Section:
    title = "Participation and fairness"
    counts = {group.number: [answers_of(run) for run in group.runs] for group in gathered.groups}
    if not any(c.sum() for of_group in counts.values() for c in of_group):
        return Section("devices", title, missing="no training of a device was answered")
    traces = [_ranked(group, counts[group.number]) for group in gathered.groups]
    layout = {
        "xaxis": axis("devices, the busiest first"), "hovermode": "closest",
        "yaxis": axis("answers", rangemode="tozero"),
    }  # fmt: skip
    rows = [_fairness(group, counts[group.number]) for group in gathered.groups]
    columns = ("variant", "answers", "least", "median", "most", "never", "Jain's index")
    meanings = (
        "", "of all devices", "of one device", "", "", "devices without an answer",
        "1: all devices alike; 1/n: one has all",
    )  # fmt: skip
    words = [
        "A device takes part when the answer to its training arrives; means over the seeds.",
    ]
    if max(len(c) for of_group in counts.values() for c in of_group) > _MOST_DEVICES:
        words.append(f"The chart shows {_MOST_DEVICES} devices, evenly chosen from the ranking.")
    table = Table(columns, rows, [group.number for group in gathered.groups], meanings)
    chart = Chart({"": {"data": traces, "layout": layout}}, alt=title)
    return Section("devices", title, tuple(words), (table,), chart)


def _ranked(group: Group, counts: list[pd.Series]) -> Trace:
    mean = pd.concat(counts, axis=1).fillna(0).mean(axis=1)
    mean = mean.sort_values(ascending=False, kind="stable")
    keep = thinned(len(mean), _MOST_DEVICES)
    return line_of(
        group, keep + 1, mean.to_numpy(float)[keep], mode="lines+markers", marker={"size": 5},
        text=[label(str(mean.index[i])) for i in keep],
        hovertemplate="%{text}: %{y:.4g} answers, place %{x}",
    )  # fmt: skip


def _fairness(group: Group, counts: list[pd.Series]) -> list[str]:
    def mean(values: list[float], form: str = ",.4g") -> str:
        return format(float(np.mean(values)), form)

    fairness = estimate([jain(list(c)) for c in counts])
    spread = f" ± {fairness.half:.3f}" if fairness.number > 1 else ""
    return [
        group.name,
        mean([c.sum() for c in counts], ",.0f"),
        mean([c.min() for c in counts]),
        mean([c.median() for c in counts]),
        mean([c.max() for c in counts]),
        mean([(c == 0).sum() for c in counts]),
        f"{fairness.mean:.3f}{spread}" if fairness.number else "–",
    ]


def energy(gathered: Gathered) -> Section:
    title = "Energy"
    tables = {
        group.number: [t for run in group.runs if len(t := run.results.energy)]
        for group in gathered.groups
    }
    groups = [group for group in gathered.groups if tables[group.number]]
    if not groups:
        missing = "no run metered it ([network] energy = true, on ns-3)"
        return Section("energy", title, missing=missing)
    traces = []
    for i, part in enumerate(("radio", "processor")):
        used = [_mean_joules(tables[group.number], f"{part}_j") for group in groups]
        if np.isfinite(used).any():
            traces.append(_joules(groups, part, used, i))
    layout = {
        "xaxis": axis("joules of all devices", rangemode="tozero"), "barmode": "stack",
        "yaxis": {"autorange": "reversed", "type": "category", "showgrid": False},
        "height": 130 + 46 * len(groups), "bargap": 0.35, "showlegend": True,
        "hovermode": "closest",
    }  # fmt: skip
    words = ["Of all devices until the end, means over the seeds. Gateways are not metered."]
    if len(traces) == 1:
        words.append("Processors are known only where devices are machines of a class.")
    chart = Chart({"": {"data": traces, "layout": layout}}, alt=title)
    return Section("energy", title, tuple(words), chart=chart)


def _mean_joules(tables: list[pd.DataFrame], column: str) -> float:
    return estimate([float(t[column].sum(min_count=1)) for t in tables]).mean


def _joules(groups: list[Group], part: str, used: list[float], number: int) -> Trace:
    return {
        "type": "bar", "orientation": "h", "name": part, "x": plain(np.nan_to_num(used)),
        "y": [wrapped(group.name) for group in groups], "marker": {"color": f"@k{number}"},
        "hovertemplate": f"%{{x:,.5g}} J {part}<extra></extra>",
        "meta": {"points": [group.number for group in groups]},
    }  # fmt: skip
