import pytest

from simulator.errors import UserError
from simulator.networks.drawn import DrawnNetwork, DrawnSection
from simulator.units import SECOND
from topologies import Link, Node, Tier, Topology

CLOUD, FIRST, LAST, DEVICE = 0, 1, 8, 9
TOPOLOGY = Topology(
    "t",
    (
        Node("cloud", Tier.CLOUD),
        *(Node(f"g{i}", Tier.GATEWAY) for i in range(8)),
        Node("d0", Tier.DEVICE),
    ),
    (*(Link(0, g, 1.0, 0.0) for g in range(FIRST, LAST + 1)), Link(FIRST, DEVICE, 1.0, 0.0)),
)


def network(seed=0, **parameters):
    return DrawnNetwork(TOPOLOGY, DrawnSection(**parameters), seed)


def seconds(net, src, dst, now=0):
    net.send(now, src, dst, 1)
    completion = net.advance(10**18)
    return (completion.time - now) / SECOND


def test_only_uploads_take_time():
    net = network()
    pairs = [(CLOUD, FIRST), (FIRST, DEVICE), (DEVICE, FIRST)]
    assert [seconds(net, *pair) for pair in pairs] == [0, 0, 0]
    assert seconds(net, FIRST, CLOUD) >= 1


def test_a_gateway_keeps_its_delay():
    net = network()
    delays = [seconds(net, FIRST, CLOUD) for _ in range(5)]
    assert len(set(delays)) == 1
    assert net.estimate(FIRST, CLOUD, 1) == delays[0] * SECOND


def test_or_draws_one_for_every_upload():
    net = network(drawn="upload")
    assert len({seconds(net, FIRST, CLOUD) for _ in range(20)}) > 10


def test_delays_are_whole_units_up_to_the_bound():
    net = network(gamma_max=3, unit_s=0.5, drawn="upload")
    assert {seconds(net, FIRST, CLOUD) for _ in range(60)} == {0.5, 1.0, 1.5}


def test_the_slowest_of_eight_is_as_slow_as_in_table_3():
    longest = []
    for seed in range(100):
        net = network(seed)
        longest.append(max(net.estimate(g, CLOUD, 1) / SECOND for g in range(FIRST, LAST + 1)))
    assert sum(longest) / 100 == pytest.approx(446, abs=15)


def test_other_pairs_are_refused():
    with pytest.raises(UserError, match=r"cannot carry 'cloud' to 'd0'.* use another network"):
        network().send(0, CLOUD, DEVICE, 1)
