"""What it took: the summary table, and bars of time and bytes to the target."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from simulator.compare import human_bytes
from simulator.parts import BYTE_KINDS
from simulator.report.chart import (
    BYTES_AXIS,
    Chart,
    Control,
    Section,
    Table,
    Trace,
    View,
    axis,
    colour,
    label,
    plain,
    short,
    time_unit,
    wrapped,
)  # fmt: skip
from simulator.report.gather import Gathered, Group
from simulator.report.numbers import Estimate, estimate, ratio
from simulator.report.run import Run

KIND_NAMES = {
    "up": "up", "down": "down", "backhaul": "backhaul", "peer": "between devices",
    "overhead": "overhead",
}  # fmt: skip


class Reached(NamedTuple):
    """Where a run first came to its target; nan if it did not."""

    seconds: float
    epochs: float
    by_kind: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.by_kind.values())


def target_of(run: Run, target: float | None) -> float | None:
    own = run.summary["target"] if target is None else target
    return None if own is None else float(own)


def reached(run: Run, target: float | None) -> Reached:
    target = target_of(run, target)
    nowhere = Reached(np.nan, np.nan, dict.fromkeys(BYTE_KINDS, np.nan))
    if target is None or not run.results.learned:
        return nowhere
    curve = run.curve
    score = curve["loss"] <= target if run.results.is_regression else curve["accuracy"] >= target
    if not score.any():
        return nowhere
    row = curve[score].iloc[0]
    by_kind = {kind: float(row[f"bytes_{kind}"]) for kind in BYTE_KINDS}
    return Reached(float(row["sim_time_s"]), float(row["epoch"]), by_kind)


def summary(gathered: Gathered, target: float | None) -> Section:
    aimed = any(target_of(run, target) is not None for run in gathered.runs)
    learned = any(run.results.learned for run in gathered.runs)
    columns, titles = ["variant", "seeds"], ["", "how many runs"]
    if learned:
        columns.append("best")
        titles.append("best score of the global model (accuracy, or loss)")
    if aimed and len(gathered.groups) > 1:
        columns += ["reached", "time to target", "ratio", "bytes to target", "ratio"]
        titles += ["runs that reached the target", "simulated", "of times", "", "of bytes"]
    elif aimed:
        columns += ["reached", "time to target", "bytes to target"]
        titles += ["runs that reached the target", "simulated", ""]
    of_runs = ("final", "epochs", "simulated", "sent", "overhead", "lost")
    meanings = ("last score", "of the cloud", "time until the end", "bytes in all",
                "share of the bytes", "transfers")  # fmt: skip
    scores, ends = [], []
    for group in gathered.groups:
        cells = [group.name, str(len(group.runs))]
        cells += [_score(group, "best")] if learned else []
        cells += _target_cells(group, gathered, target) if aimed else []
        scores.append(cells)
        ends.append(_ends(group, learned=learned))
    numbers = [group.number for group in gathered.groups]
    skipped = 0 if learned else 1
    tables = (
        Table(tuple(columns), scores, numbers, tuple(titles)),
        Table(("variant", *of_runs[skipped:]), ends, numbers, ("", *meanings[skipped:])),
    )
    return Section("summary", "Summary", _summary_words(gathered, target, aimed), tables)


def _summary_words(gathered: Gathered, target: float | None, aimed: bool) -> tuple[str, ...]:
    words = []
    if max(len(group.runs) for group in gathered.groups) > 1:
        words.append("Means over the seeds; ± is half of a 95 % interval (Student's t).")
    if aimed:
        targets = {target_of(run, target) for run in gathered.runs} - {None}
        told = ", ".join(f"{t:g}" for t in sorted(t for t in targets if t is not None))
        words.append(f"Target: {told}.")
        if len(gathered.groups) > 1:
            words[-1] += (
                f" Ratios are to {gathered.reference.name}, of runs with the same seed that both "
                "reached it; the brackets hold the ratio estimator's 95 % interval, cut at 0."
            )
    if gathered.unfinished:
        places = ", ".join(f"{place.parent.name}/{place.name}" for place in gathered.unfinished)
        words.append(f"Left out, for they are not finished: {places}.")
    return tuple(words)


def _score(group: Group, which: str) -> str:
    key = f"{which}_{'loss' if group.is_regression else 'accuracy'}"
    values = [run.summary[key] for run in group.runs]
    return _pm(estimate([np.nan if value is None else value for value in values]), "{:.4f}")


def _ends(group: Group, *, learned: bool) -> list[str]:
    told = [run.summary for run in group.runs]
    sent = [sum(s[f"bytes_{kind}"] for kind in BYTE_KINDS) for s in told]
    overhead = [s["bytes_overhead"] / total for s, total in zip(told, sent, strict=True) if total]
    return [
        group.name,
        *([_score(group, "final")] if learned else []),
        _pm(estimate([s["epochs"] for s in told]), "{:,.0f}"),
        f"{np.mean([s['sim_time_s'] for s in told]):,.1f} s",
        human_bytes(float(np.mean(sent))),
        f"{100 * float(np.mean(overhead or [0.0])):.2f} %",
        f"{np.mean([s['lost_transfers'] for s in told]):,.3g}",
    ]


def _target_cells(group: Group, gathered: Gathered, target: float | None) -> list[str]:
    reference = gathered.reference
    by_seed = {run.seed: reached(run, target) for run in group.runs}
    theirs = {run.seed: reached(run, target) for run in reference.runs}
    count = sum(bool(np.isfinite(r.seconds)) for r in by_seed.values())
    common = [seed for seed in by_seed if seed in theirs]
    times = ratio([by_seed[s].seconds for s in common], [theirs[s].seconds for s in common])
    sizes = ratio([by_seed[s].total for s in common], [theirs[s].total for s in common])
    sent = estimate([r.total for r in by_seed.values()])
    own = group is reference
    aimed = any(target_of(run, target) is not None for run in group.runs)
    took = _pm(estimate([r.seconds for r in by_seed.values()]), "{:,.1f}", " s")
    cells = [f"{count}/{len(by_seed)}" if aimed else "–", took, _bytes(sent)]
    if len(gathered.groups) == 1:
        return cells
    return [*cells[:2], _bracketed(times, own), cells[2], _bracketed(sizes, own)]


def _pm(value: Estimate, form: str, unit: str = "") -> str:
    if not value.number:
        return "–"
    spread = f" ± {form.format(value.half)}" if value.number > 1 else ""
    return form.format(value.mean) + spread + unit


def _bytes(value: Estimate) -> str:
    if not value.number:
        return "–"
    spread = f" ± {human_bytes(value.half)}" if value.number > 1 else ""
    return human_bytes(value.mean) + spread


def _bracketed(value: Estimate, own: bool) -> str:
    if not value.number:
        return "–"
    if own or value.number < 2:
        return f"{value.mean:.2f}"
    return f"{value.mean:.2f} [{max(value.low, 0.0):.2f}, {value.high:.2f}]"


def bars(gathered: Gathered, target: float | None) -> Section:
    """Time, bytes by kind and epochs to the target; and the bytes of whole runs."""
    found = {group.number: [reached(r, target) for r in group.runs] for group in gathered.groups}
    options = {}
    views: dict[str, View] = {}
    words = []
    if max(len(group.runs) for group in gathered.groups) > 1:
        words.append("Bars are means over the seeds; lines on them are 95 % intervals.")
    if any(np.isfinite(r.seconds) for all_of_it in found.values() for r in all_of_it):
        options = {"seconds": "time", "bytes": "bytes", "epochs": "epochs"}
        times = [r.seconds for rs in found.values() for r in rs]
        scale, unit = time_unit(float(np.nanmax(times)))
        seconds = {n: estimate([r.seconds / scale for r in rs]) for n, rs in found.items()}
        epochs = {n: estimate([r.epochs for r in rs]) for n, rs in found.items()}
        views["seconds"] = _estimates(gathered, found, seconds, f"time to target [{unit}]", unit)
        views["epochs"] = _estimates(gathered, found, epochs, "cloud epochs to target", "epochs")
        to_target = {n: _mean_kinds([r.by_kind for r in rs]) for n, rs in found.items()}
        views["bytes"] = _kinds(gathered, to_target, "bytes to target")
        words.append("Runs that did not reach the target count in none of these but the last.")
    options["all"] = "bytes of whole runs" if options else "bytes"
    sent = {
        group.number: _mean_kinds(
            [{kind: float(r.summary[f"bytes_{kind}"]) for kind in BYTE_KINDS} for r in group.runs]
        )
        for group in gathered.groups
    }
    views["all"] = _kinds(gathered, sent, "bytes sent until the end")
    title = "To the target" if len(options) > 1 else "Bytes sent"
    if len(options) == 1:
        words = ["Nobody has reached a target (--target sets one). Means over the seeds."]
    chart = Chart(views, (Control("show", options),), alt="Bars of time and bytes")
    return Section("costs", title, tuple(words), chart=chart)


def _mean_kinds(of_runs: list[dict[str, float]]) -> dict[str, float]:
    return {kind: estimate([run[kind] for run in of_runs]).mean for kind in BYTE_KINDS}


def _estimates(
    gathered: Gathered, found: dict[int, list[Reached]], values: dict[int, Estimate], title: str,
    unit: str,
) -> View:  # fmt: skip
    groups = gathered.groups
    means = [values[group.number].mean for group in groups]
    halves = [values[group.number].half for group in groups]
    ends = np.nan_to_num(means) + np.nan_to_num(halves)
    shared = {
        "y": [wrapped(group.name) for group in groups], "showlegend": False,
        "customdata": [label(group.name) for group in groups],
        "meta": {"points": [group.number for group in groups]},
    }  # fmt: skip
    bar: Trace = {
        "type": "bar", "orientation": "h", "x": plain(np.nan_to_num(means)),
        "error_x": {
            "type": "data", "symmetric": False, "array": plain(halves),
            "arrayminus": plain(np.minimum(halves, means)),
            "color": "@ink", "thickness": 1.2, "width": 4,
        },
        "marker": {"color": [colour(group) for group in groups]},
        "hovertemplate": f"%{{customdata}}<br>%{{x:,.5g}} {unit}<extra></extra>",
    } | shared  # fmt: skip
    told: Trace = {
        "type": "scatter", "mode": "text", "x": plain(ends), "hoverinfo": "skip",
        "text": [f" {_told(values[g.number], found[g.number])}" for g in groups],
        "textposition": "middle right", "cliponaxis": False,
    } | copy.deepcopy(shared)  # fmt: skip
    x_axis = axis(title, range=[0, short(1.25 * float(ends.max()))])
    return {"data": [bar, told], "layout": _bar_layout(len(groups), x_axis)}


def _told(value: Estimate, all_of_it: list[Reached]) -> str:
    missed = sum(not np.isfinite(r.seconds) for r in all_of_it)
    note = f" ({missed} of {len(all_of_it)} missed)" if value.number and missed else ""
    return f"{value.mean:,.4g}{note}" if value.number else "not reached"


def _kinds(gathered: Gathered, values: dict[int, dict[str, float]], title: str) -> View:
    groups = gathered.groups
    traces: list[Trace] = []
    for i, (kind, name) in enumerate(KIND_NAMES.items()):
        sent = [values[group.number][kind] for group in groups]
        if not np.nansum(sent):
            continue
        traces.append(
            {
                "type": "bar", "orientation": "h", "name": name, "x": plain(np.nan_to_num(sent)),
                "y": [wrapped(group.name) for group in groups],
                "marker": {"color": f"@k{i}", "line": {"color": "@paper", "width": 1}},
                "customdata": [label(group.name) for group in groups],
                "hovertemplate": "%{customdata}<br>%{x:.4s}B " + name + "<extra></extra>",
                "meta": {"points": [group.number for group in groups], "kind": kind},
            }
        )  # fmt: skip
    layout = _bar_layout(len(groups), axis(title, **BYTES_AXIS))
    more = {"barmode": "stack", "showlegend": True, "legend": {"traceorder": "normal"}}
    return {"data": traces, "layout": layout | more}


def _bar_layout(count: int, x_axis: dict[str, object]) -> dict[str, object]:
    return {
        "xaxis": x_axis, "yaxis": {"autorange": "reversed", "type": "category", "showgrid": False},
        "height": 130 + 46 * count, "bargap": 0.35, "hovermode": "closest",
    }  # fmt: skip
