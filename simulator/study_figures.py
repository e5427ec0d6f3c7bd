"""What a study found, drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from simulator.figures import COLOURS, Look
from simulator.parts import BYTE_KINDS
from simulator.results import Results
from simulator.study import Run, Study, Sweep
from simulator.study_findings import told_variants, tuned_variants
from simulator.study_grid import points, suffix

_THIN_LINES = ("-", "--", ":", "-.")
_FEW_LABELS = 6
"""Fit among the curves; more stand beside them."""
_SHORT_LABEL = 24
"""Two of them stand side by side in a column."""


def figures(
    study: Study, runs: list[Run], table: pd.DataFrame, look: Look
) -> Iterator[tuple[str, Figure]]:
    """curves; ratios or scores; tuning, sweep, and with two keys grid, where there are such."""
    shown = table[table["chosen"]].reset_index(drop=True)
    yield "curves", _curves(study, runs, look)
    if table["target"].isna().all():
        yield "scores", _scores(study, shown, look)
    else:
        yield "ratios", _ratios(study, shown, look)
    has_all = study.tuning is None  # else those that were not chosen are in the trial's figures
    if study.tuned is not None and has_all:
        yield "tuning", _tuning(study, table, look)
    if study.sweep is not None:
        yield "sweep", _sweep(study, study.sweep, shown, look)
    if len(study.grid) == 2 and has_all:
        yield "grid", _grid(study, table, look)


_AXES: dict[str, tuple[str, Callable[[pd.DataFrame], pd.Series]]] = {
    "rounds": ("global rounds", lambda curve: curve["epoch"]),
    "seconds": ("simulated time [s]", lambda curve: curve["sim_time_s"]),
    "bytes": ("bytes sent [GB]", lambda curve: _sent_gb(curve)),
}


def _curves(study: Study, runs: list[Run], look: Look) -> Figure:
    figure, panels = look.figure(5.5, 4.4, len(study.curves))
    chosen = set(tuned_variants(study, runs).values())
    for i, variant in enumerate(v for v in told_variants(study, runs) if v.name in chosen):
        results = [run.results for run in runs if run.variant == variant.name]
        style = look.line(i)
        for axes, what in zip(panels, study.curves, strict=True):
            _draw(axes, results, _AXES[what][1], variant.name, style)
            if what == "seconds":
                _draw_gateways(axes, results[0], variant.name, style["color"])
    for axes, what in zip(panels, study.curves, strict=True):
        for target in {run.target: None for run in runs if run.target is not None}:
            axes.axhline(target, color="0.5", lw=1, ls=":")
        axes.set(xlabel=_AXES[what][0], ylabel="test accuracy")
        _logarithmic(axes)
        axes.grid(alpha=0.3)
    ends = "a run that has ended keeps its last value"
    look.title(figure, f"{study.title}\n{_of_seeds(study)}{ends}", fontsize=10)
    _explain_lines(figure, panels, look)
    return figure


def _of_seeds(study: Study) -> str:
    count = len(study.seeds)
    return "" if count == 1 else f"mean of {count} seeds, band: least to most; "


def _logarithmic(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, in plain figures, that do not overlap."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    steps = (1.0,) if high > 300 * low else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _explain_lines(figure: Figure, panels: list[Axes], look: Look) -> None:
    lines: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    style: dict[str, Any] = {"frameon": False, "fontsize": look.small}
    handles, labels = list(lines.values()), list(lines)
    if look.column_in is not None:
        columns = 2 if max(map(len, labels), default=0) < _SHORT_LABEL else 1
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, **style)
    elif len(lines) > _FEW_LABELS:
        figure.legend(handles, labels, loc="outside right center", **style)
    elif lines:
        panels[-1].legend(handles, labels, **style)


def _reference(table: pd.DataFrame) -> str:
    names = list(table["reference"].unique())
    return str(names[0]) if len(names) == 1 else "its reference"


def _sent_gb(curve: pd.DataFrame) -> pd.Series:
    total: pd.Series = curve[[f"bytes_{kind}" for kind in BYTE_KINDS]].sum(axis=1) / 1e9
    return total


def _draw(
    axes: Axes,
    results: list[Results],
    x_of: Callable[[pd.DataFrame], pd.Series],
    label: str,
    style: dict[str, Any],
) -> None:
    curves = []
    for result in results:
        score = "loss" if result.is_regression else "accuracy"
        x = x_of(result.curve).to_numpy(np.float64)
        y = result.curve[score].to_numpy(np.float64)
        curves.append((x[x > 0], y[x > 0]))
    curves = [curve for curve in curves if len(curve[0])]
    if not curves:
        return
    begin = max(x[0] for x, _ in curves)
    end = max(x[-1] for x, _ in curves)
    grid = np.geomspace(begin, max(end, begin * 1.01), 200)
    values = np.array([np.interp(grid, x, y) for x, y in curves])
    axes.plot(grid, values.mean(axis=0), label=label, lw=1.6, **style)
    low, high = values.min(axis=0), values.max(axis=0)
    axes.fill_between(grid, low, high, color=style["color"], alpha=0.12, lw=0)


def _draw_gateways(axes: Axes, result: Results, name: str, colour: str) -> None:
    """Their own models, where they were scored: of one seed, for means would hide swings."""
    score = "loss" if result.is_regression else "accuracy"
    for node, line in zip(result.scored_gateways, _THIN_LINES, strict=False):
        curve = result.gateway_curve(node)
        label = f"{name}, {node}, seed {result.summary['seed']}"
        axes.plot(curve["sim_time_s"], curve[score], color=colour, ls=line, lw=0.6, label=label)


def _tuning(study: Study, table: pd.DataFrame, look: Look) -> Figure:
    """Final scores over the tuned key's values, a line for each variant."""
    assert study.tuned is not None
    values, final = study.grid[study.tuned], table.set_index("variant")["final"]
    figure, (axes,) = look.figure(7, 4.2)
    for i, (stem, names) in enumerate(study.stems.items()):
        scores = [final.get(name, np.nan) for name in names]
        axes.plot(values, scores, marker="o", ms=4, label=stem, **look.line(i))
    numbers = all(isinstance(value, int | float) and value > 0 for value in values)
    axes.set(xlabel=study.tuned, ylabel="final score", xscale="log" if numbers else "linear")
    axes.set_xticks(values, [str(value) for value in values], minor=False)
    axes.xaxis.set_minor_formatter(NullFormatter())
    look.title(figure, study.title)
    axes.grid(alpha=0.3)
    _explain_lines(figure, [axes], look)
    return figure


def _ratios(study: Study, table: pd.DataFrame, look: Look) -> Figure:
    """Time to target as a multiple of the reference's, ours and published.

    On a logarithmic axis where ratios differ by more than ten.
    """
    figure, axes = _bars(study, table, ("ratio", "published"), "{:.2f}", "not reached", look)
    both = pd.concat([table["ratio"], table["published"].astype(float)]).dropna()
    if len(both) and both.max() > 10 * both.min():
        axes.set_xscale("log")
        axes.set_xlim(left=both.min() / 2)
    axes.axvline(1, color="0.4", lw=1)
    axes.set(xlabel=f"time to target, as a multiple of {_reference(table)}'s")
    return figure


def _scores(study: Study, table: pd.DataFrame, look: Look) -> Figure:
    figure, axes = _bars(study, table, ("best", "published_best"), "{:.4f}", "none", look)
    axes.set(xlabel="best score of the global model")
    return figure


def _bars(
    study: Study, table: pd.DataFrame, columns: tuple[str, str], form: str, missing: str, look: Look
) -> tuple[Figure, Axes]:
    """Ours and published, one below the other; ``missing`` stands where we have none."""
    figure, axes = look.bars(8, 1.4, 0.5, len(table))
    ours, published = table[columns[0]], table[columns[1]].astype(float)
    known = published.notna().any()
    width = 0.38 if known else 0.6
    place = np.arange(len(table)) - (width / 2 if known else 0)
    axes.barh(place, ours.fillna(0.0), width, color=COLOURS[0], label="here")
    if known:
        axes.barh(place + width, published.fillna(0.0), width, color=COLOURS[4], label="published")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    _say_values(axes, ours, place, form, missing, look)
    if known and look.column_in is not None:
        _say_values(axes, published, place + width, form, "", look)
    axes.set_yticks(np.arange(len(table)), table["variant"])
    axes.invert_yaxis()
    look.title(figure, study.title)
    return figure, axes


def _say_values(
    axes: Axes, values: pd.Series, places: np.ndarray, form: str, missing: str, look: Look
) -> None:
    for at, value in zip(places, values, strict=True):
        text = " " + (missing if pd.isna(value) else form.format(value))
        spot = (1.0 if pd.isna(value) else float(value), float(at))
        axes.annotate(text, spot, va="center", fontsize=look.small)


def _sweep(study: Study, sweep: Sweep, table: pd.DataFrame, look: Look) -> Figure:
    """Seconds to the target (or best scores) over the values of the grid's key, a line a variant.

    Where one of the lines crosses the first variant's, it says so.
    """
    (key,) = study.grid.keys() - {study.tuned}
    column, label = ("best", "best score") if table["target"].isna().all() else (
        "seconds", "seconds to target"
    )  # fmt: skip
    lines = _lines(study, key, table.set_index("variant")[column])
    figure, (axes,) = look.figure(7, 4.4)
    x = sweep.factor * np.array(study.grid[key], float)
    first = next(iter(lines))
    for i, (name, y) in enumerate(lines.items()):
        axes.plot(x, y, marker="o", ms=4, label=name, **look.line(i))
        for at in crossings(x, lines[first], y) if name != first else []:
            axes.axvline(at, color=COLOURS[i % len(COLOURS)], lw=1, ls=":")
            spot, where = (at, 0.02), ("data", "axes fraction")
            axes.annotate(f" {at:.2g}", spot, xycoords=where, fontsize=look.small)
    axes.set(xlabel=sweep.label, ylabel=label)
    _logarithmic(axes)
    if column == "seconds" and np.isfinite(list(lines.values())).any():
        axes.set_yscale("log")
    look.title(figure, study.title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=look.small)
    return figure


def _lines(study: Study, key: str, values: pd.Series) -> dict[str, np.ndarray]:
    """By variant without the grid: its value at each of the key's; nan where there is none."""
    spots = points(study.grid)
    places = [list(study.grid[key]).index(spot[key]) for spot in spots]
    lines: dict[str, np.ndarray] = {}
    for i, variant in enumerate(study.variants):
        spot, place = spots[i % len(spots)], places[i % len(spots)]
        line = lines.setdefault(
            variant.name.removesuffix(suffix(spot)), np.full(len(study.grid[key]), np.nan)
        )
        if variant.name in values.index:
            line[place] = values[variant.name]
    return lines


def crossings(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[float]:
    """Where two lines cross, straight in logarithms between the points."""
    apart, at = np.log(a / b), np.log(x)
    found = []
    for i in range(len(x) - 1):
        left, right = apart[i], apart[i + 1]
        if left * right < 0:
            found.append(float(np.exp(at[i] + (at[i + 1] - at[i]) * left / (left - right))))
    return found


def _grid(study: Study, table: pd.DataFrame, look: Look) -> Figure:
    """Best scores over the two keys of the grid, a panel for each variant."""
    best = table.set_index("variant")["best"]
    (down, rows), (across, columns) = study.grid.items()
    spots = points(study.grid)
    names = [v.name.removesuffix(suffix(spots[0])) for v in study.variants[:: len(spots)]]
    figure, panels = look.figure(3.6 + 1.5 / len(names), 3.6, len(names))
    for axes, name in zip(panels, names, strict=True):
        scores = [float(best.get(name + suffix(spot), np.nan)) for spot in spots]
        values = np.array(scores).reshape(len(rows), len(columns))
        axes.imshow(values, cmap="viridis", aspect="auto", vmin=best.min(), vmax=best.max())
        middle = (best.min() + best.max()) / 2
        for (i, j), value in np.ndenumerate(values):
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": look.small}
            axes.annotate(f"{value:.3f}", (j, i), color="k" if value > middle else "w", **style)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set(title=name, xlabel=across, ylabel=down)
    look.title(figure, f"{study.title}: best scores")
    return figure
