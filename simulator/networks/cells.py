"""How the transfers of one Wi-Fi channel share its time.

A transfer is so much work: the seconds it takes alone. Per second of channel time a lone transfer
does one second of its work. Several share:

- An access point contends for the channel once for all that it sends, with a weight that grows
  slowly in the number of its downlinks; each sending station contends for itself. What an access
  point gets, its downlinks share in between equal times and equal rates.
- Contention costs: with more contenders less of the channel's time carries data.
- When a transfer has ended, its connection is closed before the others go on.
- Who starts while others are on the air begins with TCP's initial window, which grows by a factor
  each round trip; a round trip lasts as long as the others' queues say. Alone, that is part of the
  measured time.
- An application's pace bounds a device's rate, each way by itself.

What a bounded transfer leaves is shared by the others. The constants of a network are fitted to
what ns-3 measures (``ns3_scenarios.profile``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from simulator.networks.sharing import SLACK_NS
from simulator.units import SECOND, FlowId, NodeId, Time, to_ns

INITIAL_WINDOW_BYTES = 10 * 1448


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


class Load:
    """A transfer on the air."""

    __slots__ = (
        "cap", "demand", "flow", "greedy_below", "grows_at", "left", "link", "most", "pace", "rate",
        "sender", "since", "slope", "up", "weight", "window",
    )  # fmt: skip

    def __init__(self, flow: FlowId, link: Link, left: float, slope: float, pace: float) -> None:
        self.flow = flow
        self.since: Time = 0
        """When it came on the air."""
        self.link = link
        self.up = link.up
        self.sender = link.device if link.up else link.access_point
        self.left = left
        """Work still to do, in ns of a lone transfer."""
        self.slope = slope
        """Work per byte."""
        self.pace = pace
        """Bytes per ns that the device's application allows; inf: as fast as it gets."""
        self.window = math.inf
        """Bytes per round trip; inf: no bound any more."""
        self.grows_at: Time | None = None
        self.rate = 0.0
        """Work done per ns."""
        self.demand = self.weight = 0.0
        """Among those of its access point, and among all."""
        self.cap = self.most = pace * slope
        """The most work per ns that its pace allows, and its window too."""
        self.greedy_below = 0.99 * pace * slope
        """At a lower rate it would go faster if it could, and so fills queues."""

    def forget_window(self) -> None:
        self.window = math.inf
        self.grows_at = None
        self.most = self.cap


Groups = dict[Any, list[Load]]


class Event(NamedTuple):
    time: Time
    load: Load
    is_end: bool
    """Else a round trip has passed."""


class _Queues(NamedTuple):
    """In ns of lone transfers."""

    down: float
    up: dict[NodeId, float]
    """By device that sends, as long as its queue can be."""
    up_sum: float


class Cell:
    """One channel: who is on the air, and how fast each goes."""

    def __init__(self, contention: Contention, now: Time = 0) -> None:
        self._constants = contention
        self._closing = to_ns(contention.closing_s)
        self._least_round_trip = to_ns(contention.round_trip_s)
        self._longest_down = SECOND * contention.downlink_queue_s
        self._longest_up = SECOND * contention.uplink_queue_s
        self.loads: dict[FlowId, Load] = {}
        self._senders: list[Groups] = [{}, {}]
        """Access points with their downlinks, stations with their uplinks; by their oldest."""
        self._paced: Groups = {}
        """What one application's pace bounds together, by its device and direction."""
        self.now = now
        """Of its last event; of an empty cell: when its last transfer ended."""
        self.version = 0
        """Changes with the rates: what was planned before is void."""

    def enter(self, now: Time, *loads: Load) -> None:
        """All that come at one instant; the cell is shared anew after each, if it matters."""
        if not self.loads:
            loads[0].left += max(0, self.now + self._closing - now)
        self.age(now)
        crowded = any(other.since < now for other in self.loads.values())
        starting = any(other.window < math.inf for other in self.loads.values())
        for load in loads:
            load.since = now
            self.add(load)
            if crowded:
                queues = self._queues()
                load.window = INITIAL_WINDOW_BYTES
                load.grows_at = now + self._round_trip(load, queues)
                self.share(queues)
            elif starting or load is loads[-1]:
                self.share()

    def add(self, load: Load) -> None:
        """As it is, nothing shared yet."""
        self.loads[load.flow] = load
        load.demand = load.slope**self._constants.rate_fairness
        loads = self._senders[load.up].setdefault(load.sender, [])
        loads.append(load)
        self._weigh(loads)
        if load.pace < math.inf:
            paced = self._paced.setdefault(load.link[1:], [])
            paced.append(load)
            _pace(paced)

    def _remove(self, load: Load) -> None:
        del self.loads[load.flow]
        senders = self._senders[load.up]
        loads = senders[load.sender]
        oldest = loads[0]
        loads.remove(load)
        if loads:
            self._weigh(loads)
        else:
            del senders[load.sender]
        if loads and load is oldest and len(senders) > 1:
            self._senders[load.up] = dict(sorted(senders.items(), key=_age))
        if load.pace < math.inf:
            paced = self._paced[load.link[1:]]
            paced.remove(load)
            _pace(paced)

    def _weigh(self, loads: list[Load]) -> None:
        """Those of one sender."""
        c = self._constants
        if loads[0].up:
            for load in loads:
                load.weight = c.uplink / len(loads)
        else:
            unit = len(loads) ** c.access_point / sum([load.demand for load in loads])
            for load in loads:
                load.weight = unit * load.demand

    def handle(self, event: Event) -> None:
        if event.is_end:
            self.age(event.time, self._closing)
            self._remove(event.load)
            self.share()
        else:
            self.age(event.time)
            queues = self._queues()
            self._grow(event.load, self._round_trip(event.load, queues))
            self.share(queues)

    def _grow(self, load: Load, round_trip: Time) -> None:
        load.window *= self._constants.window_growth
        load.grows_at = self.now + round_trip
        if load.window / round_trip >= load.pace:
            load.forget_window()  # the application is slower

    def age(self, now: Time, standstill: Time = 0) -> None:
        elapsed = now - self.now
        self.now = now
        for load in self.loads.values():
            rate = load.rate
            load.left = load.left - rate * elapsed + rate * standstill

    def next_event(self) -> Event | None:
        """Of several at one instant the first."""
        best: Event | None = None
        before: float = math.inf  # in ns from now: only what is not later can be the first
        for load in self.loads.values():
            ahead = load.left / load.rate - SLACK_NS
            if ahead <= before:
                end = self.now + max(0, math.ceil(ahead))
                if best is None or end < best.time:
                    best, before = Event(end, load, True), end - self.now - 1
            if load.grows_at is not None and best is not None and load.grows_at < best.time:
                best, before = Event(load.grows_at, load, False), load.grows_at - self.now - 1
        return best

    def share(self, queues: _Queues | None = None) -> None:
        """Weighted fair shares of the channel's time, bounded by windows and paces."""
        self.version += 1
        if len(self.loads) == 1:
            (load,) = self.loads.values()
            load.forget_window()
            load.rate = min(1.0, load.most)
            return
        waiting = [
            load for senders in self._senders for loads in senders.values() for load in loads
        ]
        starting = [load for load in waiting if load.grows_at is not None]
        if starting:
            self._bound(starting, queues or self._queues())
        free = self._useful_time()
        while waiting:
            unit = free / sum([load.weight for load in waiting])
            unbounded = []
            for load in waiting:
                load.rate = unit * load.weight
                if load.most < load.rate:
                    load.rate = load.most
                    free -= load.most
                else:
                    unbounded.append(load)
            if len(unbounded) == len(waiting):
                break
            waiting = unbounded
        for load in waiting if starting else ():
            if load.grows_at is not None:
                load.forget_window()  # it has grown to its share

    def _bound(self, starting: list[Load], queues: _Queues) -> None:
        """The most channel time that each can use."""
        for load in starting:
            window = load.window / self._round_trip(load, queues) * load.slope
            load.most = min(load.cap, window)

    def _useful_time(self) -> float:
        """The share of time that carries data; who wants little contends little."""
        down = up = 0.0
        count = len(self.loads)
        for load in self.loads.values():
            busy = load.most * count
            if busy > 1.0:
                busy = 1.0
            if load.up:
                up += busy
            else:
                down += busy
        c = self._constants
        lost = c.downlink_cost * (1 - 1 / max(1.0, down)) + c.uplink_cost * (1 - 1 / max(1.0, up))
        return 1 / (1 + max(lost, -0.5))

    def _queues(self) -> _Queues:
        """What those that would go faster if they could have still to send."""
        down, up = 0.0, dict[NodeId, float]()
        for load in self.loads.values():
            if load.rate < load.greedy_below:
                if load.up:
                    up[load.sender] = up.get(load.sender, 0.0) + load.left
                else:
                    down += load.left
        longest = self._longest_up
        up = {device: left if left < longest else longest for device, left in up.items()}
        return _Queues(down, up, sum(up.values()))

    def _round_trip(self, load: Load, queues: _Queues) -> Time:
        """Longer by the queues of others; none is longer than what is left to send."""
        down, up, up_sum = queues
        if load.up:
            up_sum -= up.get(load.sender, 0.0)
        elif load.rate < load.greedy_below:
            down -= load.left
        queued = min(down, self._longest_down) + up_sum
        return max(1, self._least_round_trip + round(queued))


def _pace(loads: list[Load]) -> None:
    """Those of one device and direction share its application's pace."""
    for load in loads:
        load.cap = load.most = load.pace / len(loads) * load.slope


def _age(sender: tuple[Any, list[Load]]) -> tuple[Time, FlowId]:
    oldest = sender[1][0]
    return oldest.since, oldest.flow
