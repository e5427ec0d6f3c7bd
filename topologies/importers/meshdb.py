"""NYCMesh's meshdb: the json of ``mapdata/nodes``, ``mapdata/links`` and ``mapdata/sectors``.

Kept are nodes with status "Installed" inside the box, links that are active, 60GHz or fiber
between two of them, and active sectors. Gateways are the nodes whose name or notes say "hub" or
"supernode". Altitudes are above sea level; azimuths clockwise from north; radii in kilometres.
"""

from __future__ import annotations

from pathlib import Path

from simulator.errors import UserError
from topologies.importers.assemble import Choice, Kind, Line, Map, Sector, Site, assemble
from topologies.importers.report import ImportReport
from topologies.importers.values import degrees, number, read_json, text
from topologies.records import Tier
from topologies.topology import Topology

Box = tuple[float, float, float, float]
NEW_YORK: Box = (40.4, -74.3, 41.0, -73.6)
"""South, west, north, east: the city with a margin. Outliers are slips of the pen."""
KINDS: dict[str, Kind] = {"active": "wifi", "60ghz": "wifi", "fiber": "fibre"}
HUBS = ("hub", "supernode")


def import_meshdb(
    nodes: Path, links: Path, sectors: Path | None, choice: Choice, box: Box = NEW_YORK
) -> tuple[Topology, ImportReport]:
    _check_box(box)
    report = ImportReport()
    known: set[str] = set()
    sites = _sites(_rows(nodes), box, known, report)
    lines = _lines(_rows(links), sites, known, report)
    covered = _sectors(_rows(sectors) if sectors else [], sites, report)
    found = Map(sites, lines, covered, [], "by 'hub' or 'supernode' in its name or notes")
    try:
        return assemble(nodes.stem, found, choice, report), report
    except UserError as error:
        raise UserError(f"{nodes}: {error}") from None


def _check_box(box: Box) -> None:
    south, west, north, east = box
    if not (-90 <= south < north <= 90 and -180 <= west < east <= 180):
        shown = " ".join(f"{degree:g}" for degree in box)
        raise UserError(
            f"--box {shown}: it must be south, west, north and east in degrees, south below north "
            "(-90 to 90) and west below east (-180 to 180)"
        )


def _rows(path: Path) -> list[object]:
    rows = read_json(path)
    if not isinstance(rows, list):
        raise UserError(f"{path}: {type(rows).__name__}; it must be a list of records")
    return rows


def _sites(rows: list[object], box: Box, known: set[str], report: ImportReport) -> dict[str, Site]:
    sites: dict[str, Site] = {}
    for row in rows:
        name = text(row.get("id")) if isinstance(row, dict) else None
        if name is None or not isinstance(row, dict):
            report.drop("nodes", "no usable id", row)
            continue
        known.add(name)
        where = degrees(row.get("coordinates"))
        if row.get("status") != "Installed":
            report.drop("nodes", "not installed", row)
        elif where is None:
            report.drop("nodes", "no usable coordinates", row)
        elif not (box[0] <= where[1] <= box[2] and box[1] <= where[0] <= box[3]):
            report.drop("nodes", "outside the box", row)
        elif name in sites:
            report.drop("nodes", "id taken by another", row)
        else:
            said = f"{row.get('name')} {row.get('notes')}".lower()
            tier = Tier.GATEWAY if any(word in said for word in HUBS) else None
            sites[name] = Site(name, where[1], where[0], where[2], tier=tier)
    return sites


def _lines(
    rows: list[object], sites: dict[str, Site], known: set[str], report: ImportReport
) -> list[Line]:
    lines = []
    for row in rows:
        ends = [text(row.get(key)) for key in ("from", "to")] if isinstance(row, dict) else []
        a, b = ends or (None, None)
        status = str(row.get("status")).lower() if isinstance(row, dict) else ""
        if a not in known or b not in known or a is None or b is None:
            report.drop("links", "an end is unknown", row)
        elif status not in KINDS:
            report.drop("links", f"status {status!r}"[:40], row)
        elif a not in sites or b not in sites:
            report.drop("links", "an end was dropped", row)
        else:
            lines.append(Line(a, b, KINDS[status]))
    return lines


def _sectors(rows: list[object], sites: dict[str, Site], report: ImportReport) -> list[Sector]:
    sectors = []
    for row in rows:
        site = text(row.get("nodeId")) if isinstance(row, dict) else None
        keys = ("radius", "azimuth", "width")
        radius, azimuth, width = (
            (number(row.get(key)) for key in keys) if isinstance(row, dict) else (None,) * 3
        )
        if radius is None or azimuth is None or width is None or radius < 0 or width < 0:
            report.drop("sectors", "no usable radius, azimuth and width", row)
        elif isinstance(row, dict) and row.get("status", "active") != "active":
            report.drop("sectors", "not active", row)
        elif site is None or site not in sites:
            report.drop("sectors", "its node is unknown or was dropped", row)
        else:
            sectors.append(Sector(site, radius * 1000, azimuth, width))
    return sectors
