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
from matplotlib.figure import Figure

from simulator.compare import human_bytes
from simulator.parts import BYTE_KINDS
from simulator.plots import COLOURS
from simulator.results import Results
from simulator.study import Run, Study, Variant, points, suffix
from simulator.study_checks import Finding, Measure, judge, value_of

_THIN_LINES = ("-", "--", ":", "-.")


def findings(study: Study, runs: list[Run]) -> pd.DataFrame:
    """A row for each variant: means over the seeds that reached the target, and how many did.

    After it a row for each of its gateways whose own models were scored.
    """
    rows, chosen = [], set(tuned_variants(study, runs).values())
    for variant in _told(study, runs):
        its_runs = [run for run in runs if run.variant == variant.name]
        results, target = [Results.load(run.folder) for run in its_runs], its_runs[0].target
        milestones = [] if target is None else [result.milestone(target) for result in results]
        reached = [m for m in milestones if m]
        seconds = [m.sim_time_s for m in reached]
        best = [_best(result) for result in results]
        rows.append(
            {
                "variant": variant.name,
                "reference": variant.reference or study.reference,
                "target": np.nan if target is None else target,
                "reached": None if target is None else f"{len(reached)}/{len(results)}",
                "seconds": np.mean(seconds) if seconds else np.nan,
                "spread": np.std(seconds, ddof=1) if len(seconds) > 1 else np.nan,
                "epochs": np.mean([m.epoch for m in reached]) if reached else np.nan,
                "bytes": np.mean([m.total_bytes for m in reached]) if reached else np.nan,
                "overhead": np.mean([_overhead(result) for result in results]),
                "best": np.mean(best),
                "best_spread": np.std(best, ddof=1) if len(best) > 1 else np.nan,
                "final": np.mean([_final(result) for result in results]),
                "rounds": np.mean([result.summary["epochs"] for result in results]),
                "chosen": variant.name in chosen,
                "longest": max(result.summary["sim_time_s"] for result in results),
                "sent": np.mean([_sent(result) for result in results]),
                "published": variant.published or study.published.get(variant.name),
                "published_bytes": variant.published_bytes
                or study.published_bytes.get(variant.name),
                "published_best": variant.published_best,
            }
        )
        rows += [_gateway_row(rows[-1], node, results) for node in results[0].scored_gateways]
    table = pd.DataFrame(rows)
    for ratio, of in (("ratio", "seconds"), ("bytes_ratio", "bytes")):
        table[ratio] = table[of] / table["reference"].map(table.set_index("variant")[of])
    return table


def _gateway_row(row: dict[str, Any], node: str, results: list[Results]) -> dict[str, Any]:
    best = [value_of(Measure(variant="", of="best", node=node), result) for result in results]
    final = [value_of(Measure(variant="", node=node), result) for result in results]
    return row | {
        "variant": f"{row['variant']}, {node}", "best": np.mean(best), "final": np.mean(final),
        "best_spread": np.std(best, ddof=1) if len(best) > 1 else np.nan, "published_best": None,
    }  # fmt: skip


def _told(study: Study, runs: list[Run]) -> list[Variant]:
    told = {run.variant for run in runs}
    return [variant for variant in study.variants if variant.name in told]


def tuned_variants(study: Study, runs: list[Run]) -> dict[str, str]:
    """By name without the tuned key: the variant with the best final score in the mean."""
    told = {variant.name for variant in _told(study, runs)}
    stems = {stem: [name for name in names if name in told] for stem, names in study.stems.items()}
    return {stem: _best_of(names, runs) for stem, names in stems.items() if names}


def _best_of(names: list[str], runs: list[Run]) -> str:
    if len(names) == 1:
        return names[0]

    def score(name: str) -> float:
        results = [Results.load(run.folder) for run in runs if run.variant == name]
        mean = float(np.mean([_final(result) for result in results]))
        return -np.inf if np.isnan(mean) else -mean if results[0].is_regression else mean

    return max(names, key=score)


def checked(study: Study, runs: list[Run]) -> list[Finding]:
    chosen = tuned_variants(study, runs)

    def results_of(stem: str) -> dict[int, Results]:
        name = chosen.get(stem)
        return {run.seed: Results.load(run.folder) for run in runs if run.variant == name}

    return judge(study.checks, results_of)


def _sent(result: Results) -> int:
    return sum(int(result.summary[f"bytes_{kind}"]) for kind in BYTE_KINDS)


def _overhead(result: Results) -> float:
    """Share of all bytes that are no models."""
    total = _sent(result)
    return float(result.summary["bytes_overhead"] / total) if total else 0.0


def _best(result: Results) -> float:
    return _score(result, "best")


def _final(result: Results) -> float:
    return _score(result, "final")


def _score(result: Results, which: str) -> float:
    score = result.summary[f"{which}_{'loss' if result.is_regression else 'accuracy'}"]
    return float("nan") if score is None else float(score)


def cells(table: pd.DataFrame) -> pd.DataFrame:
    """As text, without the columns of which nothing is known."""
    table = table[table["chosen"]].reset_index(drop=True)
    columns = _at_the_end(table) if table["reached"].isna().all() else _at_the_target(table)
    shown = pd.DataFrame(columns)
    silent = [name for name in columns if name.startswith("paper") and (shown[name] == "-").all()]
    if "target" in shown and shown["target"].nunique() == 1:
        silent.append("target")
    return shown.drop(columns=silent)


def _at_the_target(table: pd.DataFrame) -> dict[str, Any]:
    """Who did not reach the target has a lower bound on its time."""
    return {
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
        "paper  ": _numbers(table["published_best"], ".4g"),
    }


def _at_the_end(table: pd.DataFrame) -> dict[str, Any]:
    spreads = _numbers(table["best_spread"], ".4f")
    best = zip(_numbers(table["best"], ".4f"), spreads, strict=True)
    return {
        "variant": table["variant"],
        "best": [mean if spread == "-" else f"{mean} ± {spread}" for mean, spread in best],
        "paper": _numbers(table["published_best"], ".4f"),
        "final": _numbers(table["final"], ".4f"),
        "rounds": _numbers(table["rounds"], ",.0f"),
        "seconds": [f"{seconds:,.0f}" for seconds in table["longest"]],
        "bytes": [human_bytes(n) for n in table["sent"]],
        "overhead": [f"{100 * share:.2f} %" for share in table["overhead"]],
    }


def _seconds(row: pd.Series) -> str:
    if pd.isna(row["seconds"]):
        return f"> {row['longest']:,.0f}"
    spread = "" if pd.isna(row["spread"]) else f" ± {row['spread']:,.0f}"
    return f"{row['seconds']:,.0f}{spread}"


def _numbers(column: pd.Series, form: str = ".2f") -> list[str]:
    return ["-" if pd.isna(number) else format(number, form) for number in column]


def terminal_table(study: Study, table: pd.DataFrame) -> Table:
    targets = ", ".join(f"{target:g}" for target in table["target"].dropna().unique())
    aim = f"to target {targets}" if targets else "best scores"
    result = Table(
        title=f"{study.title}: {aim}", box=SIMPLE, pad_edge=False,
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
    """findings.csv, findings.md, curves.png; ratios.png or scores.png; with two keys, grid.png.

    Where a key was tuned, findings.csv has all of its values and tuning.png draws them.
    """
    table = findings(study, runs)
    table.to_csv(out / "findings.csv", index=False)
    checks = "".join(f"- {finding.text}\n" for finding in checked(study, runs))
    (out / "findings.md").write_text(markdown(table) + (f"\n{checks}" if checks else ""))
    draw_curves(study, runs, out / "curves.png")
    written = [out / name for name in ("findings.csv", "findings.md", "curves.png")]
    shown = table[table["chosen"]].reset_index(drop=True)
    if table["target"].isna().all():
        _draw_scores(study, shown, out / "scores.png")
        written.append(out / "scores.png")
    else:
        draw_ratios(study, shown, out / "ratios.png")
        written.append(out / "ratios.png")
    if study.tuned is not None:
        draw_tuning(study, table, out / "tuning.png")
        written.append(out / "tuning.png")
    if len(study.grid) == 2:
        draw_grid(study, table, out / "grid.png")
        written.append(out / "grid.png")
    return written


def draw_curves(study: Study, runs: list[Run], path: Path) -> None:
    figure, (by_time, by_bytes) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    chosen = set(tuned_variants(study, runs).values())
    for i, variant in enumerate(v for v in _told(study, runs) if v.name in chosen):
        results = [Results.load(run.folder) for run in runs if run.variant == variant.name]
        style = {"color": COLOURS[i % len(COLOURS)], "ls": "-" if i < len(COLOURS) else "--"}
        _draw(by_time, results, lambda curve: curve["sim_time_s"], variant.name, style)
        _draw(by_bytes, results, _sent_gb, variant.name, style)
        _draw_gateways(by_time, results[0], variant.name, style["color"])
    for axes, label in ((by_time, "simulated time [s]"), (by_bytes, "bytes sent [GB]")):
        for target in {run.target: None for run in runs if run.target is not None}:
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


def _draw_gateways(axes: Axes, result: Results, name: str, colour: str) -> None:
    """Their own models, where they were scored: of one seed, for means would hide swings."""
    score = "loss" if result.is_regression else "accuracy"
    for node, line in zip(result.scored_gateways, _THIN_LINES, strict=False):
        curve = result.gateway_curve(node)
        label = f"{name}, {node}, seed {result.summary['seed']}"
        axes.plot(curve["sim_time_s"], curve[score], color=colour, ls=line, lw=0.6, label=label)
    if result.scored_gateways:
        axes.legend(frameon=False, fontsize=7)


def draw_tuning(study: Study, table: pd.DataFrame, path: Path) -> None:
    """Final scores over the tuned key's values, a line for each variant."""
    assert study.tuned is not None
    values, final = study.grid[study.tuned], table.set_index("variant")["final"]
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for i, (stem, names) in enumerate(study.stems.items()):
        scores = [final.get(name, np.nan) for name in names]
        colour, line = COLOURS[i % len(COLOURS)], "-" if i < len(COLOURS) else "--"
        axes.plot(values, scores, marker="o", ms=4, label=stem, color=colour, ls=line)
    numbers = all(isinstance(value, int | float) and value > 0 for value in values)
    axes.set(xlabel=study.tuned, ylabel="final score", xscale="log" if numbers else "linear")
    axes.set_title(study.title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_ratios(study: Study, table: pd.DataFrame, path: Path) -> None:
    """Time to target as a multiple of the reference's, ours and published.

    On a logarithmic axis where ratios differ by more than ten.
    """
    figure, axes = _bars(study, table, "ratio", "published", "{:.2f}", "not reached")
    both = pd.concat([table["ratio"], table["published"].astype(float)]).dropna()
    if len(both) and both.max() > 10 * both.min():
        axes.set_xscale("log")
        axes.set_xlim(left=both.min() / 2)
    axes.axvline(1, color="0.4", lw=1)
    axes.set(xlabel=f"time to target, as a multiple of {_reference(table)}'s")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_scores(study: Study, table: pd.DataFrame, path: Path) -> None:
    figure, axes = _bars(study, table, "best", "published_best", "{:.4f}", "none")
    axes.set(xlabel="best score of the global model")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _bars(
    study: Study, table: pd.DataFrame, ours: str, published: str, form: str, missing: str
) -> tuple[Figure, Axes]:
    """Ours and published, one below the other; ``missing`` stands where we have none."""
    figure, axes = plt.subplots(figsize=(8, 1.4 + 0.5 * len(table)), layout="constrained")
    known = table[published].notna().any()
    width = 0.38 if known else 0.6
    place = np.arange(len(table)) - (width / 2 if known else 0)
    axes.barh(place, table[ours].fillna(0.0), width, color=COLOURS[0], label="here")
    if known:
        theirs = table[published].astype(float).fillna(0.0)
        axes.barh(place + width, theirs, width, color=COLOURS[4], label="published")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    for at, value in zip(place, table[ours], strict=True):
        text = " " + (missing if pd.isna(value) else form.format(value))
        axes.annotate(text, (1.0 if pd.isna(value) else float(value), at), va="center", fontsize=8)
    axes.set_yticks(np.arange(len(table)), table["variant"])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title(study.title)
    return figure, axes


def draw_grid(study: Study, table: pd.DataFrame, path: Path) -> None:
    """Best scores over the two keys of the grid, a panel for each variant."""
    best = table.set_index("variant")["best"]
    (down, rows), (across, columns) = study.grid.items()
    spots = points(study.grid)
    names = [v.name.removesuffix(suffix(spots[0])) for v in study.variants[:: len(spots)]]
    figure, panels = plt.subplots(
        1, len(names), figsize=(1.5 + 3.6 * len(names), 3.6), layout="constrained", squeeze=False
    )
    for axes, name in zip(panels[0], names, strict=True):
        scores = [float(best.get(name + suffix(spot), np.nan)) for spot in spots]
        values = np.array(scores).reshape(len(rows), len(columns))
        axes.imshow(values, cmap="viridis", aspect="auto", vmin=best.min(), vmax=best.max())
        for (i, j), value in np.ndenumerate(values):
            axes.annotate(f"{value:.3f}", (j, i), ha="center", va="center", color="w", fontsize=8)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set(title=name, xlabel=across, ylabel=down)
    figure.suptitle(f"{study.title}: best scores")
    figure.savefig(path, dpi=150)
    plt.close(figure)
