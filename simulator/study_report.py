"""What a study found: a table beside the published numbers, and figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from rich.box import SIMPLE
from rich.table import Table

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from simulator.compare import human_bytes
from simulator.parts import BYTE_KINDS
from simulator.plots import COLOURS
from simulator.results import Results
from simulator.study import Run, Study, Variant


def findings(study: Study, runs: list[Run]) -> pd.DataFrame:
    """A row for each variant: means over the seeds that reached the target, and how many did."""
    rows = []
    for variant in _told(study, runs):
        its_runs = [run for run in runs if run.variant == variant.name]
        results, target = [Results.load(run.folder) for run in its_runs], its_runs[0].target
        reached = [m for m in (result.milestone(target) for result in results) if m]
        seconds = [m.sim_time_s for m in reached]
        rows.append(
            {
                "variant": variant.name,
                "reference": variant.reference or study.reference,
                "target": target,
                "reached": f"{len(reached)}/{len(results)}",
                "seconds": np.mean(seconds) if seconds else np.nan,
                "spread": np.std(seconds, ddof=1) if len(seconds) > 1 else np.nan,
                "bytes": np.mean([m.total_bytes for m in reached]) if reached else np.nan,
                "overhead": np.mean([_overhead(result) for result in results]),
                "best": np.mean([_best(result) for result in results]),
                "longest": max(result.summary["sim_time_s"] for result in results),
                "published": variant.published or study.published.get(variant.name),
                "published_bytes": variant.published_bytes
                or study.published_bytes.get(variant.name),
            }
        )
    table = pd.DataFrame(rows)
    for ratio, of in (("ratio", "seconds"), ("bytes_ratio", "bytes")):
        table[ratio] = table[of] / table["reference"].map(table.set_index("variant")[of])
    return table


def _told(study: Study, runs: list[Run]) -> list[Variant]:
    told = {run.variant for run in runs}
    return [variant for variant in study.variants if variant.name in told]


def _overhead(result: Results) -> float:
    """Share of all bytes that are no models."""
    total = sum(result.summary[f"bytes_{kind}"] for kind in BYTE_KINDS)
    return float(result.summary["bytes_overhead"] / total) if total else 0.0


def _best(result: Results) -> float:
    best = result.summary["best_loss" if result.is_regression else "best_accuracy"]
    return float("nan") if best is None else float(best)


def cells(table: pd.DataFrame) -> pd.DataFrame:
    """As text; who did not reach the target has a lower bound on its time."""
    columns = {
        "variant": table["variant"],
        "target": _numbers(table["target"], "g"),
        "reached": table["reached"],
        "seconds": [_seconds(row) for _, row in table.iterrows()],
        "ratio": _numbers(table["ratio"]),
        "paper": _numbers(table["published"]),
        "bytes": ["-" if pd.isna(n) else human_bytes(n) for n in table["bytes"]],
        "ratio ": _numbers(table["bytes_ratio"]),
        "paper ": _numbers(table["published_bytes"]),
        "overhead": [f"{100 * share:.2f} %" for share in table["overhead"]],
        "best": _numbers(table["best"], ".4g"),
    }
    shown = pd.DataFrame(columns)
    silent = [name for name in ("paper", "paper ") if (shown[name] == "-").all()]
    alike = ["target"] if shown["target"].nunique() == 1 else []
    return shown.drop(columns=silent + alike)


def _seconds(row: pd.Series) -> str:
    if pd.isna(row["seconds"]):
        return f"> {row['longest']:,.0f}"
    spread = "" if pd.isna(row["spread"]) else f" ± {row['spread']:,.0f}"
    return f"{row['seconds']:,.0f}{spread}"


def _numbers(column: pd.Series, form: str = ".2f") -> list[str]:
    return ["-" if pd.isna(number) else format(number, form) for number in column]


def terminal_table(study: Study, table: pd.DataFrame) -> Table:
    targets = ", ".join(f"{target:g}" for target in table["target"].unique())
    result = Table(
        title=f"{study.title}: to target {targets}", box=SIMPLE, pad_edge=False,
        collapse_padding=True, show_edge=False,
    )  # fmt: skip
    shown = cells(table)
    for i, name in enumerate(shown):
        result.add_column(str(name).strip(), justify="left" if i == 0 else "right", no_wrap=True)
    for row in shown.itertuples(index=False):
        result.add_row(*row)
    return result


def markdown(table: pd.DataFrame) -> str:
    shown = cells(table)
    lines = ["| " + " | ".join(str(name).strip() for name in shown) + " |"]
    lines += ["|" + " --- |" + " ---: |" * (len(shown.columns) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in shown.itertuples(index=False)]
    return "\n".join(lines) + "\n"


def write(study: Study, runs: list[Run], out: Path) -> list[Path]:
    """findings.csv, findings.md, curves.png, ratios.png."""
    table = findings(study, runs)
    table.to_csv(out / "findings.csv", index=False)
    (out / "findings.md").write_text(markdown(table))
    draw_curves(study, runs, out / "curves.png")
    draw_ratios(study, table, out / "ratios.png")
    return [out / name for name in ("findings.csv", "findings.md", "curves.png", "ratios.png")]


def draw_curves(study: Study, runs: list[Run], path: Path) -> None:
    figure, (by_time, by_bytes) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for i, variant in enumerate(_told(study, runs)):
        results = [Results.load(run.folder) for run in runs if run.variant == variant.name]
        style = {"color": COLOURS[i % len(COLOURS)], "ls": "-" if i < len(COLOURS) else "--"}
        _draw(by_time, results, lambda curve: curve["sim_time_s"], variant.name, style)
        _draw(by_bytes, results, _sent_gb, variant.name, style)
    for axes, label in ((by_time, "simulated time [s]"), (by_bytes, "bytes sent [GB]")):
        for target in {run.target: None for run in runs}:
            axes.axhline(target, color="0.5", lw=1, ls=":")
        axes.set(xlabel=label, ylabel="test accuracy", xscale="log")
        axes.grid(alpha=0.3)
    figure.suptitle(
        f"{study.title} (mean of {len(study.seeds)} seeds, band: least to most; "
        "a run that has ended keeps its last value)"
    )
    by_bytes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


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


def draw_ratios(study: Study, table: pd.DataFrame, path: Path) -> None:
    """Time to target as a multiple of the reference's, ours and published.

    On a logarithmic axis where ratios differ by more than ten.
    """
    figure, axes = plt.subplots(figsize=(8, 1.4 + 0.5 * len(table)), layout="constrained")
    place = np.arange(len(table))
    known = table["published"].notna().any()
    width = 0.38 if known else 0.6
    ours = table["ratio"].fillna(0.0)
    axes.barh(place - (width / 2 if known else 0), ours, width, color=COLOURS[0], label="here")
    if known:
        published = table["published"].astype(float).fillna(0.0)
        axes.barh(place + width / 2, published, width, color=COLOURS[4], label="published")
    for at, ratio in zip(place, table["ratio"], strict=True):
        text = " not reached" if pd.isna(ratio) else f" {ratio:.2f}"
        where = 1.0 if pd.isna(ratio) else float(ratio), at - (width / 2 if known else 0)
        axes.annotate(text, where, va="center", fontsize=8)
    axes.set_yticks(place, table["variant"])
    axes.invert_yaxis()
    both = pd.concat([table["ratio"], table["published"].astype(float)]).dropna()
    if len(both) and both.max() > 10 * both.min():
        axes.set_xscale("log")
        axes.set_xlim(left=both.min() / 2)
    axes.margins(x=0.12)
    axes.axvline(1, color="0.4", lw=1)
    axes.set(xlabel=f"time to target, as a multiple of {_reference(table)}'s")
    axes.set_title(study.title)
    if known:
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
