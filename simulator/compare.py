"""Runs as tables for the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from simulator.parts import BYTE_KINDS
from simulator.results import Milestone, Results, check_target


def human_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1000
    return f"{count:.2f} TB"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


def summary_table(summary: dict[str, Any]) -> Table:
    """The few numbers of a run that people look for first."""
    table = Table(show_header=False, box=None)
    rows = {
        "algorithm": f"{summary['algorithm']}, seed {summary['seed']}",
        "network": f"{summary['devices']} devices, {summary['gateways']} gateways",
        "simulated time": f"{summary['sim_time_s']:,.1f} s in {summary['wall_time_s']:.1f} s",
        "epochs, events": f"{summary['epochs']:,}, {summary['events']:,}",
        "stopped by": summary["stop_reason"],
    }
    if summary.get("learning") != "none":
        rows["final loss"] = _number(summary["final_loss"])
    if summary["final_accuracy"] is not None:
        best = f"best {summary['best_accuracy']:.4f}"
        rows["final accuracy"] = f"{summary['final_accuracy']:.4f} ({best})"
    if summary["target"] is not None:
        reached = summary["time_to_target_s"]
        when = "not reached" if reached is None else f"at {reached:,.1f} s"
        rows[f"target {summary['target']:g}"] = when
    for kind in BYTE_KINDS:
        if summary[f"bytes_{kind}"] or kind != "peer":
            rows[f"bytes {kind}"] = human_bytes(summary[f"bytes_{kind}"])
    for part in ("radio", "processor"):
        if (used := summary.get(f"energy_{part}_j")) is not None:
            rows[f"energy {part}"] = f"{used:,.1f} J"
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def comparison_table(folders: list[Path], target: float) -> Table:
    """Ratios are to the first run: above 1 is slower, or more bytes."""
    runs = [Results.load(folder) for folder in folders]
    check_target(target, runs)
    first = runs[0].milestone(target)
    table = Table(
        title=f"to target {target:g}",
        box=SIMPLE,
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("run", overflow="fold")
    table.add_column("algorithm", no_wrap=True)
    for column in ("seed", "best", "epochs", "seconds", "ratio", "bytes", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in runs:
        table.add_row(*map(escape, _comparison_row(run, run.milestone(target), first)))
    return table


def _comparison_row(run: Results, here: Milestone | None, first: Milestone | None) -> list[str]:
    summary = run.summary
    best = summary["best_loss"] if run.is_regression else summary["best_accuracy"]
    shown = _number(best) if run.learned else "-"
    known = [run.name, summary["algorithm"], str(summary["seed"]), shown]
    if not run.learned:
        return [*known, "-", "no learning", "-", "-", "-"]
    if here is None:
        return [*known, "-", "not reached", "-", "-", "-"]
    time_ratio = f"{here.sim_time_s / first.sim_time_s:.2f}" if first and first.sim_time_s else "-"
    byte_ratio = (
        f"{here.total_bytes / first.total_bytes:.2f}" if first and first.total_bytes else "-"
    )
    time, sent = f"{here.sim_time_s:,.1f}", human_bytes(here.total_bytes)
    return [*known, str(here.epoch), time, time_ratio, sent, byte_ratio]
