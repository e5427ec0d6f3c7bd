"""GeoJSON: points become nodes, lines links, polygons buildings.

Properties that count: ``name`` (or the feature's ``id``), ``tier`` (cloud, gateway, hub, device)
and ``height_m`` of points; ``kind`` (wifi, ethernet, fibre) of lines; ``height_m`` of polygons,
which become the box around them. A point's third coordinate is its altitude.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.errors import UserError
from topologies.importers.assemble import Choice, assemble
from topologies.importers.features import Features
from topologies.importers.report import ImportReport
from topologies.importers.values import degrees, number, read_json, text
from topologies.records import Building
from topologies.topology import Topology


def import_geojson(path: Path, choice: Choice) -> tuple[Topology, ImportReport]:
    raw = read_json(path)
    rows = raw.get("features") if isinstance(raw, dict) else None
    if not isinstance(rows, list):
        raise UserError(f"{path}: no list 'features'; it must be a GeoJSON FeatureCollection")
    features = Features(ImportReport())
    features.map.gateway_mark = "by its property 'tier': gateway, hub or supernode"
    lines = []
    for row in rows:
        kind, coordinates, properties = _parts(row)
        if kind == "Point":
            name = text(properties.get("name")) or text(row.get("id"))
            tier = properties.get("tier")
            height_m = number(properties.get("height_m"))
            marked = str(tier) if tier is not None else None
            features.add_point(name, degrees(coordinates), marked, height_m, row)
        elif kind == "LineString" and isinstance(coordinates, list):
            lines.append((coordinates, properties.get("kind"), row))
        elif kind == "Polygon":
            _add_building(features, coordinates, number(properties.get("height_m")), row)
        else:
            features.report.drop("features", "neither a point, a line nor a polygon", row)
    for coordinates, kind, row in lines:
        ends = [degrees(end) for end in coordinates]
        features.add_line(ends, str(kind) if kind is not None else None, row)
    try:
        return assemble(path.stem, features.map, choice, features.report), features.report
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _parts(row: object) -> tuple[object, object, dict[str, Any]]:
    geometry = row.get("geometry") if isinstance(row, dict) else None
    properties = row.get("properties") if isinstance(row, dict) else None
    if not isinstance(geometry, dict):
        return None, None, {}
    known = properties if isinstance(properties, dict) else {}
    return geometry.get("type"), geometry.get("coordinates"), known


def _add_building(
    features: Features, coordinates: object, height_m: float | None, row: object
) -> None:
    ring = coordinates[0] if isinstance(coordinates, list) and coordinates else None
    corners = [degrees(corner) for corner in ring] if isinstance(ring, list) else []
    good = [corner for corner in corners if corner is not None]
    east, north = {corner[0] for corner in good}, {corner[1] for corner in good}
    if len(good) < len(corners) or len(east) < 2 or len(north) < 2:
        features.report.drop("buildings", "no usable outline", row)
    elif height_m is None or height_m <= 0:
        features.report.drop("buildings", "no usable height_m", row)
    else:
        box = Building(min(north), min(east), max(north), max(east), height_m)
        features.map.buildings.append(box)
