"""What a scenario can name, with a line about each."""

from __future__ import annotations

import inspect
from typing import Any


def entries(what: str) -> dict[str, str]:
    match what:
        case "algorithms":
            from algorithms import ALGORITHMS

            return {name: _first_line(inspect.getmodule(a)) for name, a in ALGORITHMS.items()}
        case "networks":
            from simulator.networks import NETWORKS

            return _described(NETWORKS)
        case "selectors":
            from selection import SELECTORS

            return _described(SELECTORS)
        case "associators":
            from selection import ASSOCIATORS

            return _described(ASSOCIATORS)
        case "datasets":
            from simulator.data.catalog import CATALOG

            return {name: entry.description for name, entry in CATALOG.items()}
        case "models":
            from simulator.model_section import MODEL_DESCRIPTIONS

            return MODEL_DESCRIPTIONS
        case _:
            from topologies import shipped

            return {name: path.name for name, path in shipped().items()}


def _described(registry: dict[str, Any]) -> dict[str, str]:
    return {name: _first_line(kind) for name, kind in registry.items()}


def _first_line(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]
