"""Whether a folder holds a run of a given scenario."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from simulator.recorder import SCENARIO
from simulator.scenario import Scenario
from simulator.section import Section

_LOOKED_UP = "looked up"
"""In place of a file that the scenario does not name."""


def holds(folder: Path, scenario: Scenario, base: Path) -> bool:
    """Whether the run there, begun or finished, is this one; files may lie elsewhere."""
    began = dict(_plain(Scenario.load(folder / SCENARIO), folder))
    asked = dict(_plain(scenario, base))
    return all(began.get(key) == value for key, value in asked.items() if value != _LOOKED_UP)


def _plain(
    section: Section, base: Path, keys: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key; for a file what it holds."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _plain(value, base, (*keys, name))
        elif isinstance(value, Path) and (base / value).is_file():
            yield (*keys, name), hashlib.sha256((base / value).read_bytes()).hexdigest()
        elif value is None and Path in get_args(field.annotation):
            yield (*keys, name), _LOOKED_UP
        else:
            yield (*keys, name), value
