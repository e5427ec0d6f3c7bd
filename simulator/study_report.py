"""What a study found, for people: a table beside the published numbers, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from simulator.compare import human_bytes
from simulator.figures import PAPER, SCREEN, Look
from simulator.folders import make_folder
from simulator.latex import booktabs
from simulator.recorder import write_text
from simulator.study import Run, Study
from simulator.study_figures import figures
from simulator.study_findings import checked, findings

SPREAD = "±: standard deviation over the seeds"


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
        title=escape(f"{study.title}: {aim}"), box=SIMPLE, pad_edge=False,
        collapse_padding=True, show_edge=False,
    )  # fmt: skip
    shown = cells(table)
    if shown.map(lambda cell: "±" in cell).to_numpy().any():
        result.caption = SPREAD
    for i, (name, column) in enumerate(shown.items()):
        if i == 0:
            result.add_column(str(name).strip(), min_width=12, overflow="fold")
            continue
        width = max(len(text) for text in (str(name).strip(), *column))
        result.add_column(str(name).strip(), justify="right", no_wrap=True, min_width=width)
    for row in shown.itertuples(index=False):
        result.add_row(*map(escape, row))
    return result


def markdown(table: pd.DataFrame) -> str:
    shown = cells(table)
    lines = ["| " + " | ".join(str(name).strip() for name in shown) + " |"]
    lines += ["|" + " --- |" + " ---: |" * (len(shown.columns) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in shown.itertuples(index=False)]
    return "\n".join(lines) + "\n"


def write(study: Study, runs: list[Run], out: Path) -> list[Path]:
    """findings.csv, findings.md, and the figures.

    Where a key was tuned, findings.csv has all of its values.
    """
    table = findings(study, runs)
    table.to_csv(out / "findings.csv", index=False)
    checks = "".join(f"- {finding.text}\n" for finding in checked(study, runs))
    (out / "findings.md").write_text(markdown(table) + (f"\n{checks}" if checks else ""))
    return [out / "findings.csv", out / "findings.md", *_draw(study, runs, table, out, SCREEN)]


def write_figures(folder: Path, out: Path, look: Look) -> list[Path]:
    """Of the study in that folder; for a paper findings.tex too."""
    study, runs = Study.of_folder(folder)
    table, written = findings(study, runs), []
    make_folder(out, out)
    if look is PAPER:
        write_text(out / "findings.tex", f"% {SPREAD}\n{booktabs(cells(table))}")
        written.append(out / "findings.tex")
    return [*written, *_draw(study, runs, table, out, look)]


def _draw(study: Study, runs: list[Run], table: pd.DataFrame, out: Path, look: Look) -> list[Path]:
    written = []
    with look.used():
        for name, figure in figures(study, runs, table, look):
            written += look.save(figure, out / name)
    return written
