"""Traffic that was written down, played on any network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from simulator.network import Completion, Network
from simulator.parts import FOREVER
from simulator.units import NodeId, Time


class Send(NamedTuple):
    time: Time
    src: NodeId
    dst: NodeId
    nbytes: int


def keep_under_way(
    network: Network, orders: Sequence[tuple[NodeId, NodeId, int]], count: int
) -> list[tuple[Time, Time]]:
    """Always so many at a time, a new one when one ends: when each began and ended, in order."""
    began: dict[int, Time] = {}
    place: dict[int, int] = {}
    ended: dict[int, Time] = {}
    waiting = iter(enumerate(orders))

    def start(now: Time) -> None:
        for i, (src, dst, nbytes) in waiting:
            began[i] = now
            place[network.send(now, src, dst, nbytes)] = i
            return

    for _ in range(count):
        start(0)
    while len(ended) < len(began):
        done = network.advance(FOREVER)
        assert done is not None
        ended[place[done.flow]] = done.time
        start(done.time)
    return [(began[i], ended[i]) for i in range(len(orders))]


def play(
    network: Network, sends: Sequence[Send], progress: Callable[[int], None] | None = None
) -> list[Completion]:
    """Send each at its time, in order; what became of them, in the same order."""
    place: dict[int, int] = {}
    ended: dict[int, Completion] = {}
    waiting = iter(enumerate(sends))
    upcoming = next(waiting, None)
    while upcoming is not None or len(ended) < len(sends):
        limit = FOREVER if upcoming is None else upcoming[1].time
        done = network.advance(limit)
        if done is not None:
            ended[place[done.flow]] = done
            if progress:
                progress(1)
        elif upcoming is not None:
            place[network.send(*upcoming[1])] = upcoming[0]
            upcoming = next(waiting, None)
        else:
            break
    return [ended[i] for i in range(len(sends))]
