"""Every key that a file can have: type, bounds, default and meaning, from the models themselves.

``meshfl show`` tells the same of one scenario; this is a page about all of them, in Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from simulator.listing import entries
from simulator.scenario import TAGS

LISTED = {
    "algorithm": "algorithms",
    "selection": "selectors",
    "association": "associators",
}
"""Tables whose kinds have a line of their own in ``meshfl list``."""
_BASIC = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "`true` or `false`",
}
_BOUNDS = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "exclusiveMaximum": "<",
}

Schema = dict[str, Any]
Keys = tuple[str, ...]
"""The way to a table, from the file's top."""


def reference(model: type[BaseModel]) -> str:
    """A heading for each table of the file, and for each kind that a table can be of."""
    schema = model.model_json_schema()
    return "\n".join(_Page(schema["$defs"]).content((), "key", schema, 2)) + "\n"


@dataclass
class _Page:
    definitions: dict[str, Schema]
    anchors: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Of tables that have been told already, by the definitions of their kinds."""

    def content(self, keys: Keys, anchor: str, table: Schema, level: int) -> Iterator[str]:
        """The keys of a table, then the tables in it, under headings of that level."""
        properties = table.get("properties", {})
        if properties:
            yield from ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
            yield from (_row(key, value, table, anchor) for key, value in properties.items())
            yield ""
        for key, value in properties.items():
            if _referenced(value):
                yield from self.table(_within(keys, key, value), f"{anchor}-{key}", value, level)

    def table(self, keys: Keys, anchor: str, value: Schema, level: int) -> Iterator[str]:
        names = tuple(_referenced(value))
        left, right = ("[[", "]]") if value.get("type") == "array" else ("[", "]")
        yield from _heading(anchor, f"`{left}{'.'.join(keys)}{right}`", level)
        if names in self.anchors:
            yield from [f"The same as [above](#{self.anchors[names]}).", ""]
            return
        self.anchors[names] = anchor
        if len(names) == 1:
            yield from self.kind(keys, anchor, names[0], level)
            return
        for name in names:
            tag, kinds = _kinds(self.definitions[name])
            title = " or ".join(f"`{tag} = {json.dumps(kind)}`" for kind in kinds)
            own = f"{anchor}-{kinds[0]}"
            yield from _heading(own, title, level + 1)
            yield from _meanings(keys, kinds)
            yield from self.kind(keys, own, name, level + 1)

    def kind(self, keys: Keys, anchor: str, name: str, level: int) -> Iterator[str]:
        definition = self.definitions[name]
        if text := definition.get("description"):
            yield from [_one_line(text), ""]
        yield from self.content(keys, anchor, definition, level + 1)


def _heading(anchor: str, title: str, level: int) -> Iterator[str]:
    yield from [f"({anchor})=", f"{'#' * min(level, 6)} {title}", ""]


def _within(keys: Keys, key: str, value: Schema) -> Keys:
    """A table of tables has a name of the writer's own at its end."""
    return (*keys, key, "NAME") if value.get("type") == "object" else (*keys, key)


def _referenced(value: Any) -> list[str]:
    """Definitions, in the order of a union's kinds."""
    if isinstance(value, list):
        return [name for item in value for name in _referenced(item)]
    if not isinstance(value, dict):
        return []
    if "$ref" in value:
        return [value["$ref"].rpartition("/")[2]]
    parts = ("anyOf", "oneOf", "items", "additionalProperties")
    return _referenced([value[part] for part in parts if part in value])


def _kinds(definition: Schema) -> tuple[str, list[str]]:
    """The key that says which kind of table this is, and what it can say here."""
    tag = next(tag for tag in TAGS if tag in definition["properties"])
    choice = definition["properties"][tag]
    return tag, choice["enum"] if "enum" in choice else [choice["const"]]


def _meanings(keys: Keys, kinds: list[str]) -> Iterator[str]:
    """What ``meshfl list`` says."""
    if len(keys) == 1 and keys[0] in LISTED:
        known = entries(LISTED[keys[0]])
        for line in dict.fromkeys(known[kind] for kind in kinds):
            yield from [line, ""]


def _row(key: str, value: Schema, table: Schema, anchor: str) -> str:
    meaning = _one_line(value.get("description", ""))
    if _referenced(value):
        meaning = f"{meaning} [Keys](#{anchor}-{key})."
    elif key in TAGS and not meaning:
        meaning = "Which kind of table this is."
    default = "**required**" if key in table.get("required", ()) else _default(value)
    cells = (f"`{key}`", _type(value), default, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').strip() for cell in cells)} |"


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _default(value: Schema) -> str:
    default = value.get("default")
    if default is None:
        return "not set"
    if _referenced(value) and isinstance(default, dict):
        return next(
            (f"`{tag} = {json.dumps(default[tag])}`" for tag in TAGS if tag in default), "its own"
        )
    return f"`{_toml(default)}`"


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in value.items())}}}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        short = f"{value:g}".replace("e+0", "e").replace("e+", "e")
        return short if float(short) == value and len(short) < len(str(value)) else str(value)
    return json.dumps(value)


def _type(value: Schema) -> str:
    if "anyOf" in value:
        return " or ".join(_type(kind) for kind in value["anyOf"] if kind.get("type") != "null")
    if "$ref" in value or "oneOf" in value:
        return "table"
    if "enum" in value or "const" in value:
        return ", ".join(f"`{json.dumps(v)}`" for v in value.get("enum") or [value["const"]])
    if "prefixItems" in value:
        return f"[{', '.join(_type(item) for item in value['prefixItems'])}]"
    if value.get("type") == "array":
        least = ", at least one" if value.get("minItems") else ""
        return f"list ({_type(value['items'])}{least})"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"table ({_type(inner)})" if isinstance(inner, dict) else "table"
    if value.get("format") == "path":
        return "path"
    bounds = [f"{sign} {_toml(value[key])}" for key, sign in _BOUNDS.items() if key in value]
    if "pattern" in value:
        bounds.append(f"like `{value['pattern']}`")
    return " ".join([_BASIC.get(value.get("type", ""), "anything"), ", ".join(bounds)]).strip()
