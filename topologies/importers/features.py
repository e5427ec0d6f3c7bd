"""What KML and GeoJSON have in common: named points, and lines that end at points."""

from __future__ import annotations

from dataclasses import dataclass, field

from topologies.importers.assemble import Kind, Line, Map, Site
from topologies.importers.report import ImportReport
from topologies.records import Tier

KINDS: dict[str | None, Kind] = {
    None: "wifi", "wifi": "wifi", "ethernet": "ethernet", "fibre": "fibre", "fiber": "fibre",
}  # fmt: skip
TIERS = {tier.value: tier for tier in Tier} | {"hub": Tier.GATEWAY, "supernode": Tier.GATEWAY}


@dataclass
class Features:
    report: ImportReport
    map: Map = field(default_factory=lambda: Map({}, [], [], []))
    _at: dict[tuple[float, float], str] = field(default_factory=dict)

    def add_point(
        self,
        name: str | None,
        where: tuple[float, float, float | None] | None,
        tier: str | None,
        height_m: float | None,
        record: object,
    ) -> None:
        if name is None:
            self.report.drop("nodes", "no name", record)
        elif where is None:
            self.report.drop("nodes", "no usable coordinates", record)
        elif name in self.map.sites:
            self.report.drop("nodes", "name taken by another", record)
        elif tier is not None and tier.lower() not in TIERS:
            self.report.drop("nodes", "unknown tier", record)
        else:
            longitude, latitude, altitude_m = where
            marked = TIERS[tier.lower()] if tier is not None else None
            site = Site(name, latitude, longitude, altitude_m, height_m, marked)
            self.map.sites[name] = site
            self._at.setdefault(_key(longitude, latitude), name)

    def add_line(
        self,
        ends: list[tuple[float, float, float | None] | None],
        kind: str | None,
        record: object,
    ) -> None:
        """To be called when all points are there: a line ends where a point is."""
        names = [self._at.get(_key(end[0], end[1])) if end else None for end in ends]
        if len(ends) < 2 or None in ends:
            self.report.drop("links", "no usable coordinates", record)
        elif (kind.lower() if kind else None) not in KINDS:
            self.report.drop("links", "unknown kind", record)
        elif names[0] is None or names[-1] is None:
            self.report.drop("links", "an end is at no point", record)
        else:
            self.map.lines.append(Line(names[0], names[-1], KINDS[kind.lower() if kind else None]))


def _key(longitude: float, latitude: float) -> tuple[float, float]:
    """A metre or so."""
    return round(longitude, 5), round(latitude, 5)
