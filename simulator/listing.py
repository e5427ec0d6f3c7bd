"""What a scenario can name, with a line about each."""

from __future__ import annotations

import inspect
from typing import Any, get_args


def entries(what: str) -> dict[str, str]:
    match what:
        case "algorithms":
            from algorithms import ALGORITHMS

            return {name: _first_line(inspect.getmodule(a)) for name, a in ALGORITHMS.items()}
        case "networks":
            from ns3_scenarios.section import Ns3Section, ProfileSection
            from simulator.networks import NetworkSection

            sections = (*get_args(get_args(NetworkSection)[0]), Ns3Section, ProfileSection)
            return _described({s.model_fields["kind"].default: s for s in sections})
        case "device-classes":
            from simulator.device_classes import CLASSES

            return {
                name: f"{c.cores} x {c.gflops:g} Gflop/s, {c.idle_w:g} W idle, {c.busy_w:g} W busy"
                for name, c in CLASSES.items()
            }
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
            from topologies import Topology, shipped

            found = {name: Topology.load(path) for name, path in shipped().items()}
            return {
                name: f"{len(t.devices)} devices, {len(t.gateways)} gateways"
                for name, t in found.items()
            }


def _described(registry: dict[str, Any]) -> dict[str, str]:
    return {name: _first_line(kind) for name, kind in registry.items()}


def _first_line(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]
