"""Transfers that come and go, and the capacities they share.

Transfers that compete, directly or through others, form a pool. Rates change only when a transfer
of the pool starts or ends, so a pool knows when its next one ends, and all other pools stand still.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from simulator.networks.maxmin import Floats, max_min_few, max_min_many
from simulator.networks.routes import Route, Routes
from simulator.units import FlowId, Time

MANY = 64
"""From this many transfers on, numpy beats a plain loop."""

SLACK_NS = 1e-3
"""Rounding up to whole ns forgives this much, so that float error adds no nanosecond."""


class Transfer:
    __slots__ = ("flow", "lost", "pool", "route", "slot")

    def __init__(self, flow: FlowId, route: Route, lost: bool) -> None:
        self.flow = flow
        self.route = route
        self.lost = lost
        self.pool: Pool
        self.slot: int


class Limit:
    """A capacity in use: by whom, and how often it is crossed."""

    __slots__ = ("capacity", "crossings", "users")

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.users: dict[FlowId, Transfer] = {}
        self.crossings = 0


class Pool:
    """Transfers in columns. ``left`` is in 1e-9 bit, so that rate x ns needs no scaling."""

    def __init__(self, now: Time) -> None:
        self.transfers: list[Transfer] = []
        self.left = array("d")
        self.rate = array("d")
        self.cap = array("d")
        self.ends: list[float] | Floats = []
        """When each transfer ends, in ns after ``since``."""
        self.since = now
        """``left`` is as of this time."""
        self.stamp = -1
        """The key of the pool's entry among the ends to come."""
        self.shared: dict[int, Limit] = {}
        """The limits that can bind, by index: those crossed more than once."""
        self.departed = 0
        """How many have gone that may have held the pool together."""

    def add(self, transfer: Transfer, left: float, rate: float) -> None:
        transfer.pool = self
        transfer.slot = len(self.transfers)
        self.transfers.append(transfer)
        self.left.append(left)
        self.rate.append(rate)
        self.cap.append(transfer.route.rate_bps)

    def remove(self, transfer: Transfer) -> None:
        """The last one takes the free slot."""
        slot = transfer.slot
        self.transfers[slot] = self.transfers[-1]
        self.transfers[slot].slot = slot
        self.transfers.pop()
        for column in (self.left, self.rate, self.cap):
            column[slot] = column[-1]
            column.pop()

    def age(self, now: Time) -> None:
        elapsed = now - self.since
        self.since = now
        if len(self.left) < MANY:
            pairs = zip(self.left, self.rate, strict=True)
            self.left = array("d", [left - rate * elapsed for left, rate in pairs])
        else:
            left = np.frombuffer(self.left)
            left -= np.frombuffer(self.rate) * elapsed

    def share(self) -> None:
        # By index: the last digit of a rate must not depend on which limit was shared first.
        shared = sorted(self.shared.items()) if len(self.shared) > 1 else self.shared.items()
        groups = [(limit.capacity, self._members(c, limit)) for c, limit in shared]
        if len(self.cap) < MANY:
            self.rate = array("d", max_min_few(self.cap.tolist(), groups))
        else:
            np.frombuffer(self.rate)[:] = max_min_many(np.frombuffer(self.cap), groups)

    def plan(self) -> Time:
        """Find the ends; give the time of the first, in whole ns rounded up, at least one ahead."""
        if len(self.left) < MANY:
            self.ends = [left / rate for left, rate in zip(self.left, self.rate, strict=True)]
            first = min(self.ends)
        else:
            self.ends = np.frombuffer(self.left) / np.frombuffer(self.rate)
            first = float(self.ends.min())
        return self.since + max(1, math.ceil(first - SLACK_NS))

    def ended(self, now: Time) -> list[Transfer]:
        latest = now - self.since + SLACK_NS
        if isinstance(self.ends, list):
            return [t for t, end in zip(self.transfers, self.ends, strict=True) if end <= latest]
        return [self.transfers[i] for i in np.flatnonzero(self.ends <= latest)]

    def _members(self, index: int, limit: Limit) -> list[int] | None:
        users = limit.users.values()
        if limit.crossings > len(users):
            return [t.slot for t in users for _ in range(t.route.crossed.count(index))]
        return None if len(users) == len(self.transfers) else [t.slot for t in users]


class Sharing:
    """All pools. The ones in ``_stale`` have changed and must share anew before time goes on."""

    def __init__(self, capacities: Sequence[float]) -> None:
        self._capacities = capacities
        self._limits: dict[int, Limit] = {}
        self._stale: dict[Pool, None] = {}
        self._planned: dict[int, Pool] = {}
        self._ends: list[tuple[Time, int]] = []
        self._stamps = 0

    def start(self, now: Time, transfer: Transfer, left: float) -> None:
        limits = [self._limits[c] for c in transfer.route.crossed if c in self._limits]
        pools = list({next(iter(limit.users.values())).pool: None for limit in limits})
        pools = pools or [Pool(now)]
        for pool in pools:
            self._touch(pool, now)
        pool = pools[0] if len(pools) == 1 else self._merge(pools)
        pool.add(transfer, left, 0.0)
        self._enter(transfer)

    def next_end(self) -> Time | None:
        ends = self._ends
        while ends and ends[0][1] not in self._planned:
            heappop(ends)
        return ends[0][0] if ends else None

    def end_next(self) -> list[Transfer]:
        """Take out the transfers of one pool that end at ``next_end()``."""
        now, stamp = heappop(self._ends)
        pool = self._planned[stamp]
        ended = pool.ended(now)
        self._touch(pool, now)
        for transfer in ended:
            self._leave(transfer)
        if not pool.transfers:
            del self._stale[pool]
        return ended

    def settle(self) -> None:
        """Share anew where transfers have started or ended."""
        if not self._stale:
            return
        for pool in self._stale:
            for part in split(pool) if pool.departed > len(pool.transfers) else [pool]:
                part.share()
                self._plan(part)
        self._stale.clear()
        if len(self._ends) > 2 * len(self._planned) + 64:
            self._ends = [end for end in self._ends if end[1] in self._planned]
            heapify(self._ends)

    def save(self) -> list[dict[str, object]]:
        return [
            {
                "transfers": [
                    [t.flow, t.route.src, t.route.dst, t.route.via, t.lost] for t in pool.transfers
                ],
                "left": pool.left.tolist(),
                "rate": pool.rate.tolist(),
                "since": pool.since,
                "departed": pool.departed,
                "stale": pool in self._stale,
            }
            for pool in (*self._planned.values(), *self._stale)
        ]

    def load(self, state: list[dict[str, Any]], routes: Routes) -> None:
        """Into a new, empty instance."""
        for saved in state:
            pool = Pool(saved["since"])
            columns = zip(saved["transfers"], saved["left"], saved["rate"], strict=True)
            for (flow, src, dst, via, lost), left, rate in columns:
                via = None if via is None else (via[0], via[1])
                transfer = Transfer(flow, routes.find(src, dst, via), lost)
                pool.add(transfer, left, rate)
                self._enter(transfer)
            pool.departed = saved["departed"]
            if saved["stale"]:
                self._stale[pool] = None
            else:
                self._plan(pool)

    def _plan(self, pool: Pool) -> None:
        pool.stamp = self._stamps
        self._stamps += 1
        self._planned[pool.stamp] = pool
        heappush(self._ends, (pool.plan(), pool.stamp))

    def _touch(self, pool: Pool, now: Time) -> None:
        if pool not in self._stale:
            self._stale[pool] = None
            self._planned.pop(pool.stamp, None)
            pool.age(now)

    def _merge(self, pools: list[Pool]) -> Pool:
        largest = max(pools, key=lambda pool: len(pool.transfers))
        for pool in pools:
            if pool is not largest:
                for transfer, left, rate in zip(pool.transfers, pool.left, pool.rate, strict=True):
                    largest.add(transfer, left, rate)
                largest.shared |= pool.shared
                largest.departed += pool.departed
                del self._stale[pool]
        return largest

    def _enter(self, transfer: Transfer) -> None:
        for index in transfer.route.crossed:
            limit = self._limits.get(index)
            if limit is None:
                limit = self._limits[index] = Limit(self._capacities[index])
            limit.users[transfer.flow] = transfer
            limit.crossings += 1
            if limit.crossings > 1:
                transfer.pool.shared[index] = limit

    def _leave(self, transfer: Transfer) -> None:
        pool = transfer.pool
        pool.remove(transfer)
        held = [index for index in transfer.route.crossed if index in pool.shared]
        pool.departed += len(held) > 1
        for index in transfer.route.crossed:
            limit = self._limits[index]
            limit.users.pop(transfer.flow, None)
            limit.crossings -= 1
            if limit.crossings < 2:
                pool.shared.pop(index, None)
            if limit.crossings == 0:
                del self._limits[index]


def split(pool: Pool) -> list[Pool]:
    """The parts of a pool that no longer compete with each other."""
    parts = []
    seen: set[FlowId] = set()
    for first in pool.transfers:
        if first.flow in seen:
            continue
        seen.add(first.flow)
        part, members = Pool(pool.since), [first]
        for member in members:
            for index in member.route.crossed:
                users = pool.shared[index].users if index in pool.shared else {}
                members += [t for flow, t in users.items() if flow not in seen]
                seen.update(users)
        parts.append((part, members))
    for part, members in parts:
        for member in members:
            part.add(member, pool.left[member.slot], pool.rate[member.slot])
    for index, limit in pool.shared.items():
        next(iter(limit.users.values())).pool.shared[index] = limit
    return [part for part, _ in parts]
