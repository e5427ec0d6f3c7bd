"""Ns3Network on shipped topologies: the protocol, re-association, replay."""

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ns3_scenarios.network import Ns3Network
from ns3_scenarios.section import Ns3Section
from simulator.errors import UserError
from topologies import Link, load_topology
from topologies.section import FileTopology

pytestmark = pytest.mark.ns3
SECOND = 10**9


@pytest.fixture
def network():
    """network(name, ...): an Ns3Network that ends with the test."""
    running = []

    def make(name="nycmesh-30", seed=1, profile="broadband", **options):
        topology = load_topology(FileTopology(path=Path(name), profile=profile), 0, Path())
        running.append(Ns3Network(topology, Ns3Section(**options), seed))
        return running[-1], topology

    yield make
    for one in running:
        one.close()


def drain(net, limit=10**14):
    ended = []
    while (done := net.advance(limit)) is not None:
        ended.append(done)
    return ended


@pytest.mark.parametrize("profile", ["broadband", "iot"])
def test_every_link_of_a_shipped_topology_works_both_ways(network, profile):
    net, topology = network(profile=profile)
    for way in range(2):
        now = way * 10_000 * SECOND
        net.advance(now)
        for device in topology.devices:
            ends = (device, topology.reach(device)[-1])
            net.send(now, *(ends if way else reversed(ends)), 20_000)
        assert [done.lost for done in drain(net, now + 9_000 * SECOND)] == [""] * 30


def test_a_device_goes_where_it_is_sent_and_back(network):
    net, topology = network()
    device = next(d for d in topology.devices if len(topology.reach(d)) > 1)
    first, second = topology.reach(device)[:2]
    now = 0
    for gateway in (first, second, first):
        net.send(now, gateway, device, 20_000)
        [done] = drain(net, now + 50 * SECOND)
        assert done.lost == ""
        now += 50 * SECOND
    net.send(now, device, first, 10**6)
    with pytest.raises(UserError, match="has a transfer under way and cannot change"):
        net.send(now, device, second, 10)


def test_a_hundred_stations_of_one_gateway_probe_at_once(network):
    """A frame begins in the nanosecond in which another's header ends: ns-3 would abort."""
    net, topology = network("nycmesh-184", seed=0)
    for device in topology.devices:
        net.send(0, topology.reach(device)[0], device, 1000)
    assert [done.lost for done in drain(net, 60 * SECOND)] == [""] * 184


def test_a_gateway_out_of_reach_is_told(network):
    net, topology = network()
    device = topology.devices[0]
    far = next(g for g in topology.gateways if g not in topology.reach(device))
    with pytest.raises(UserError, match="cannot reach gateway"):
        net.send(0, device, far, 10)


def test_a_saved_network_is_replayed_and_compared(network):
    net, topology = network()
    for device in topology.devices[:6]:
        net.send(0, topology.reach(device)[0], device, 200_000)
    before = [net.advance(10**12) for _ in range(3)]
    state = net.save()
    rest = drain(net)
    again, _ = network()
    again.load(state)
    assert drain(again) == rest
    other, _ = network(seed=2)
    with pytest.raises(UserError, match="ns-3 does not repeat what it did"):
        other.load(state)
    assert len(before) + len(rest) == 6


def test_a_topology_without_radios_is_told():
    topology = load_topology(FileTopology(path=Path("tree-30")), 0, Path())
    with pytest.raises(UserError, match=r"'tree-30' has no radio profile.*nycmesh-30"):
        Ns3Network(topology, Ns3Section(), 1)


def test_an_estimate_is_near_a_lone_transfer(network):
    net, topology = network()
    device = topology.devices[0]
    gateway = topology.reach(device)[0]
    net.send(0, gateway, device, 1_600_000)
    [done] = drain(net)
    assert done.time == pytest.approx(net.estimate(gateway, device, 1_600_000), rel=1.0)


def wired(*links):
    """campus-12 with these wires instead of its own."""
    campus = load_topology(FileTopology(path=Path("campus-12")), 0, Path())
    air = tuple(link for link in campus.links if link.kind == "wifi")
    return replace(campus, links=(*links, *air))


def test_a_gateway_behind_another_has_the_wires_of_its_way():
    cloud, g0, g1 = 0, 1, 2
    topology = wired(Link(cloud, g0, 1e8, 0.1), Link(g0, g1, 1e6, 0.05, "fibre"))
    net = Ns3Network(topology, Ns3Section(), 1)
    times = []
    for i, nbytes in enumerate((100, 500_000, 1_000_000)):
        begin = 100 * i * SECOND
        net.advance(begin)
        net.send(begin, cloud, g1, nbytes)
        times.append((net.advance(2**60).time - begin) / SECOND)
    net.close()
    assert times[0] == pytest.approx(3 * 0.15, rel=0.02), "a handshake, then one way"
    headers = (1448 + 54) / 1448
    assert times[2] - times[1] == pytest.approx(500_000 * headers * 8 / 1e6, rel=0.02)


def test_a_device_with_a_wire_is_told():
    topology = wired(Link(0, 1, 1e8, 0.1), Link(0, 2, 1e8, 0.1), Link(0, 3, 1e8, 0.1))
    with pytest.raises(UserError, match=r"device 'd0'.*on ns-3 devices have Wi-Fi only"):
        Ns3Network(topology, Ns3Section(), 1)


def test_many_transfers_leave_nothing_behind(network):
    net, topology = network("campus-12")
    memory = psutil.Process(net._ns3._process.pid).memory_info

    def send(count, now):
        for _ in range(count):
            net.send(now, topology.cloud, topology.gateways[0], 100)
            now = net.advance(10**18).time
        return now

    now = send(2000, 0)
    settled = memory().rss
    send(8000, now)
    assert memory().rss - settled < 1e6
