"""Pictures of runs."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulator.figures import COLOURS, SCREEN, Look
from simulator.folders import make_folder
from simulator.parts import BYTE_KINDS
from simulator.results import Results, labels

_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIME_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "h"), (0.0, 1.0, "s"))


def plot_runs(folders: list[Path], out: Path, look: Look = SCREEN) -> list[Path]:
    """accuracy and bytes of some runs, into ``out``; only bytes without learning."""
    runs = [Results.load(folder) for folder in folders]
    names = labels(runs)
    make_folder(out, out)
    scored = [(run, label) for run, label in zip(runs, names, strict=True) if run.learned]
    written = []
    with look.used():
        if scored:
            name = "loss" if any(run.is_regression for run, _ in scored) else "accuracy"
            figure = _score_figure([r for r, _ in scored], [la for _, la in scored], name, look)
            written += look.save(figure, out / name)
        written += look.save(_bytes_figure(runs, names, look), out / "bytes")
    return written


def _score_figure(runs: list[Results], labels: list[str], score: str, look: Look) -> Figure:
    figure, (axes,) = look.figure(7, 4.2)
    longest = max(float(run.curve["sim_time_s"].max()) for run in runs)
    scale, unit = next((s, u) for least, s, u in _TIME_UNITS if longest >= least)
    for i, (run, label) in enumerate(zip(runs, labels, strict=True)):
        x, y = run.curve["sim_time_s"] / scale, run.curve[score]
        axes.plot(x, y, label=label, marker="o", ms=3, lw=1.5, **look.line(i))
    _draw_targets(axes, runs, look)
    axes.set(xlabel=f"simulated time [{unit}]", ylabel=f"test {score}")
    look.title(axes, f"{score.capitalize()} of the global model over simulated time")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    if score == "loss":
        axes.set_yscale("log")
    return figure


def _draw_targets(axes: Axes, runs: list[Results], look: Look) -> None:
    for target in sorted({r.summary["target"] for r in runs} - {None}):
        axes.axhline(target, color="0.5", lw=1, ls=":")
        axes.annotate(
            f"target {target:g}", (1, target), xycoords=("axes fraction", "data"),
            ha="right", va="bottom", fontsize=look.small, color="0.35",
        )  # fmt: skip


def _bytes_figure(runs: list[Results], labels: list[str], look: Look) -> Figure:
    figure, axes = look.bars(7, 1.6, 0.45, len(runs))
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
        axes.annotate(f" {total:.3g}", (total, label), va="center", fontsize=look.small + 1)
    axes.invert_yaxis()
    axes.set(xlabel=f"sent [{unit}]")
    look.title(axes, "Bytes sent, by kind")
    figure.legend(loc="outside lower center", ncols=len(BYTE_KINDS), frameon=False)
    return figure
