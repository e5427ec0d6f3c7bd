"""How transfers share channels; the model itself is in cell.h, the constants of it are here.

They are fitted to what ns-3 measures (``ns3_scenarios.profile``).
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simulator.compiled import load_shared, read_rows
from simulator.parts import FOREVER
from simulator.units import FlowId, NodeId, Time


@dataclass(frozen=True)
class Contention:
    """The constants of sharing; times in seconds."""

    access_point: float = 0.15
    """An access point with n downlinks weighs n to this power."""
    rate_fairness: float = 0.9
    """Between an access point's downlinks: 0 shares times equally, 1 rates."""
    uplink: float = 1.7
    """The weight of a sending station."""
    downlink_cost: float = 0.07
    """Time lost, by time used, when very many downlinks contend; n of them lose 1 - 1/n of it."""
    uplink_cost: float = 0.0
    """The same for sending stations."""
    round_trip_s: float = 0.006
    """When others are on the air."""
    downlink_queue_s: float = 0.04
    """What a round trip takes longer when downlinks fill the access point's queue."""
    uplink_queue_s: float = 0.017
    """The same for every other station that sends."""
    window_growth: float = 1.8
    """By round trip."""
    closing_s: float = 0.0
    """For so long after its end a transfer still keeps the channel, and all others wait."""


class Link(NamedTuple):
    """The air between a device and an access point, one way."""

    access_point: NodeId
    device: NodeId
    up: bool


class Load(NamedTuple):
    """A transfer on the air, as in cell.h."""

    flow: FlowId
    access_point: NodeId
    device: NodeId
    up: int
    left: float
    """Work still to do, in ns of a lone transfer."""
    slope: float
    """Work per byte."""
    pace: float
    """Bytes per ns that the device's application allows; inf: as fast as it gets."""
    latency: Time
    """Of what comes after this channel."""
    window: float
    """Bytes per round trip; inf: no bound any more."""
    rate: float
    """Work done per ns."""
    since: Time
    """When it came on the air."""
    grows_at: Time
    """The window; 2**63 - 1: never."""


_LOAD = np.dtype(list(zip(Load._fields, "qqqqdddqddqq", strict=True)))
_NEWCOMER = np.dtype([("channel", "q"), ("begin", "q"), ("load", _LOAD)])
_ARRIVAL = np.dtype([("time", "q"), ("flow", "q")])
_NO_BOUND = {"pace": math.inf, "window": math.inf, "grows_at": 2**63 - 1}
"""Is saved as null."""


class Channels:
    """All channels of a network: who is on the air, and who arrives when."""

    def __init__(self, contentions: Mapping[int, Contention]) -> None:
        """By the number of a channel; of what happens at one instant the lowest comes first."""
        self._contentions = contentions
        self._library = _library()
        self._all = self._library.meshfl_channels_new()
        weakref.finalize(self, self._library.meshfl_channels_delete, self._all).atexit = False
        self._time = ctypes.c_int64()
        self._time_at = ctypes.byref(self._time)
        for number in contentions:
            self._open(number, -FOREVER, [])

    def send(
        self,
        channel: int,
        begin: Time,
        flow: FlowId,
        link: Link,
        work: float,
        slope: float,
        pace: float,
        latency: Time,
    ) -> None:
        """A transfer that comes on the air at ``begin``; the rest as in ``Load``."""
        self._library.meshfl_channels_send(
            self._all, channel, begin, flow, *link, work, slope, pace, latency
        )

    def advance(self, limit: Time) -> tuple[Time, FlowId] | None:
        """Run to the first arrival at or before ``limit``; at one instant the lowest flow's."""
        flow = self._library.meshfl_channels_advance(self._all, limit, self._time_at)
        return None if flow < 0 else (self._time.value, flow)

    def on_air(self, channel: int) -> dict[FlowId, Load]:
        """By flow, in the order in which they came."""
        if channel not in self._contentions:
            raise KeyError(channel)
        on_air = self._library.meshfl_channels_on_air
        rows = np.zeros(on_air(self._all, channel, self._time_at, None), _LOAD)
        on_air(self._all, channel, self._time_at, rows.ctypes.data)
        return {row[0]: Load(*row) for row in rows.tolist()}

    def save(self) -> dict[str, object]:
        entering = read_rows(self._library.meshfl_channels_entering, self._all, _NEWCOMER)
        arrivals = read_rows(self._library.meshfl_channels_arrivals, self._all, _ARRIVAL)
        return {
            "entering": [[begin, ch, _saved(Load(*row))] for ch, begin, row in entering],
            "cells": [self._save_channel(number) for number in self._contentions],
            "arrivals": [list(arrival) for arrival in arrivals],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Into a new, empty instance."""
        for number, now, rows in state["cells"]:
            self._open(number, now, [_loaded(row) for row in rows])
        for begin, number, row in state["entering"]:
            load = _loaded(row)
            link = Link(load.access_point, load.device, bool(load.up))
            self.send(
                number, begin, load.flow, link, load.left, load.slope, load.pace, load.latency
            )
        for time, flow in state["arrivals"]:
            self._library.meshfl_channels_arrive(self._all, time, flow)

    def _save_channel(self, number: int) -> list[object]:
        loads = self.on_air(number)
        return [number, self._time.value, [_saved(load) for load in loads.values()]]

    def _open(self, number: int, now: Time, loads: list[Load]) -> None:
        constants = (ctypes.c_double * len(fields(Contention)))(*astuple(self._contentions[number]))
        rows = np.array(loads, _LOAD)
        self._library.meshfl_channels_open(
            self._all, number, constants, now, rows.ctypes.data, len(rows)
        )


def _saved(load: Load) -> list[object]:
    return [
        None if value == _NO_BOUND.get(name) else value for name, value in load._asdict().items()
    ]


def _loaded(row: list[Any]) -> Load:
    named = zip(Load._fields, row, strict=True)
    return Load._make(_NO_BOUND[name] if value is None else value for name, value in named)


@cache
def _library() -> ctypes.CDLL:
    library = load_shared(Path(__file__).parent / "channels.cc", "the sharing of channels")
    integer, number, address = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    for name, gives, takes in (
        ("new", address, []),
        ("delete", None, [address]),
        ("open", None, [address, integer, address, integer, address, integer]),
        ("send", None, [address, *[integer] * 6, *[number] * 3, integer]),
        ("advance", integer, [address, integer, address]),
        ("arrive", None, [address, integer, integer]),
        ("entering", integer, [address, address]),
        ("arrivals", integer, [address, address]),
        ("on_air", integer, [address, integer, address, address]),
    ):
        function = getattr(library, f"meshfl_channels_{name}")
        function.restype, function.argtypes = gives, takes
    return library
