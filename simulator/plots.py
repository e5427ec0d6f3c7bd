"""Pictures of runs."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulator.parts import BYTE_KINDS
from simulator.results import Results

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: told apart by colour-blind readers too."""
_LINES = ("-", "--", "-.", ":")
_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIME_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "h"), (0.0, 1.0, "s"))


def plot_runs(folders: list[Path], out: Path) -> list[Path]:
    """accuracy.png and bytes.png of some runs, into ``out``; only bytes.png without learning."""
    runs = [Results.load(folder) for folder in folders]
    labels = _labels(runs)
    out.mkdir(parents=True, exist_ok=True)
    written = [_save(_bytes_figure(runs, labels), out / "bytes.png")]
    scored = [(run, label) for run, label in zip(runs, labels, strict=True) if run.learned]
    if scored:
        name = "loss" if any(run.is_regression for run, _ in scored) else "accuracy"
        figure = _score_figure([r for r, _ in scored], [label for _, label in scored], name)
        written.insert(0, _save(figure, out / f"{name}.png"))
    return written


def _labels(runs: list[Results]) -> list[str]:
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder) for run in runs]


def _score_figure(runs: list[Results], labels: list[str], score: str) -> Figure:
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    longest = max(float(run.curve["sim_time_s"].max()) for run in runs)
    scale, unit = next((s, u) for least, s, u in _TIME_UNITS if longest >= least)
    for i, (run, label) in enumerate(zip(runs, labels, strict=True)):
        colour, line = COLOURS[i % len(COLOURS)], _LINES[i // len(COLOURS) % len(_LINES)]
        x, y = run.curve["sim_time_s"] / scale, run.curve[score]
        axes.plot(x, y, label=label, marker="o", ms=3, lw=1.5, color=colour, ls=line)
    _draw_targets(axes, runs)
    axes.set(xlabel=f"simulated time [{unit}]", ylabel=f"test {score}")
    axes.set_title(f"{score.capitalize()} of the global model over simulated time")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    if score == "loss":
        axes.set_yscale("log")
    return figure


def _draw_targets(axes: Axes, runs: list[Results]) -> None:
    for target in sorted({r.summary["target"] for r in runs} - {None}):
        axes.axhline(target, color="0.5", lw=1, ls=":")
        axes.annotate(
            f"target {target:g}", (1, target), xycoords=("axes fraction", "data"),
            ha="right", va="bottom", fontsize=8, color="0.35",
        )  # fmt: skip


def _bytes_figure(runs: list[Results], labels: list[str]) -> Figure:
    height = 1.6 + 0.45 * len(runs)
    figure, axes = plt.subplots(figsize=(7, height), layout="constrained")
    totals = [sum(r.summary[f"bytes_{k}"] for k in BYTE_KINDS) for r in runs]
    scale, unit = next((s, u) for s, u in _BYTE_UNITS if max(totals) >= s or s == 1.0)
    left = [0.0] * len(runs)
    for kind, colour in zip(BYTE_KINDS, COLOURS, strict=False):
        sent = [r.summary[f"bytes_{kind}"] / scale for r in runs]
        if not any(sent):
            continue
        axes.barh(labels, sent, left=left, color=colour, label=kind, height=0.6)
        left = [a + b for a, b in zip(left, sent, strict=True)]
    for label, total in zip(labels, left, strict=True):
        axes.annotate(f" {total:.3g}", (total, label), va="center", fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set(xlabel=f"sent [{unit}]")
    axes.set_title("Bytes sent, by kind")
    figure.legend(loc="outside lower center", ncols=len(BYTE_KINDS), frameon=False)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    partial = path.with_name(f".{path.name}")
    figure.savefig(partial, dpi=150, format="png")
    plt.close(figure)
    partial.replace(path)
    return path
