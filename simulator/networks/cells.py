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
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

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

    __slots__ = ("flow", "grows_at", "left", "link", "pace", "rate", "since", "slope", "window")

    def __init__(self, flow: FlowId, link: Link, left: float, slope: float, pace: float) -> None:
        self.flow = flow
        self.since: Time = 0
        """When it came on the air."""
        self.link = link
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

    def forget_window(self) -> None:
        self.window = math.inf
        self.grows_at = None

    @property
    def is_greedy(self) -> bool:
        """Whether it would go faster if it could, and so fills queues."""
        return self.rate < 0.99 * self.pace * self.slope


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
        self.loads: dict[FlowId, Load] = {}
        self.now = now
        """Of its last event; of an empty cell: when its last transfer ended."""
        self.version = 0
        """Changes with the rates: what was planned before is void."""

    def enter(self, now: Time, load: Load) -> None:
        if not self.loads:
            load.left += max(0, self.now + to_ns(self._constants.closing_s) - now)
        self.age(now)
        load.since = now
        crowded = any(other.since < now for other in self.loads.values())
        self.loads[load.flow] = load
        if crowded:
            load.window = INITIAL_WINDOW_BYTES
            load.grows_at = now + self._round_trip(load)
        self.share()

    def handle(self, event: Event) -> None:
        self.age(event.time)
        if event.is_end:
            del self.loads[event.load.flow]
            for load in self.loads.values():
                load.left += load.rate * to_ns(self._constants.closing_s)
        else:
            self._grow(event.load)
        self.share()

    def _grow(self, load: Load) -> None:
        round_trip = self._round_trip(load)
        load.window *= self._constants.window_growth
        load.grows_at = self.now + round_trip
        if load.window / round_trip >= load.pace:
            load.forget_window()  # the application is slower

    def age(self, now: Time) -> None:
        elapsed = now - self.now
        self.now = now
        for load in self.loads.values():
            load.left -= load.rate * elapsed

    def next_event(self) -> Event | None:
        best: Event | None = None
        for load in self.loads.values():
            end = self.now + max(0, math.ceil(load.left / load.rate - SLACK_NS))
            if best is None or end < best.time:
                best = Event(end, load, True)
            if load.grows_at is not None and load.grows_at < best.time:
                best = Event(load.grows_at, load, False)
        return best

    def share(self) -> None:
        """Weighted fair shares of the channel's time, bounded by windows and paces."""
        self.version += 1
        if len(self.loads) == 1:
            (load,) = self.loads.values()
            load.forget_window()
            load.rate = min(1.0, load.pace * load.slope)
            return
        unbounded = self._weights()
        bounds = self._bounds()
        free = self._useful_time(bounds)
        while unbounded:
            unit = free / sum(unbounded.values())
            bounded = [load for load, weight in unbounded.items() if bounds[load] < unit * weight]
            if not bounded:
                break
            for load in bounded:
                load.rate = bounds[load]
                free -= load.rate
                del unbounded[load]
        for load, weight in unbounded.items():
            load.rate = unit * weight
            load.forget_window()  # it has grown to its share

    def _weights(self) -> dict[Load, float]:
        c = self._constants
        down: dict[NodeId, list[Load]] = {}
        up: dict[NodeId, list[Load]] = {}
        for load in self.loads.values():
            link = load.link
            by, node = (up, link.device) if link.up else (down, link.access_point)
            by.setdefault(node, []).append(load)
        weights: dict[Load, float] = {}
        for loads in down.values():
            demands = [load.slope**c.rate_fairness for load in loads]
            unit = len(loads) ** c.access_point / sum(demands)
            weights |= {load: unit * demand for load, demand in zip(loads, demands, strict=True)}
        for loads in up.values():
            weights |= dict.fromkeys(loads, c.uplink / len(loads))
        return weights

    def _bounds(self) -> dict[Load, float]:
        """The most channel time that each can use."""
        queues = self._queues()
        paced = Counter(load.link[1:] for load in self.loads.values() if load.pace < math.inf)
        bounds = {}
        for load in self.loads.values():
            most = load.pace / max(1, paced[load.link[1:]])
            if load.window < math.inf:
                most = min(most, load.window / self._round_trip(load, queues))
            bounds[load] = most * load.slope
        return bounds

    def _useful_time(self, bounds: dict[Load, float]) -> float:
        """The share of time that carries data; who wants little contends little."""
        down = up = 0.0
        for load, bound in bounds.items():
            busy = min(1.0, bound * len(bounds))
            if load.link.up:
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
            if load.is_greedy and load.link.up:
                device = load.link.device
                up[device] = up.get(device, 0.0) + load.left
            elif load.is_greedy:
                down += load.left
        longest = SECOND * self._constants.uplink_queue_s
        up = {device: min(left, longest) for device, left in up.items()}
        return _Queues(down, up, sum(up.values()))

    def _round_trip(self, load: Load, queues: _Queues | None = None) -> Time:
        """Longer by the queues of others; none is longer than what is left to send."""
        c = self._constants
        down, up, up_sum = queues or self._queues()
        if load.link.up:
            up_sum -= up.get(load.link.device, 0.0)
        elif load.is_greedy:
            down -= load.left
        queued = min(down, SECOND * c.downlink_queue_s) + up_sum
        return max(1, to_ns(c.round_trip_s) + round(queued))
