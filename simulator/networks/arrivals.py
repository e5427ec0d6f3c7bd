"""Transfers whose arrival time is known: what every network here ends with."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from simulator.network import Completion
from simulator.units import FlowId, Time

LOST = "lost in transit"
SLACK_NS = 1e-3
"""Rounding up to whole ns forgives this much, so that float error adds no nanosecond."""


class Arrivals:
    """A heap of (time, flow), so completions come out by time, then by flow."""

    def __init__(self) -> None:
        self._heap: list[tuple[Time, FlowId]] = []
        self._lost: set[FlowId] = set()

    def push(self, time: Time, flow: FlowId, lost: bool = False) -> None:
        heappush(self._heap, (time, flow))
        if lost:
            self._lost.add(flow)

    def first(self, limit: Time) -> Time:
        """When the next transfer arrives, or ``limit`` if that is earlier."""
        return min(limit, self._heap[0][0]) if self._heap else limit

    def pop(self, limit: Time) -> Completion | None:
        heap = self._heap
        if not heap or heap[0][0] > limit:
            return None
        time, flow = heappop(heap)
        if flow in self._lost:
            self._lost.remove(flow)
            return Completion(flow, time, LOST)
        return Completion(flow, time)

    def save(self) -> list[list[int]]:
        return [[time, flow, int(flow in self._lost)] for time, flow in sorted(self._heap)]

    def load(self, state: Any) -> None:
        self._heap = [(time, flow) for time, flow, _ in state]
        self._lost = {flow for _, flow, lost in state if lost}
        heapify(self._heap)
