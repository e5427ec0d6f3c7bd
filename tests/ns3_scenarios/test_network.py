"""Ns3Network on shipped topologies: the protocol, re-association, replay."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from ns3_scenarios.modes import modes_of
from ns3_scenarios.network import Ns3Network, scene_of
from ns3_scenarios.process import Ns3Process
from ns3_scenarios.profile import find_profile, key_of
from ns3_scenarios.section import Ns3Section, ProfileSection
from simulator.errors import UserError
from topologies import Link, find_topology, load_topology, shipped_profiles
from topologies.channels import CHANNELS
from topologies.geography import positions
from topologies.linkbudget import holds, rssi_dbm
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


@pytest.fixture
def ns3():
    process = Ns3Process()
    yield process
    process.close()


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


def test_devices_with_wires_only_are_told():
    campus = find_topology(Path("campus-12"))
    cables = tuple(replace(link, kind="ethernet", medium=None) for link in campus.links)
    with pytest.raises(UserError, match=r"device 'd0'.*on ns-3 devices have Wi-Fi only"):
        Ns3Network(replace(campus, links=cables), Ns3Section(), 1)


def test_udp_sends_at_its_rate(network):
    seconds = []
    for rate in ({}, {"udp_rate_bps": 20e6}):
        net, topology = network("campus-12", transport="udp", **rate)
        device = topology.devices[0]
        net.send(0, topology.reach(device)[0], device, 10**6)
        [done] = drain(net)
        assert done.lost == ""
        seconds.append(done.time / SECOND)
    assert seconds == pytest.approx([8e6 / 2e6, 8e6 / 20e6], rel=0.1)


def test_the_rate_of_udp_is_no_part_of_tcps_profiles():
    campus = find_topology(Path("campus-12"))
    keys = [
        key_of(campus, ProfileSection(transport=transport, udp_rate_bps=rate))
        for transport in ("tcp", "udp")
        for rate in (1e6, 2e6)
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    city = find_topology(Path("nycmesh-184"))
    assert find_profile(city, ProfileSection(udp_rate_bps=1e6)) in shipped_profiles()


def under(standard, band_ghz, width_mhz, channel):
    """campus-12 with such radios, all gateways on one channel."""
    campus = find_topology(Path("campus-12"))
    radio = replace(
        campus.radio, standard=standard, band_ghz=band_ghz, width_mhz=width_mhz, channels={}
    )
    nodes = [replace(n, channel=channel) if n.tier == "gateway" else n for n in campus.nodes]
    return replace(campus, nodes=tuple(nodes), radios=(radio,))


def scene_under(topology, **options):
    homes = {device: topology.reach(device)[0] for device in topology.devices}
    return scene_of(topology, Ns3Section(**options), 1, homes)


@pytest.mark.parametrize(("standard", "band_ghz", "width_mhz"), CHANNELS)
def test_ns3_has_every_channel_that_a_topology_may_have(ns3, standard, band_ghz, width_mhz):
    for channel in CHANNELS[standard, band_ghz, width_mhz]:
        topology = under(standard, band_ghz, width_mhz, channel)
        assert ns3.ask("build", *scene_under(topology)) == "built"


@pytest.mark.parametrize(
    ("standard", "band_ghz", "width_mhz", "channel"),
    [("b", 2.4, 20, 1), ("g", 2.4, 20, 1), ("n", 2.4, 20, 1), ("n", 5.0, 20, 36),
     ("ac", 5.0, 20, 36), ("ac", 5.0, 80, 42), ("ax", 2.4, 20, 1), ("ax", 5.0, 40, 38)],
)  # fmt: skip
def test_every_mode_of_a_standard_carries_packets(ns3, standard, band_ghz, width_mhz, channel):
    topology = under(standard, band_ghz, width_mhz, channel)
    device = topology.devices[0]
    for mode in modes_of(topology.radio):
        scene = scene_under(topology, rate_manager=f"constant:{mode}", loss="fixed")
        ns3.ask("build", *scene)
        ns3.tell("start", 0, 0, topology.reach(device)[0], device, 10_000, 20 * SECOND)
        assert ns3.ask("advance", 30 * SECOND)[2] == 0, mode


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [("Foo", "known: HtMcs0"), ("VhtMcs3", r"did you mean 'HtMcs3'\?"), ("HtMcs8", "did you mean"),
     ("DsssRate1Mbps", "did you mean")],
)  # fmt: skip
def test_a_rate_that_the_standard_lacks_is_told(mode, remedy):
    told = rf"network.rate_manager = 'constant:{mode}': radio 'broadband' \(802.11n.*{remedy}"
    with pytest.raises(UserError, match=told):
        Ns3Network(find_topology(Path("campus-12")), Ns3Section(rate_manager=f"constant:{mode}"), 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("sensitivity_dbm", 1000), ("sensitivity_dbm", -200), ("fixed_rss_dbm", -200),
     ("fixed_rss_dbm", 100), ("udp_rate_bps", 0)],
)  # fmt: skip
def test_what_no_radio_can_be_is_told(key, value):
    with pytest.raises(ValueError, match=key):
        Ns3Section(**{key: value})


def test_an_exception_of_ns3_is_told_in_one_line(ns3):
    options, *rest = scene_under(find_topology(Path("campus-12")))
    with pytest.raises(UserError, match="ns-3 ended the simulation") as caught:
        ns3.ask("build", {**options, "widthMhz": 80}, *rest)
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("profile", ["broadband", "iot"])
def test_the_estimate_of_received_power_is_near_ns3_where_it_says_so(ns3, profile):
    topology = find_topology(Path("metro-1000")).with_radio(profile)
    ns3.ask("build", *scene_under(topology))
    places = positions(topology)
    near, far = [], []
    for link in topology.links[::3]:
        if link.kind == "wifi":
            off = rssi_dbm(topology, places, link.a, link.b) - ns3.ask("power", link.a, link.b)
            (near if holds(places[link.a], places[link.b]) else far).append(off)
    assert max(map(abs, near)) < 8
    assert median(far) > 10
    assert max(far) > 20


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
