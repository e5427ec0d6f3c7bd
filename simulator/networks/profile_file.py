"""Profiles as JSON files: names instead of ids, one link a line."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulator.errors import UserError
from simulator.networks.cells import Contention
from simulator.networks.profile import Profile
from topologies import Topology

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
        raise UserError(f"{path}: not a profile of schema {SCHEMA}; make one: {_remedy(topology)}")
    if content.get("key") != key:
        raise UserError(
            f"{path}: measured for topology {content.get('topology')!r}, radio "
            f"{content.get('radio')!r}, in another state or with other [network] settings; "
            f"measure anew: {_remedy(topology)}"
        )
    try:
        profile = _parsed(content, topology)
        _check(profile, topology)
    except UserError as error:
        raise UserError(f"{path}: {error}; measure anew: {_remedy(topology)}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({error!r}); measure anew: {_remedy(topology)}") from None
    return profile


def _check(profile: Profile, topology: Topology) -> None:
    pairs = [(topology.cloud, gateway) for gateway in topology.gateways]
    pairs += [
        (gateway, device) for device in topology.devices for gateway in topology.reach(device)
    ]
    for src, dst in [*pairs, *((b, a) for a, b in pairs)]:
        times = profile.alone_s.get((src, dst))
        names = [topology.nodes[node].name for node in (src, dst)]
        if times is None:
            raise UserError(f"no times from {names[0]!r} to {names[1]!r}")
        if len(times) != len(profile.sizes) or min(times) <= 0:
            raise UserError(f"damaged (times from {names[0]!r} to {names[1]!r}: {times})")


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


def _remedy(topology: Topology) -> str:
    radio = f" --profile {topology.radio.name}" if topology.radio else ""
    return f"meshfl network profile {topology.name}{radio}"
