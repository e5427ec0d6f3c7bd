"""Transfers that come and go, and the capacities they share: in C++, see flows.cc and maxmin.h."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from simulator.compiled import load_shared, read_rows
from simulator.networks.routes import Route, Routes
from simulator.units import FlowId, Time

_POOL = np.dtype([(name, "q") for name in ("transfers", "since", "departed", "stale")])
_TRANSFER = np.dtype([("flow", "q"), ("route", "q"), ("left", "d"), ("rate", "d")])
_ARRIVAL = np.dtype([("time", "q"), ("flow", "q")])

Group = tuple[float, Sequence[int]]
"""A capacity, and the members' indices, repeated for one that counts twice."""


class Sharing:
    """All transfers under way on capacities in bit/s."""

    def __init__(self, capacities: Sequence[float]) -> None:
        self._library = _library()
        limits = np.array(capacities, np.float64)
        self._all = self._library.meshfl_flows_new(limits.ctypes.data, len(limits))
        weakref.finalize(self, self._library.meshfl_flows_delete, self._all).atexit = False
        self._told: dict[int, Route] = {}
        """Routes that C++ knows, by number."""
        self._time = ctypes.c_int64()
        self._time_at = ctypes.addressof(self._time)

    def send(self, now: Time, flow: FlowId, route: Route, left: float) -> None:
        """``left`` is in 1e-9 bit; without any, it arrives after the route's latency."""
        self._library.meshfl_flows_send(self._all, now, flow, self._tell(route), left)

    def advance(self, limit: Time) -> tuple[Time, FlowId] | None:
        """Run to the first arrival at or before ``limit``; at one instant the lowest flow's."""
        flow = self._library.meshfl_flows_advance(self._all, limit, self._time_at)
        return None if flow < 0 else (self._time.value, flow)

    def save(self) -> dict[str, object]:
        pools = self._rows("pools", _POOL)
        transfers = iter(self._rows("transfers", _TRANSFER))
        return {
            "now": self._library.meshfl_flows_now(self._all),
            "arrivals": [list(arrival) for arrival in self._rows("arrivals", _ARRIVAL)],
            "pools": [
                {
                    "since": since,
                    "departed": departed,
                    "stale": bool(stale),
                    "transfers": [self._saved(*row) for row in islice(transfers, count)],
                }
                for count, since, departed, stale in pools
            ],
        }

    def load(self, state: dict[str, Any], routes: Routes) -> None:
        """Into a new, empty instance."""
        arrivals = np.array([tuple(arrival) for arrival in state["arrivals"]], _ARRIVAL)
        self._library.meshfl_flows_load(
            self._all, state["now"], arrivals.ctypes.data, len(arrivals)
        )
        for pool in state["pools"]:
            rows = np.array([self._loaded(saved, routes) for saved in pool["transfers"]], _TRANSFER)
            self._library.meshfl_flows_load_pool(
                self._all, pool["since"], pool["departed"], pool["stale"],
                rows.ctypes.data, len(rows),
            )  # fmt: skip

    def _tell(self, route: Route) -> int:
        if route.number not in self._told:
            self._told[route.number] = route
            crossed = np.array(route.crossed, np.int64)
            self._library.meshfl_flows_route(
                self._all, route.number, route.latency, route.rate_bps,
                crossed.ctypes.data, len(crossed),
            )  # fmt: skip
        return route.number

    def _rows(self, what: str, kind: np.dtype[Any]) -> list[Any]:
        return read_rows(getattr(self._library, f"meshfl_flows_{what}"), self._all, kind)

    def _saved(self, flow: FlowId, number: int, left: float, rate: float) -> list[object]:
        route = self._told[number]
        return [flow, route.src, route.dst, route.via, left, rate]

    def _loaded(self, saved: list[Any], routes: Routes) -> tuple[object, ...]:
        flow, src, dst, via, left, rate = saved
        route = routes.find(src, dst, None if via is None else (via[0], via[1]))
        return flow, self._tell(route), left, rate


def max_min(caps: Sequence[float], groups: Sequence[Group]) -> list[float]:
    """Rates under a cap each, and under capacities that groups of them share."""
    rates = np.array(caps, np.float64)
    capacities = np.array([capacity for capacity, _ in groups], np.float64)
    sizes = np.array([len(members) for _, members in groups], np.int64)
    members = np.array([i for _, group in groups for i in group], np.int64)
    columns = (column.ctypes.data for column in (rates, capacities, sizes, members))
    _library().meshfl_max_min(*columns, len(groups))
    return list(rates.tolist())


@cache
def _library() -> ctypes.CDLL:
    library = load_shared(Path(__file__).parent / "flows.cc", "the sharing of links")
    integer, number, address = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    for name, gives, takes in (
        ("flows_new", address, [address, integer]),
        ("flows_delete", None, [address]),
        ("flows_route", None, [address, integer, integer, number, address, integer]),
        ("flows_send", None, [address, integer, integer, integer, number]),
        ("flows_advance", integer, [address, integer, address]),
        ("flows_now", integer, [address]),
        ("flows_pools", integer, [address, address]),
        ("flows_transfers", integer, [address, address]),
        ("flows_arrivals", integer, [address, address]),
        ("flows_load", None, [address, integer, address, integer]),
        ("flows_load_pool", None, [address, integer, integer, integer, address, integer]),
        ("max_min", None, [*[address] * 4, integer]),
    ):
        function = getattr(library, f"meshfl_{name}")
        function.restype, function.argtypes = gives, takes
    return library
