"""Max-min fair rates under a cap each and under capacities that groups of them share.

A group's level is the rate at which it fills up, those with lower rates set aside. The lowest level
of all binds first. Fixing that group's rates can only raise the levels of the others, so a level is
found anew when its turn comes and something was fixed since. Two versions of one algorithm: a plain
loop for a few, numpy for many.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Group = tuple[float, list[int] | None]
"""A capacity, and the members' indices (repeated for one that counts twice; None is everyone)."""


def max_min_few(caps: list[float], groups: list[Group]) -> list[float]:
    rates = caps
    fixed = 0
    queue = [(0.0, -1, k) for k in range(len(groups))]
    while queue:
        level, found_at, k = heappop(queue)
        capacity, members = groups[k]
        if found_at != fixed:
            level = _level_few(capacity, rates if members is None else [rates[i] for i in members])
            if queue and queue[0][0] < level < math.inf:
                heappush(queue, (level, fixed, k))
                continue
        if level < math.inf:
            fixed += 1
            if members is None:
                rates = [level if rate > level else rate for rate in rates]
                continue
            rates = rates.copy()
            for i in members:
                if rates[i] > level:
                    rates[i] = level
    return rates


def _level_few(capacity: float, rates: list[float]) -> float:
    waiting = len(rates)
    for rate in sorted(rates):
        level = capacity / waiting
        if rate >= level:
            return level
        capacity -= rate
        waiting -= 1
    return math.inf


def max_min_many(caps: Floats, groups: list[Group]) -> Floats:
    rates = caps.copy()
    fixed = 0
    queue = [(0.0, -1, k) for k in range(len(groups))]
    while queue:
        level, found_at, k = heappop(queue)
        capacity, indices = groups[k]
        members = slice(None) if indices is None else np.array(indices)
        if found_at != fixed:
            level = _level_many(capacity, rates[members])
            if queue and queue[0][0] < level < math.inf:
                heappush(queue, (level, fixed, k))
                continue
        if level < math.inf:
            fixed += 1
            rates[members] = np.minimum(rates[members], level)
    return rates


def _level_many(capacity: float, rates: Floats) -> float:
    if rates.min() >= capacity / len(rates):
        return capacity / len(rates)
    rates = np.sort(rates)
    left = capacity - (np.cumsum(rates) - rates)
    levels = left / np.arange(len(rates), 0, -1)
    full = rates >= levels
    first = int(full.argmax())
    return float(levels[first]) if full[first] else math.inf
