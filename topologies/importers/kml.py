"""KML: placemarks that are points become nodes, those that are lines become links.

A point's tier is its ``tier`` or ``type`` in ExtendedData (cloud, gateway, hub, supernode, device);
a line's kind its ``kind``. An altitude counts only above 0, as most files write 0 for unknown.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from simulator.errors import UserError
from topologies.importers.assemble import Choice, assemble
from topologies.importers.features import Features
from topologies.importers.report import ImportReport
from topologies.importers.values import degrees, read_text
from topologies.topology import Topology


def import_kml(path: Path, choice: Choice) -> tuple[Topology, ImportReport]:
    features = Features(ImportReport())
    features.map.gateway_mark = (
        "by its ExtendedData: a Data 'tier' or 'type' with the value gateway, hub or supernode"
    )
    placemarks = [e for e in _parse(path).iter() if _tag(e) == "Placemark"]
    lines = []
    for placemark in placemarks:
        shape = next((e for e in placemark.iter() if _tag(e) in ("Point", "LineString")), None)
        name = _text(placemark, "name")
        if shape is None:
            features.report.drop("placemarks", "neither a point nor a line", name)
        elif _tag(shape) == "LineString":
            lines.append((placemark, shape))
        else:
            where = (_coordinates(shape) or [None])[0]
            if where is not None and (where[2] or 0) <= 0:
                where = (*where[:2], None)
            tier = _data(placemark, "tier") or _data(placemark, "type")
            features.add_point(name, where, tier, None, name)
    for placemark, shape in lines:
        kind = _data(placemark, "kind")
        features.add_line(_coordinates(shape), kind, _text(placemark, "name"))
    try:
        return assemble(path.stem, features.map, choice, features.report), features.report
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _parse(path: Path) -> ElementTree.Element:
    content = read_text(path)
    if "<!DOCTYPE" in content or "<!ENTITY" in content:
        # Entities can blow a small file up to gigabytes; KML has no use for them.
        raise UserError(f"{path}: a KML file needs no DOCTYPE and no entities; remove them")
    try:
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as error:
        raise UserError(f"{path}: not XML ({error})") from None


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _text(element: ElementTree.Element, tag: str) -> str | None:
    found = next((child.text for child in element if _tag(child) == tag), None)
    return found.strip() or None if found else None


def _data(placemark: ElementTree.Element, key: str) -> str | None:
    for element in placemark.iter():
        if element.get("name", "").lower() == key:
            if _tag(element) == "Data":
                return _text(element, "value")
            if _tag(element) == "SimpleData":
                return (element.text or "").strip() or None
    return None


def _coordinates(shape: ElementTree.Element) -> list[tuple[float, float, float | None] | None]:
    return [degrees(_numbers(part)) for part in (_text(shape, "coordinates") or "").split()]


def _numbers(part: str) -> list[float]:
    try:
        return [float(value) for value in part.split(",")]
    except ValueError:
        return []
