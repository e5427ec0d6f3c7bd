"""Profiles as JSON files: names instead of ids, one link a line."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from simulator.errors import UserError
from simulator.networks.cells import Contention
from simulator.networks.profile import Profile
from topologies import Topology, shipped

SCHEMA = 1


def save_profile(path: Path, profile: Profile, topology: Topology, key: str) -> None:
    """Write atomically: after a kill the file is the old one or the new one."""
    names = [node.name for node in topology.nodes]
    head = {
        "schema": SCHEMA,
        "key": key,
        "topology": topology.name,
        "radio": topology.radio.name if topology.radio else None,
        "association_s": round(profile.association_s, 6),
        "noise_sigma": round(profile.noise_sigma, 6),
        "contention": {k: float(f"{v:.6g}") for k, v in asdict(profile.contention).items()},
        "channels": {names[g]: names[first] for g, first in profile.channels.items()},
        "sizes": list(profile.sizes),
    }
    rows = [
        json.dumps([names[a], names[b], *(round(s, 6) for s in seconds)])
        for (a, b), seconds in profile.alone_s.items()
    ]
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    lines.append('"alone_s": [\n  ' + ",\n  ".join(rows) + "\n]")
    partial = path.with_name(path.name + ".partial")
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    os.replace(partial, path)


def load_profile(path: Path, topology: Topology, key: str) -> Profile:
    """Read a profile and see that it is of this topology and these settings."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot read the profile ({error})") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UserError(f"{path}: not a profile of schema {SCHEMA}; make one: {remedy(topology)}")
    if content.get("key") != key:
        raise UserError(
            f"{path}: measured for topology {content.get('topology')!r}, radio "
            f"{content.get('radio')!r}, in another state or with other [network] settings; "
            f"measure anew: {remedy(topology)}"
        )
    try:
        profile = _parsed(content, topology)
        _check(profile, topology)
    except UserError as error:
        raise UserError(f"{path}: {error}; measure anew: {remedy(topology)}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({error!r}); measure anew: {remedy(topology)}") from None
    return profile


def _check(profile: Profile, topology: Topology) -> None:
    pairs = [(topology.cloud, gateway) for gateway in topology.gateways]
    pairs += [(gateway, dev) for dev in topology.devices for gateway in topology.reach(dev)]
    for src, dst in [*pairs, *((b, a) for a, b in pairs)]:
        names = [topology.nodes[node].name for node in (src, dst)]
        times = profile.alone_s.get((src, dst), ())
        if len(times) != len(profile.sizes) or not all(0 < t < math.inf for t in times):
            raise UserError(f"no good times from {names[0]!r} to {names[1]!r}: {list(times)}")
    sizes = profile.sizes
    if len(sizes) < 2 or any(b <= a for a, b in pairwise((0, *sizes))):
        raise UserError(f"sizes {list(sizes)} must be two or more, ascending")
    if missing := set(topology.gateways) - set(profile.channels):
        raise UserError(f"no channel of gateway {topology.nodes[min(missing)].name!r}")
    values = asdict(profile.contention) | {
        "association_s": profile.association_s,
        "noise_sigma": profile.noise_sigma,
    }
    for name, value in values.items():
        lowest = _LOWEST.get(name, 0.0)
        if not isinstance(value, int | float) or not lowest <= value < math.inf:
            raise UserError(f"{name} is {value!r}; it must be a number of at least {lowest:g}")


_LOWEST = {
    "uplink": 1e-3, "round_trip_s": 1e-9, "window_growth": 1.0, "downlink_cost": -0.4,
    "uplink_cost": -0.4,
}  # fmt: skip


def _parsed(content: dict[str, Any], topology: Topology) -> Profile:
    id_of = topology.id_of
    return Profile(
        sizes=tuple(map(int, content["sizes"])),
        alone_s={(id_of(a), id_of(b)): tuple(map(float, s)) for a, b, *s in content["alone_s"]},
        channels={id_of(g): id_of(first) for g, first in content["channels"].items()},
        contention=Contention(**content["contention"]),
        association_s=float(content["association_s"]),
        noise_sigma=float(content["noise_sigma"]),
    )


def remedy(topology: Topology) -> str:
    """The command that measures it."""
    name = topology.name if topology.name in shipped() else f"{topology.name}.json"
    radio = f" --profile {topology.radio.name}" if topology.radio else ""
    return f"meshfl network profile {name}{radio}"
