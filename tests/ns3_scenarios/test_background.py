"""Traffic of others on each gateway's channel."""

from pathlib import Path

import pytest

from ns3_scenarios.network import Ns3Network
from ns3_scenarios.section import Ns3Section
from topologies import load_topology
from topologies.section import FileTopology

pytestmark = pytest.mark.ns3
SECOND = 10**9
BUSY = {"down_bps": 8e6, "up_bps": 8e6, "on_s": 0.5, "off_s": 0.01}


@pytest.fixture
def network():
    """network(): campus-12 on ns-3."""
    running = []

    def make(background=None, seed=1, **options):
        topology = load_topology(FileTopology(path=Path("campus-12")), 0, Path())
        section = Ns3Section(background=background, **options)
        running.append(Ns3Network(topology, section, seed))
        return running[-1], topology

    yield make
    for one in running:
        one.close()


def times(net, topology):
    """How long 2 MB take to a device that hears the neighbour, and how long back."""
    gateway = topology.gateways[0]
    device = next(d for d in topology.devices if topology.reach(d)[0] == gateway)
    net.send(SECOND, gateway, device, 2_000_000)
    net.send(SECOND, device, gateway, 2_000_000)
    ended = sorted(net.advance(100 * SECOND) for _ in range(2))
    assert [done.lost for done in ended] == ["", ""]
    return [done.time - SECOND for done in ended]


def test_transfers_take_longer_among_others(network):
    alone, busy = times(*network()), times(*network(BUSY))
    assert all(one < other for one, other in zip(alone, busy, strict=True))
    assert sum(busy) > 1.2 * sum(alone)


@pytest.mark.parametrize("way", ["down_bps", "up_bps"])
def test_each_way_counts(network, way):
    one_way = BUSY | {"down_bps": 0.0, "up_bps": 0.0, way: 16e6}
    assert sum(times(*network(one_way))) > 1.1 * sum(times(*network()))


def test_others_repeat_themselves(network):
    first = times(*network(BUSY))
    assert first == times(*network(BUSY))
    assert first != times(*network(BUSY, seed=2))


def test_others_are_off_as_long_as_they_are_told(network):
    """On for a moment, then off for ages: as good as nobody there."""
    rarely = BUSY | {"on_s": 1e-3, "off_s": 1e6}
    assert sum(times(*network(rarely))) == pytest.approx(sum(times(*network())), rel=0.05)


def test_a_run_among_others_resumes(scenario, run_in):
    told = scenario(
        {"network": {"kind": "ns3", "energy": True, "background": {"off_s": 0.5}}},
        {"topology": {"kind": "file", "path": "campus-12"}, "run": {"epochs": 2}},
    )
    whole = run_in(told, "whole")
    parts = run_in(told, "parts", after_events=30)
    for key in ("event_log_sha256", "energy_radio_j"):
        assert parts[key] == whole[key]


def test_no_traffic_at_all_is_told():
    with pytest.raises(ValueError, match="both 0; delete the table"):
        Ns3Section(background={"down_bps": 0, "up_bps": 0})
