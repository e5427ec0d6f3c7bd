"""A comparison with live ns-3, to be looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from ns3_scenarios.validate import Fidelity, Played, goals
from simulator.figures import COLOURS

_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def fidelity_table(rows: list[Fidelity]) -> Table:
    """In 80 columns; the mean and the makespan of ns-3 are given with their deviation."""
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("traffic", "network"):
        table.add_column(name, no_wrap=True)
    some_lost = any(row.lost for row in rows)
    for name in (
        *(["lost"] if some_lost else []),
        "mean",
        "makespan",
        "median",
        "95 %",
        "KS",
        "transfers\n/ CPU s",
        "sim s\n/ CPU s",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    before = ""
    for row in rows:
        sign = "±" if row.network.startswith("ns3") else ""
        table.add_row(
            row.traffic if row.traffic != before else "",
            row.network,
            *([f"{row.lost:.3g}"] if some_lost else []),
            f"{sign}{_percent(row.mean_bias, not sign)}",
            f"{sign}{_percent(row.makespan_error, not sign)}",
            _percent(row.median_error, False),
            _percent(row.p95_error, False),
            f"{row.ks:.3f}",
            f"{row.transfers_per_cpu_s:,.0f}",
            f"{row.sim_s_per_cpu_s:,.{0 if row.sim_s_per_cpu_s >= 100 else 1}f}",
        )
        before = row.traffic
    return table


def goals_table(rows: dict[str, list[Fidelity]]) -> Table:
    """What a profile is to reach, and whether it does."""
    found = {traffic: goals(own) for traffic, own in rows.items()}
    table = Table("goal", *found, box=None, header_style="bold")
    for goal in next(iter(found.values())):
        table.add_row(goal, *("yes" if own[goal] else "NO" for own in found.values()))
    return table


def draw_fidelity(played: dict[str, dict[str, Played]], title: str, path: Path) -> Path:
    """The share of transfers that took no longer, by traffic and network."""
    figure = Figure(figsize=(4.2 * len(played), 4.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(played), sharey=True))
    for chart, (traffic, networks) in zip(axes, played.items(), strict=True):
        _draw(chart, traffic, networks)
    axes[0].set_ylabel("share of transfers")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    partial = path.with_name(f".{path.name}")
    figure.savefig(partial, dpi=150, format="png")
    partial.replace(path)
    return path


def _draw(chart: Axes, traffic: str, networks: dict[str, Played]) -> None:
    for (name, run), colour, line in zip(networks.items(), COLOURS, _LINES, strict=False):
        x = np.sort(run.arrived)
        share = np.arange(1, len(x) + 1) / len(run.seconds)
        chart.step(x, share, where="post", label=name, color=colour, ls=line, lw=1.6)
    chart.set_xscale("log")
    chart.set(title=traffic, xlabel="duration of a transfer [s]", ylim=(0, 1.01))
    chart.grid(alpha=0.3)


def _percent(value: float, signed: bool) -> str:
    digits = 0 if abs(value) >= 0.995 else 1
    return f"{100 * value:{'+' if signed else ''}.{digits}f} %"
