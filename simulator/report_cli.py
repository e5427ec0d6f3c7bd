"""``meshfl report`` and ``meshfl timeline``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from simulator.saying import say

console = Console()


def report(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of runs or of studies.", metavar="DIR...")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Page to write.")] = Path("report.html"),
    target: Annotated[
        float | None,
        typer.Option(help="Accuracy (for regression: loss) to reach (default: the scenarios')."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="VARIANT", help="What ratios are to (default: the study's, the first)."
        ),
    ] = None,
) -> None:
    """Write one page with tables and charts for a browser; it needs no network."""
    from simulator.report.page import write_report

    with console.status("reading the runs ..."):
        written = write_report(folders, out, target, reference)
    say(console, f"wrote {written}")


def timeline(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.", metavar="DIR")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Trace to write.")] = Path("trace.json"),
) -> None:
    """Write who trained, sent and waited when, for ui.perfetto.dev or chrome://tracing."""
    from simulator.report.trace import write_trace

    say(console, f"wrote {write_trace(folder, out)}")
