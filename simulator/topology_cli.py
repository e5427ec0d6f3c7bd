"""``meshfl topology``: make, import, look at and check topologies."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from simulator.errors import UserError
from simulator.saying import say

if TYPE_CHECKING:
    from topologies import Topology
    from topologies.importers.assemble import Choice
    from topologies.importers.report import ImportReport

topology_app = typer.Typer(
    help="Topologies: make, import, draw and check them.", no_args_is_help=True
)
console = Console()

Named = Annotated[
    Path, typer.Argument(help="A .json file, or a shipped topology's name.", metavar="TOPOLOGY")
]
Profile = Annotated[str | None, typer.Option(help="Radio profile (default: the file's first).")]
Output = Annotated[Path, typer.Option("-o", "--out", help="Topology file (.json) to write.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")]


class Format(StrEnum):
    meshdb = "meshdb"
    kml = "kml"
    geojson = "geojson"
    node_link = "node-link"
    replay = "replay"


FILES = {
    Format.meshdb: ("nodes.json", "links.json", "[sectors.json]"),
    Format.kml: ("map.kml",),
    Format.geojson: ("map.geojson",),
    Format.node_link: ("network.json",),
    Format.replay: ("delays.csv", "cloud.csv"),
}


class Kind(StrEnum):
    nycmesh = "nycmesh"
    metro = "metro"
    campus = "campus"
    rural = "rural"


@topology_app.command()
def generate(
    kind: Annotated[Kind, typer.Argument(help="What it looks like.")],
    out: Output,
    devices: Annotated[int, typer.Option(min=1, max=100_000)] = 184,
    gateways: Annotated[int, typer.Option(min=1, max=1000)] = 6,
    seed: Seed = 1,
) -> None:
    """Draw a network of a given kind and size; the same seed gives the same file."""
    from simulator.rng import Stream, generator
    from topologies.nycmesh import nycmesh
    from topologies.styles import STYLES

    made = nycmesh(
        devices,
        gateways,
        rng=generator(seed, Stream.TOPOLOGY),
        name=out.stem,
        style=STYLES[kind.value],
    )
    _save(made, out)


@topology_app.command(name="import")
def import_(
    format_: Annotated[Format, typer.Argument(metavar="FORMAT", help="|".join(Format))],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What to read.")],
    out: Output,
    gateways: Annotated[
        int | None,
        typer.Option(min=1, help="The N sites with the most links, instead of those marked."),
    ] = None,
    reach_m: Annotated[
        float | None,
        typer.Option("--reach-m", min=0, help="Gateways so near are in reach, linked or not."),
    ] = None,
    height_m: Annotated[
        float, typer.Option("--height-m", help="Of nodes with neither height nor altitude.")
    ] = 10.0,
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(
            metavar="S W N E", help="meshdb: what lies outside is dropped (default: New York)."
        ),
    ] = None,
    devices: Annotated[
        int, typer.Option(min=1, max=100_000, help="node-link: drawn around the gateways.")
    ] = 100,
    seed: Seed = 1,
) -> None:
    """Read a topology from the files of others; tell what was dropped and what was assumed."""
    from dataclasses import replace

    from topologies.importers.assemble import Choice

    _check_files(format_, files)
    choice = Choice(gateways, reach_m, height_m)
    imported, report = _read(format_, files, choice, box, devices, seed)
    _save(replace(imported, name=out.stem), out)
    _tell(report)


@topology_app.command()
def show(
    topology: Named,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Picture, .png or .svg (default: NAME.png).")
    ] = None,
    profile: Profile = None,
) -> None:
    """Draw a map: tiers, links by kind, gateways in reach, received power as colour."""
    loaded = load_named(topology, profile)
    from topologies.picture import draw

    say(console, f"wrote {draw(loaded, out or Path(f'{loaded.name}.png'))}")
    _warn(loaded)


@topology_app.command()
def check(topology: Named, profile: Profile = None) -> None:
    """Read a topology and say what is in it."""
    loaded = load_named(topology, profile)
    from rich.table import Table

    from topologies.facts import facts

    table = Table(show_header=False, box=None, title=f"{topology}: good", title_justify="left")
    for name, value in facts(loaded).items():
        table.add_row(name, value)
    console.print(table, highlight=False)
    _warn(loaded)


def _check_files(format_: Format, files: list[Path]) -> None:
    wanted = FILES[format_]
    least = sum(not name.startswith("[") for name in wanted)
    if not least <= len(files) <= len(wanted):
        raise UserError(f"{format_} reads {' '.join(wanted)}, but {len(files)} files are given")


def _read(
    format_: Format,
    files: list[Path],
    choice: Choice,
    box: tuple[float, float, float, float] | None,
    devices: int,
    seed: int,
) -> tuple[Topology, ImportReport]:
    match format_:
        case Format.meshdb:
            from topologies.importers.meshdb import NEW_YORK, import_meshdb

            sectors = files[2] if len(files) > 2 else None
            return import_meshdb(files[0], files[1], sectors, choice, box or NEW_YORK)
        case Format.kml:
            from topologies.importers.kml import import_kml

            return import_kml(files[0], choice)
        case Format.geojson:
            from topologies.importers.geojson import import_geojson

            return import_geojson(files[0], choice)
        case Format.node_link:
            from simulator.rng import Stream, generator
            from topologies.importers.node_link import import_node_link

            return import_node_link(files[0], devices, generator(seed, Stream.TOPOLOGY))
        case Format.replay:
            from topologies import topology_from_replay
            from topologies.importers.report import ImportReport

            return topology_from_replay(files[0], files[1]), ImportReport()


def _tell(report: ImportReport) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "", "count", "first", box=None, header_style="bold")
    for what, count in report.kept.items():
        table.add_row("kept", what, str(count), "")
    for (what, why), problem in report.dropped.items():
        table.add_row("dropped", f"{what}: {why}", str(problem.count), escape(problem.example))
    for what, problem in report.assumed.items():
        table.add_row("assumed", what, str(problem.count), escape(problem.example))
    if table.row_count:
        console.print(table, highlight=False)


def _warn(topology: Topology) -> None:
    from rich.markup import escape

    from topologies.facts import warnings

    for warning in warnings(topology):
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)


def load_named(path: Path, profile: str | None) -> Topology:
    from topologies import find_topology

    loaded = find_topology(path)
    return loaded if profile is None else loaded.with_radio(profile)


def _save(topology: Topology, out: Path) -> None:
    if out.suffix != ".json":
        raise UserError(f"{out}: a topology file ends in .json; rename it")
    try:
        topology.save(out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error}") from None
    console.print(
        f"wrote {out}: {len(topology.devices)} devices, {len(topology.gateways)} gateways, "
        f"{len(topology.links)} links",
        highlight=False,
    )
