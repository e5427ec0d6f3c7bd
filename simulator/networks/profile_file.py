"""Profiles as JSON files: names instead of ids, one link a line."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from simulator.errors import UserError
from simulator.networks.cells import Contention
from simulator.networks.profile import Profile
from simulator.section import LONGEST_S
from simulator.units import NodeId
from topologies import Topology, shipped

SCHEMA = 1


def save_profile(path: Path, profile: Profile, topology: Topology, key: str) -> None:
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
    write_profile(path, "{\n" + ",\n".join(lines) + "\n}\n")


def write_profile(path: Path, text: str) -> None:
    """Atomically: after a kill the file is the old one or the new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def load_profile(path: Path, topology: Topology, key: str, settings: Sequence[str] = ()) -> Profile:
    """Read a profile and see that it is of this topology and these settings.

    The key is made of the settings; those that are no defaults are told as KEY=VALUE.
    """
    command = remedy(topology, settings)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot read the profile ({error})") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UserError(f"{path}: not a profile of schema {SCHEMA}; make one: {command}")
    if content.get("key") != key:
        raise UserError(
            f"{path}: measured for topology {content.get('topology')!r}, radio "
            f"{content.get('radio')!r}, in another state or with other [network] settings; "
            f"measure anew: {command}"
        )
    try:
        profile = _parsed(content, topology)
        _check(profile, topology)
    except UserError as error:
        raise UserError(f"{path}: {error}; measure anew: {command}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{path}: damaged ({error!r}); measure anew: {command}") from None
    return profile


def _check(profile: Profile, topology: Topology) -> None:
    _check_sizes(profile.sizes)
    _check_times(profile, topology)
    _check_channels(profile.channels, topology)
    values = asdict(profile.contention) | {
        "association_s": profile.association_s,
        "noise_sigma": profile.noise_sigma,
    }
    for name, value in values.items():
        lowest, highest = _BOUNDS[name]
        if not isinstance(value, int | float) or not lowest <= value <= highest:
            raise UserError(
                f"{name} is {value!r}; it must be a number of at least {lowest:g} "
                f"and at most {highest:g}"
            )


def _check_sizes(sizes: tuple[int, ...]) -> None:
    if len(sizes) < 2 or any(b <= a for a, b in pairwise((0, *sizes))) or sizes[-1] > _LARGEST:
        raise UserError(f"sizes {list(sizes)} must be two or more, ascending, up to {_LARGEST:g}")


def _check_times(profile: Profile, topology: Topology) -> None:
    pairs = [(topology.cloud, gateway) for gateway in topology.gateways]
    pairs += [(gateway, dev) for dev in topology.devices for gateway in topology.reach(dev)]
    for src, dst in [*pairs, *((b, a) for a, b in pairs)]:
        times = profile.alone_s.get((src, dst), ())
        good = len(times) == len(profile.sizes) and all(0 < t <= LONGEST_S for t in times)
        if not good or any(b < a for a, b in pairwise(times)):
            names = [topology.nodes[node].name for node in (src, dst)]
            raise UserError(
                f"no good times from {names[0]!r} to {names[1]!r}: {list(times)} (one for each "
                f"size, above 0 and up to {LONGEST_S:g} s, never less for a larger size)"
            )


def _check_channels(channels: dict[NodeId, NodeId], topology: Topology) -> None:
    if missing := set(topology.gateways) - set(channels):
        raise UserError(f"no channel of gateway {topology.nodes[min(missing)].name!r}")
    if others := (set(channels) | set(channels.values())) - set(topology.gateways):
        name = topology.nodes[min(others)].name
        raise UserError(f"channels name {name!r}, which is no gateway")


_LARGEST = 10**12
_BOUNDS = {
    "access_point": (0.0, 20.0),
    "rate_fairness": (0.0, 20.0),
    "uplink": (1e-3, 1e6),
    "downlink_cost": (-0.4, 1e6),
    "uplink_cost": (-0.4, 1e6),
    "round_trip_s": (1e-9, LONGEST_S),
    "downlink_queue_s": (0.0, LONGEST_S),
    "uplink_queue_s": (0.0, LONGEST_S),
    "window_growth": (1.0, 1e6),
    "closing_s": (0.0, LONGEST_S),
    "association_s": (0.0, LONGEST_S),
    "noise_sigma": (0.0, 10.0),
}
"""Lowest and highest: beyond them times are no numbers any more."""


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


def remedy(topology: Topology, settings: Sequence[str] = ()) -> str:
    """The command that measures it, with settings KEY=VALUE."""
    name = topology.name if topology.name in shipped() else f"{topology.name}.json"
    radio = f" --profile {topology.radio.name}" if topology.radio else ""
    changed = "".join(f" --set {shlex.quote(setting)}" for setting in settings)
    return f"meshfl network profile {name}{radio}{changed}"
