"""Real ns-3: what packets do on wires and in the air."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from ns3_scenarios.process import Ns3Process
from simulator.errors import UserError

pytestmark = pytest.mark.ns3

SECOND = 10**9
CLOUD, G0, G1, D0 = range(4)
ARRIVED, DEADLINE, _, INCOMPLETE = range(4)


def scene(distances=(300,), gain=15.0, limit=0.0, channels=(36, 40), **options):
    """Two gateways at 60 m height, 500 m apart; devices at 30 m, at distances from the first."""
    radio = {"gainDbi": gain, "txPowerDbm": 20.0}
    nodes = [{"tier": 0, "z": 10.0}]
    for x, channel in zip((0.0, 500.0), channels, strict=True):
        nodes.append({"tier": 1, "x": x, "z": 60.0, "channel": channel, **radio})
    for i, x in enumerate(distances):
        place = {"x": float(x), "y": 2.0 * i, "z": 30.0, "rateLimitBps": limit}
        nodes.append({"tier": 2, **place, **radio})
    kind, latency_s = options.pop("backhaul", ("p2p", 0.005))
    wire = {"kind": kind, "rateBps": 1e7, "latencyS": latency_s}
    links = [{"a": CLOUD, "b": g, **wire} for g in (G0, G1)]
    options = {"longestLinkM": float(max(*distances, 100)), **options}
    return options, nodes, links, [], [-1, -1, -1] + [G0] * len(distances)


@pytest.fixture
def ns3():
    """ns3(scene): a process that has built it; all of them end with the test."""
    running = []

    def start(*parts):
        running.append(Ns3Process())
        assert running[-1].ask("build", *parts) == "built"
        return running[-1]

    yield start
    for process in running:
        process.close()


def transfer(process, *pairs, nbytes=1_600_000, at_s=0.0, deadline_s=100.0):
    """Start transfers together; (seconds, status) by flow."""
    at = int(at_s * SECOND)
    for flow, (src, dst) in enumerate(pairs):
        process.tell("start", flow, at, src, dst, nbytes, int(deadline_s * SECOND))
    ended = {}
    while len(ended) < len(pairs):
        flow, end, status, _ = process.ask("advance", at + int(2 * deadline_s * SECOND))
        ended[flow] = ((end - at) / SECOND, status)
    return [ended[flow] for flow in range(len(pairs))]


WIRE_BYTES = 1_000_000 * (1448 + 54) / 1448
"""With the headers of PPP, IP and TCP on every segment."""


def test_a_lone_transfer_over_ethernet_takes_bytes_by_rate_plus_latency(ns3):
    process = ns3(*scene())
    [(seconds, status)] = transfer(process, (CLOUD, G0), nbytes=1_000_000)
    handshake = 3 * 0.005
    assert status == ARRIVED
    assert seconds == pytest.approx(WIRE_BYTES * 8 / 1e7 + 0.005 + handshake, rel=0.02)


def test_a_shared_wire_carries_acknowledgements_too(ns3):
    """CSMA is half duplex; its span must be short, for the wire is busy while a frame travels."""
    process = ns3(*scene(backhaul=("csma", 1e-6)))
    [(seconds, status)] = transfer(process, (CLOUD, G0), nbytes=1_000_000)
    assert status == ARRIVED
    assert WIRE_BYTES * 8 / 1e7 < seconds < 1.1 * WIRE_BYTES * 8 / 1e7


def test_two_flows_share_a_wire_fairly(ns3):
    process = ns3(*scene())
    ended = transfer(process, (CLOUD, G0), (CLOUD, G0), nbytes=1_000_000)
    both = 2 * WIRE_BYTES * 8 / 1e7
    assert max(seconds for seconds, _ in ended) == pytest.approx(both, rel=0.04)
    assert min(seconds for seconds, _ in ended) > 0.8 * both


@pytest.mark.parametrize("distance", [300, 1000, 2000, 3000, 5000])
def test_links_up_to_five_kilometres_work(ns3, distance):
    process = ns3(*scene((distance,), gain=20.0))
    down, up = transfer(process, (G0, D0)), transfer(process, (D0, G0), at_s=200)
    assert down[0][1] == up[0][1] == ARRIVED
    assert 0.1 < down[0][0] < 3


def test_throughput_falls_with_distance(ns3):
    times = [transfer(ns3(*scene((d,))), (G0, D0))[0][0] for d in (300, 3000, 5000)]
    assert all(near < far for near, far in pairwise(times))


def test_throughput_falls_with_the_number_of_stations(ns3):
    times = []
    for count in (1, 3, 8):
        process = ns3(*scene((100,) * count))
        ended = transfer(process, *[(G0, D0 + i) for i in range(count)])
        assert all(status == ARRIVED for _, status in ended)
        times.append(max(seconds for seconds, _ in ended))
    assert all(few < many for few, many in pairwise(times))


@pytest.mark.parametrize(
    ("standard", "band", "channels"),
    [("b", 2.4, (1, 6)), ("g", 2.4, (1, 6)), ("n", 5, (36, 40)), ("ac", 5, (36, 40)),
     ("ax", 5, (36, 40))],
)  # fmt: skip
def test_every_standard_carries_a_model_both_ways(ns3, standard, band, channels):
    process = ns3(*scene(standard=standard, bandGhz=float(band), channels=channels))
    assert transfer(process, (G0, D0), nbytes=200_000)[0][1] == ARRIVED
    assert transfer(process, (D0, G0), nbytes=200_000, at_s=200)[0][1] == ARRIVED


@pytest.mark.parametrize("loss", ["hybrid-buildings", "itu-r-1411", "log-distance", "fixed"])
def test_every_loss_model(ns3, loss):
    process = ns3(*scene(loss=loss, shadowingSigmaDb=3.0 if loss != "fixed" else 0.0))
    assert transfer(process, (D0, G0), nbytes=200_000)[0][1] == ARRIVED


@pytest.mark.parametrize("manager", ["minstrel", "constant:HtMcs3"])
def test_rate_managers(ns3, manager):
    process = ns3(*scene(rateManager=manager))
    assert transfer(process, (D0, G0), nbytes=200_000)[0][1] == ARRIVED


def test_a_device_out_of_range_is_lost_at_its_deadline(ns3):
    process = ns3(*scene((60_000,)))
    assert transfer(process, (G0, D0), deadline_s=30) == [(30.0, DEADLINE)]


def test_a_rate_limit_paces_each_way(ns3):
    process = ns3(*scene(limit=400e3))
    for pair, at_s in (((D0, G0), 0), ((G0, D0), 200)):
        [(seconds, status)] = transfer(process, pair, nbytes=500_000, at_s=at_s)
        assert status == ARRIVED
        assert seconds == pytest.approx(500_000 * 8 / 400e3, rel=0.03)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_transfer_that_dies_leaves_no_bytes_booked(ns3, transport):
    """At 10 kbit/s a segment takes 1.16 s: the second waits, unsent, at the deadline of 1 s."""
    process = ns3(*scene(limit=10e3, transport=transport))
    assert transfer(process, (D0, G0), nbytes=10_000, deadline_s=1) == [(1.0, DEADLINE)]
    [(seconds, status)] = transfer(process, (D0, G0), nbytes=100, at_s=1.0)
    assert status == ARRIVED
    assert seconds < 0.5


def test_udp_arrives_or_is_told_incomplete(ns3):
    process = ns3(*scene((300,), transport="udp"))
    assert transfer(process, (D0, G0), nbytes=200_000)[0][1] == ARRIVED
    far = ns3(*scene((300,), transport="udp", udpRateBps=500e6))
    [(_, status)] = transfer(far, (D0, G0), nbytes=20_000_000)
    assert status == INCOMPLETE


def test_a_device_changes_its_gateway_between_transfers(ns3):
    process = ns3(*scene())
    assert transfer(process, (D0, G0))[0][1] == ARRIVED
    process.tell("associate", D0, G1)
    [(seconds, status)] = transfer(process, (D0, G1), at_s=200)
    assert status == ARRIVED
    assert seconds < 1
    assert transfer(process, (D0, CLOUD), at_s=400)[0][1] == ARRIVED


@pytest.mark.parametrize("standard", ["b", "n"])
def test_a_device_may_change_gateway_while_an_acknowledgement_is_due(ns3, standard):
    """At the very instant at which its last transfer has ended, again and again."""
    radio = {"b": {"standard": "b", "bandGhz": 2.4, "channels": (1, 6)}, "n": {}}[standard]
    process = ns3(*scene((200, 210, 220, 230, 240), **radio))
    now, gateway = 0, G0
    for turn in range(12):
        for i in range(5):
            pair = (D0 + i, gateway) if (turn + i) % 2 else (gateway, D0 + i)
            process.tell("start", 5 * turn + i, now, *pair, 20_000, 60 * SECOND)
        for _ in range(5):
            _, now, status, _ = process.ask("advance", now + 100 * SECOND)
            assert status == ARRIVED
        gateway = G0 + G1 - gateway
        for i in range(5):
            process.tell("associate", D0 + i, gateway)


def test_same_seed_same_nanoseconds_in_two_processes_and_after_a_rebuild(ns3):
    def play(process, again=False):
        if again:
            process.ask("build", *parts)
        return transfer(process, (G0, D0), (G0, D0 + 1), (D0 + 2, G0))

    parts = scene((100, 200, 300), seed=5)
    first, second = ns3(*parts), ns3(*parts)
    once = play(first)
    assert once == play(second) == play(first, again=True)
    other = ns3(*scene((100, 200, 300), seed=6))
    assert once != play(other)


def test_a_day_without_traffic_costs_nothing_even_with_a_device_out_of_range(ns3):
    process = ns3(*scene((300, 60_000)))
    transfer(process, (G0, D0), (G0, D0 + 1), nbytes=200_000, deadline_s=10)
    process.ask("advance", 30 * SECOND)
    assert process.ask("awake") == 0
    before, began = process.ask("events"), time.monotonic()
    assert process.ask("advance", 86_400 * SECOND) is None
    assert process.ask("events") - before < 100
    assert time.monotonic() - began < 2


def test_ns3s_own_message_comes_through_in_seconds(ns3):
    process = Ns3Process()
    began = time.monotonic()
    with pytest.raises(UserError, match=r"ns-3 ended the simulation[\s\S]*NoSuchMode"):
        process.ask("build", *scene(rateManager="constant:NoSuchMode"))
    assert time.monotonic() - began < 10
    process.close()


def test_a_killed_process_is_noticed(ns3):
    process = ns3(*scene())
    os.kill(process._process.pid, signal.SIGKILL)
    with pytest.raises(UserError, match="ns-3 ended the simulation"):
        process.ask("advance", SECOND)


def test_two_hundred_rebuilds_do_not_grow_memory(ns3):
    parts = scene((100,) * 4)
    process = ns3(*parts)
    memory = psutil.Process(process._process.pid).memory_info

    def cycle(times):
        for _ in range(times):
            process.ask("build", *parts)
            transfer(process, (G0, D0), nbytes=10_000)
        return memory().rss

    settled = cycle(20)
    assert cycle(180) - settled < 20e6


def test_only_the_worker_loads_ns3():
    """Neither importing the package nor asking for a library loads cppyy into this process."""
    import sys

    assert "cppyy" not in sys.modules
    assert Path(sys.executable).exists()
