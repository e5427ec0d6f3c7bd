"""Simulated time: integer nanoseconds inside, seconds only in scenario files and results."""

from __future__ import annotations

Time = int
"""Nanoseconds since the start of the run, as in ns-3."""

NodeId = int
"""Index into ``Topology.nodes``."""

FlowId = int
"""A transfer's number, counting up from 0 in the order of sends."""

SECOND: Time = 1_000_000_000


def to_ns(seconds: float) -> Time:
    return round(seconds * SECOND)


def to_seconds(time: Time) -> float:
    return time / SECOND
