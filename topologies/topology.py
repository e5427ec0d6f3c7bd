"""Who can talk to whom, and how fast: nodes of three tiers, links, shared media, radio profiles.

Files hold names, the program holds ids (indices into ``nodes``). The classes of
``topologies.records`` are the file's records too: a field added there can be written in a file at
once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from simulator.errors import UserError, did_you_mean, unknown_name
from simulator.units import NodeId
from topologies.check import check, check_names
from topologies.records import Building, Link, Medium, Node, Radio, Tier

SCHEMA = 1


@dataclass(frozen=True)
class Topology:
    """Its channels and the rates of its Wi-Fi are those of its first radio, if it has radios."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    media: tuple[Medium, ...] = ()
    radios: tuple[Radio, ...] = ()
    buildings: tuple[Building, ...] = ()

    def __post_init__(self) -> None:
        check(self)

    @cached_property
    def cloud(self) -> NodeId:
        return self._of(Tier.CLOUD)[0]

    @cached_property
    def gateways(self) -> tuple[NodeId, ...]:
        return self._of(Tier.GATEWAY)

    @cached_property
    def devices(self) -> tuple[NodeId, ...]:
        return self._of(Tier.DEVICE)

    def reach(self, device: NodeId) -> tuple[NodeId, ...]:
        """The gateways that the device has a link to, in the order of its links."""
        return tuple(n for n in self.neighbours[device] if self.nodes[n].tier is Tier.GATEWAY)

    @property
    def radio(self) -> Radio | None:
        """The radio profile in use: the first."""
        return self.radios[0] if self.radios else None

    def with_radio(self, name: str) -> Topology:
        """The same places under another of the radio profiles."""
        names = [radio.name for radio in self.radios]
        if name not in names:
            raise unknown_name(f"radio profile of topology {self.name!r}:", name, names)
        if names[0] == name:
            return self
        radio = self.radios[names.index(name)]
        rate = radio.channel_rate_bps
        wifi = {link.medium for link in self.links if link.kind == "wifi"}
        return replace(
            self,
            radios=(radio, *(r for r in self.radios if r is not radio)),
            nodes=tuple(
                replace(n, channel=radio.channels[n.name]) if n.name in radio.channels else n
                for n in self.nodes
            ),
            media=tuple(replace(m, rate_bps=rate) if m.name in wifi else m for m in self.media),
            links=tuple(
                replace(x, rate_bps=rate) if x.kind == "wifi" and x.medium else x
                for x in self.links
            ),
        )

    def rate_limit_bps(self, device: NodeId) -> float | None:
        """The pace of the device's application, each way by itself; None: as fast as it gets."""
        limits = self.radio.rate_limits_bps if self.radio else {}
        return limits.get(self.nodes[device].name)

    def id_of(self, name: str) -> NodeId:
        try:
            return self._ids[name]
        except KeyError:
            raise unknown_name("node", name, self._ids) from None

    @cached_property
    def neighbours(self) -> tuple[tuple[NodeId, ...], ...]:
        """Per node, the other ends of its links, in their order."""
        ends: list[list[NodeId]] = [[] for _ in self.nodes]
        for link in self.links:
            ends[link.a].append(link.b)
            ends[link.b].append(link.a)
        return tuple(map(tuple, ends))

    @cached_property
    def _ids(self) -> dict[str, NodeId]:
        return {node.name: i for i, node in enumerate(self.nodes)}

    def _of(self, tier: Tier) -> tuple[NodeId, ...]:
        return tuple(i for i, node in enumerate(self.nodes) if node.tier is tier)

    def to_json(self) -> str:
        """One record a line, so that differences between files can be read."""
        links = [
            asdict(link) | {"a": self.nodes[link.a].name, "b": self.nodes[link.b].name}
            for link in self.links
        ]
        parts = [f'"schema": {SCHEMA}', f'"name": {json.dumps(self.name)}']
        parts.append(_json_list("nodes", map(asdict, self.nodes)))
        parts.append(_json_list("media", map(asdict, self.media)))
        parts.append(_json_list("links", links))
        if self.radios:
            parts.append(_json_list("radios", map(asdict, self.radios)))
        if self.buildings:
            parts.append(_json_list("buildings", map(asdict, self.buildings)))
        return "{\n" + ",\n".join(parts) + "\n}\n"

    @classmethod
    def from_json(cls, text: str, place: str = "topology") -> Topology:
        """Read a topology; ``place`` (the file) opens every error message."""
        try:
            return _parse(text)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{place}: line {error.lineno} column {error.colno}: not JSON ({error.msg})"
            ) from None
        except UserError as error:
            raise UserError(f"{place}: {error}") from None

    def save(self, path: Path) -> None:
        """Write atomically: after a kill the file is the old one or the new one."""
        partial = path.with_name(path.name + ".partial")
        partial.write_text(self.to_json(), encoding="utf-8")
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> Topology:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read topology {path}: {error}") from None
        return cls.from_json(text, str(path))


def _json_list(key: str, records: Iterable[dict[str, Any]]) -> str:
    rows = [json.dumps({k: v for k, v in r.items() if v not in (None, {})}) for r in records]
    return f'"{key}": [' + ",".join(f"\n  {row}" for row in rows) + "\n]"


Record = TypeVar("Record", Node, Link, Medium, Radio, Building)


def _parse(text: str) -> Topology:
    raw = json.loads(text)
    if not isinstance(raw, dict):
        raise UserError(f"a topology is a JSON object, not {type(raw).__name__}")
    if raw.get("schema") != SCHEMA:
        raise UserError(
            f"schema is {raw.get('schema')!r}, but this version reads schema {SCHEMA}; "
            f'write "schema": {SCHEMA} or convert the file'
        )
    known = ["schema", *(field.name for field in fields(Topology))]
    for key in raw:
        if key not in known:
            raise unknown_name("key", key, known)
    name = raw.get("name")
    if not isinstance(name, str):
        raise UserError(f"name is {name!r}; it must be a text")
    nodes = _records(Node, raw, "nodes")
    check_names("nodes", (node.name for node in nodes))
    ids = {node.name: i for i, node in enumerate(nodes)}
    return Topology(
        name,
        nodes,
        _records(Link, raw, "links", ids),
        _records(Medium, raw, "media"),
        _records(Radio, raw, "radios"),
        _records(Building, raw, "buildings"),
    )


def _records(
    kind: type[Record], raw: dict[str, Any], key: str, ids: Mapping[str, NodeId] | None = None
) -> tuple[Record, ...]:
    rows = raw.get(key, [])
    if not isinstance(rows, list):
        raise UserError(f"{key} is {type(rows).__name__}; it must be a list of records")
    records = []
    for i, row in enumerate(rows):
        place = f"{key}[{i}]"
        if not isinstance(row, dict):
            raise UserError(f"{place} is {row!r}; it must be an object")
        if ids is not None:
            row = row | {end: _end(row[end], ids, place, end) for end in "ab" if end in row}
        elif isinstance(row.get("name"), str):
            place += f" {row['name']!r}"
        try:
            records.append(kind(**row))
        except ValidationError as error:
            raise _user_error(error, place, [field.name for field in fields(kind)]) from None
    return tuple(records)


def _end(name: object, ids: Mapping[str, NodeId], place: str, end: str) -> NodeId:
    if isinstance(name, str) and name in ids:
        return ids[name]
    raise UserError(f"{place}: {end} names no node: {name!r}; {did_you_mean(str(name), ids)}")


def _user_error(error: ValidationError, place: str, known: list[str]) -> UserError:
    first = error.errors(include_url=False)[0]
    key = str(first["loc"][0])
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return UserError(f"{place}: unknown key {key!r}; {did_you_mean(key, known)}")
    if first["type"] in ("missing", "missing_argument"):
        return UserError(f"{place}: {key!r} is missing; add it")
    return UserError(f"{place}: {key} = {first['input']!r}: {first['msg']}")
