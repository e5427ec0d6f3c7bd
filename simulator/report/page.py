"""The report as one page: everything that it needs is inside."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from simulator.report import (
    about,
    costs,
    curves,
    devices,
    gateways,
    rounds,
    timeline,
    topology_map,
)  # fmt: skip
from simulator.report.chart import COLOURS, Section, dash
from simulator.report.gather import Gathered, gather
from simulator.report.writing import check_place, write_whole
from simulator.results import check_target

_FIRST_SHOWN = 10
"""Of many variants: those whose curves are drawn before somebody asks for the others."""


def write_report(
    folders: list[Path], out: Path, target: float | None, reference: str | None
) -> Path:
    """The page of these runs and studies, whole or not at all."""
    check_place(out)
    gathered = gather(folders, reference)
    if target is not None:
        check_target(target, [run.results for run in gathered.runs])
    return write_whole(out, render(gathered, target))


def sections_of(gathered: Gathered, target: float | None) -> list[Section]:
    return [
        costs.summary(gathered, target),
        curves.section(gathered, target),
        costs.bars(gathered, target),
        rounds.latency(gathered),
        topology_map.section(gathered),
        timeline.section(gathered),
        gateways.section(gathered),
        devices.participation(gathered),
        rounds.staleness(gathered),
        devices.energy(gathered),
        about.differences(gathered),
        about.versions(gathered),
    ]


def render(gathered: Gathered, target: float | None = None) -> str:
    sections = sections_of(gathered, target)
    shown = [section for section in sections if not section.missing]
    environment = Environment(
        loader=PackageLoader("simulator.report", "."), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    groups = [
        {
            "number": group.number, "name": group.name, "seeds": [run.seed for run in group.runs],
            "colour": group.number % COLOURS, "dash": dash(group.number),
            "shown": group.number < _FIRST_SHOWN,
        }
        for group in gathered.groups
    ]  # fmt: skip
    return environment.get_template("page.html.j2").render(
        title=_title(gathered),
        sections=shown,
        missing=[section for section in sections if section.missing],
        groups=groups,
        runs=len(gathered.runs),
        scenarios=about.scenarios(gathered),
        version=gathered.runs[0].summary.get("meshfl_version", ""),
        style=Markup(_own("page.css")),
        script=Markup(_own("page.js")),
        plotly=Markup(_plotly()),
        data=Markup(script_json({"charts": _charts(shown), "groups": groups})),
    )


def script_json(content: Any) -> str:
    """JSON that no HTML parser, and no older JavaScript, reads anything else into."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _charts(sections: list[Section]) -> list[dict[str, Any]]:
    return [
        {
            "id": section.id, "views": chart.views, "logAxis": chart.log_axis,
            "controls": [list(control.options) for control in chart.controls],
        }
        for section in sections
        if (chart := section.chart) is not None
    ]  # fmt: skip


def _title(gathered: Gathered) -> str:
    if gathered.title:
        return gathered.title
    names = [group.name for group in gathered.groups]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _own(name: str) -> str:
    return (resources.files("simulator.report") / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """The library, which nothing that looks like the end of a script may cut short."""
    from plotly.offline import get_plotlyjs

    library: str = get_plotlyjs()
    return re.sub(r"</(script)", r"<\\/\1", library, flags=re.IGNORECASE)
