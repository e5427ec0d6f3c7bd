"""Sharing of a channel, against numbers worked out by hand."""

import math
from dataclasses import replace

import pytest

from simulator.errors import UserError
from simulator.networks import cells
from simulator.networks.cells import Channels, Contention, Link
from simulator.parts import FOREVER

SECOND = 10**9
INITIAL_WINDOW_BYTES = 10 * 1448
FAIR = Contention(1.0, 0.0, 1.0, 0.0, 0.0, 0.01, 0.0, 0.0, 2.0)
"""Every transfer weighs the same, nothing is lost, round trips of 10 ms."""


def load(flow, device=1, up=False, work_s=1.0, nbytes=10**6, pace_bps=math.inf, ap=0):
    pace = pace_bps / 8 / SECOND
    return flow, Link(ap, device, up), work_s * SECOND, work_s * SECOND / nbytes, pace, 0


class Cell:
    """One channel."""

    def __init__(self, contention):
        self.channels = Channels({7: contention})

    def enter(self, now, load):
        self.channels.send(7, now, *load)
        assert self.channels.advance(now) is None

    @property
    def loads(self):
        return self.channels.on_air(7)


def drain(cell):
    """End times in seconds, by flow."""
    ends = {}
    while (ended := cell.channels.advance(FOREVER)) is not None:
        time, flow = ended
        ends[flow] = time / SECOND
    return ends


def test_alone_it_takes_its_time():
    cell = Cell(FAIR)
    cell.enter(0, load(0))
    assert drain(cell) == {0: 1.0}


def test_two_that_start_together_take_twice_as_long():
    cell = Cell(FAIR)
    cell.enter(0, load(0, device=1))
    cell.enter(0, load(1, device=2))
    assert drain(cell) == {0: pytest.approx(2), 1: pytest.approx(2)}


def test_a_newcomer_starts_with_a_small_window():
    """10 ms at 14480 bytes a round trip, 10 ms at twice that; then its half of the channel.

    A whole second carries 10 MB: the window allows 14.48 % of it, then 28.96 %, then 57.9 %.
    """
    cell = Cell(FAIR)
    cell.enter(0, load(0, device=1, nbytes=10**7))
    cell.enter(SECOND // 2, load(1, device=2, nbytes=10**7))
    assert cell.loads[1].rate == pytest.approx(INITIAL_WINDOW_BYTES / 0.01 / 10**7)
    assert cell.loads[0].rate == pytest.approx(1 - 0.1448)
    ends = drain(cell)
    # 0.5 s alone, 20 ms with what the window leaves, the rest at one half
    left = 0.5 - 0.01 * (1 - 0.1448) - 0.01 * (1 - 0.2896)
    assert ends[0] == pytest.approx(0.52 + 2 * left)
    assert ends[1] == pytest.approx(2.0)


def test_an_access_point_contends_once_for_all_its_downlinks():
    constants = Contention(0.0, 0.0, 1.0, 0.0, 0.0, 0.01, 0.0, 0.0, 2.0)
    cell = Cell(constants)
    for flow, (device, up) in enumerate([(1, False), (2, False), (3, True)]):
        cell.enter(0, load(flow, device, up))
    assert [cell.loads[f].rate for f in range(3)] == pytest.approx([0.25, 0.25, 0.5])


def test_the_transfers_of_one_sending_station_share_its_turn():
    cell = Cell(FAIR)
    for flow, device in enumerate([1, 1, 2]):
        cell.enter(0, load(flow, device, up=True))
    assert [cell.loads[f].rate for f in range(3)] == pytest.approx([0.25, 0.25, 0.5])


def test_equal_rates_give_a_slow_link_more_time():
    cell = Cell(Contention(1.0, 1.0, 1.0, 0.0, 0.0, 0.01, 0.0, 0.0, 2.0))
    cell.enter(0, load(0, 1, work_s=1.0))
    cell.enter(0, load(1, 2, work_s=3.0))
    assert [cell.loads[f].rate for f in range(2)] == pytest.approx([0.25, 0.75])


def test_contention_costs_time():
    cell = Cell(Contention(1.0, 0.0, 1.0, 0.5, 0.25, 0.01, 0.0, 0.0, 2.0))
    cell.enter(0, load(0, 1))
    cell.enter(0, load(1, 2))
    assert sum(x.rate for x in cell.loads.values()) == pytest.approx(1 / 1.25)
    cell.enter(0, load(2, 3, up=True))
    cell.enter(0, load(3, 4, up=True))
    assert sum(x.rate for x in cell.loads.values()) == pytest.approx(1 / 1.375)


def test_a_pace_bounds_a_device_and_leaves_the_rest_to_others():
    """1 MB in a second is 8 Mbit/s: a pace of 2 Mbit/s is a quarter of the channel."""
    cell = Cell(FAIR)
    cell.enter(0, load(0, 1, pace_bps=2e6))
    assert cell.loads[0].rate == pytest.approx(0.25)
    cell.enter(0, load(1, 2))
    assert [cell.loads[f].rate for f in range(2)] == pytest.approx([0.25, 0.75])
    cell.enter(0, load(2, 1, pace_bps=2e6))
    assert [cell.loads[f].rate for f in range(3)] == pytest.approx([0.125, 0.75, 0.125])


def test_queues_make_round_trips_longer():
    constants = Contention(1.0, 0.0, 1.0, 0.0, 0.0, 0.01, 0.05, 0.02, 2.0)
    cell = Cell(constants)
    cell.enter(0, load(0, 1, nbytes=10**8))
    cell.enter(1, load(1, 2, up=True, nbytes=10**8))
    assert cell.loads[1].grows_at == 1 + 60 * 10**6
    cell.enter(2, load(2, 3, nbytes=10**8))
    assert cell.loads[2].grows_at == 2 + 80 * 10**6


def test_no_queue_is_longer_than_what_is_left_to_send():
    cell = Cell(Contention(1.0, 0.0, 1.0, 0.0, 0.0, 0.01, 0.05, 0.02, 2.0))
    cell.enter(0, load(0, 1, work_s=0.03, nbytes=10**8))
    cell.enter(10**7, load(1, 2, up=True, nbytes=10**8))
    assert cell.loads[1].grows_at == 10**7 + (10 + 20) * 10**6


def test_a_connection_is_closed_before_the_next_has_the_channel():
    cell = Cell(replace(FAIR, closing_s=0.1))
    cell.enter(0, load(0))
    assert drain(cell) == {0: 1.0}
    cell.enter(int(1.04 * SECOND), load(1))
    assert drain(cell) == {1: pytest.approx(1.04 + 0.06 + 1.0)}
    cell.enter(3 * SECOND, load(2))
    assert drain(cell) == {2: 4.0}


def test_others_wait_while_a_connection_is_closed():
    cell = Cell(replace(FAIR, closing_s=0.1))
    cell.enter(0, load(0, device=1))
    cell.enter(0, load(1, device=2, work_s=2.0))
    # the other loses its half of 0.1 s
    assert drain(cell) == {0: pytest.approx(2.0), 1: pytest.approx(3.05)}


def test_what_would_take_longer_than_forever_does_not_end():
    cell = Cell(FAIR)
    cell.enter(0, load(0, pace_bps=1e-12))
    cell.enter(0, load(1, 2))
    assert drain(cell) == {1: pytest.approx(1)}
    assert list(cell.loads) == [0]


def test_without_a_compiler_it_is_told_what_to_do(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    match = r"build the sharing of channels.*apt-get install g\+\+"
    with pytest.raises(UserError, match=match):
        cells._library.__wrapped__()
