import numpy as np
import pytest

from simulator.errors import UserError
from simulator.networks import LinearDelayNetwork, LinearSection
from simulator.units import SECOND
from topologies import Link, Node, Tier, Topology

CLOUD, G0, G1 = 0, 1, 2
DEVICES = (3, 4, 5)
TOPOLOGY = Topology(
    "t",
    (
        Node("cloud", Tier.CLOUD),
        Node("g0", Tier.GATEWAY),
        Node("g1", Tier.GATEWAY),
        *(Node(f"d{i}", Tier.DEVICE) for i in range(3)),
    ),
    (
        Link(0, 1, 1.0, 0.0),
        Link(0, 2, 1.0, 0.0),
        *(Link(1, d, 1.0, 0.0) for d in DEVICES),
        Link(2, 5, 1.0, 0.0),
    ),
)
ZERO = dict.fromkeys(["d", "b", "e", "f", "d_g", "b_g", "e_g", "f_g"], 0.0)
EXACT = ZERO | {"d": 2, "b": 3, "d_g": 10, "b_g": 1}


def network(seed=0, **parameters):
    return LinearDelayNetwork(TOPOLOGY, LinearSection(**ZERO | parameters), seed)


def drain(net):
    ended = []
    while (completion := net.advance(10**18)) is not None:
        ended.append(completion)
    return ended


def iterate(net, now, parent, children):
    """One broadcast at ``now`` and its answers, with no time to compute."""
    for child in children:
        net.send(now, parent, child, 1)
    assert [c.time for c in drain(net)] == [now] * len(children)
    for child in children:
        net.send(now, child, parent, 1)
    return [c.time - now for c in drain(net)]


def test_constant_part_grows_with_the_group():
    net = network(**EXACT)
    assert iterate(net, 7, G0, DEVICES[:1]) == [5 * SECOND]
    assert iterate(net, 7 * SECOND, G0, DEVICES) == [9 * SECOND] * 3
    assert iterate(net, 99 * SECOND, CLOUD, [G0, G1]) == [21 * SECOND] * 2
    assert iterate(net, 199 * SECOND, CLOUD, [G1]) == [11 * SECOND]


def test_an_uplink_counts_from_when_it_is_sent():
    net = network(**EXACT)
    net.send(0, G0, 3, 1)
    net.send(0, G0, 4, 1)
    drain(net)
    net.send(SECOND, 3, G0, 1)
    net.send(4 * SECOND, 4, G0, 1)
    assert [c.time for c in drain(net)] == [8 * SECOND, 11 * SECOND]


def test_one_draw_for_a_broadcast_another_for_the_next():
    net = network(e=1.0, f=0.5)
    first = iterate(net, 0, G0, DEVICES)
    second = iterate(net, 1000 * SECOND, G0, DEVICES)
    assert len(set(first)) == len(set(second)) == 1
    assert first[0] != second[0]


def test_groups_draw_apart():
    net = network(f=1.0)
    for parent, child in ((G0, 3), (G0, 5), (G1, 5)):
        net.send(0, parent, child, 1)
    drain(net)
    for child, parent in ((3, G0), (5, G0), (5, G1)):
        net.send(0, child, parent, 1)
    times = {c.flow: c.time for c in drain(net)}
    assert times[3] == times[4] != times[5]


@pytest.mark.parametrize(("size", "mean"), [(1, 0.5 + 0.2), (3, 1.5 + 0.2)])
def test_exponential_part(size, mean):
    net = network(d=1.0, b=2.0, e=0.5, f=0.2)
    draws = [iterate(net, i * 1000 * SECOND, G0, DEVICES[:size])[0] / SECOND for i in range(4000)]
    shifted = np.array(draws) - (size + 2)
    assert shifted.min() >= 0
    assert shifted.mean() == pytest.approx(mean, rel=0.06)
    assert shifted.std() == pytest.approx(mean, rel=0.08)


def test_global_round():
    net = network(e_g=0.25, f_g=0.5, b_g=1.0)
    draws = [iterate(net, i * 1000 * SECOND, CLOUD, [G0, G1])[0] / SECOND for i in range(4000)]
    assert min(draws) >= 1
    assert np.mean(draws) == pytest.approx(2, rel=0.05)


def test_first_uplink_closes_the_broadcast():
    """Iterations that take no time at all are still iterations."""
    net = network(d=1.0)
    net.send(0, G0, 3, 1)
    net.send(0, G0, 3, 1)
    net.send(0, 3, G0, 1)
    net.send(0, G0, 4, 1)
    net.send(0, G0, 5, 1)
    net.send(0, 4, G0, 1)
    net.send(0, 3, G0, 1)
    times = {c.flow: c.time for c in drain(net)}
    assert times[2] == 1 * SECOND, "d0 alone, though it was sent to twice"
    assert times[5] == 2 * SECOND, "d1 and d2"
    assert times[6] == 1 * SECOND, "d0 answers its own broadcast again"


def test_what_it_cannot_carry():
    net = network(**EXACT)
    with pytest.raises(UserError, match="'d0' to 'g0': an uplink answers a downlink"):
        net.send(0, 3, G0, 1)
    for src, dst in ((3, 4), (3, CLOUD), (CLOUD, 3), (G1, 3), (G0, G1)):
        with pytest.raises(UserError, match="knows only cloud-gateway and gateway-device links"):
            net.send(0, src, dst, 1)
        with pytest.raises(UserError, match="knows only"):
            net.estimate(src, dst, 1)
    net.send(0, G0, 5, 1)
    with pytest.raises(UserError, match="'d2' to 'g1': an uplink answers"):
        net.send(0, 5, G1, 1)


def test_estimate_is_the_mean():
    net = network(**EXACT | {"e": 1.0, "f": 0.5})
    assert net.estimate(G0, 3, 1) == 0
    assert net.estimate(3, G0, 1) == (9 + 3.5) * SECOND, "all three that reach g0"
    net.send(0, G0, 3, 1)
    net.send(0, G0, 4, 1)
    assert net.estimate(3, G0, 1) == (7 + 2.5) * SECOND
    assert net.estimate(G1, CLOUD, 1) == 21 * SECOND


def test_memory_does_not_grow():
    net = network(f=1.0)
    for i in range(200):
        iterate(net, i * 1000 * SECOND, G0, DEVICES)
    state = net.save()
    assert len(state["broadcasts"]) == 1
    assert len(state["heard"]) == 3


def test_groups_may_have_parameters_of_their_own():
    net = network(**EXACT | {"b": (3.0, 7.0)})
    assert iterate(net, 0, G0, [5]) == [5 * SECOND]
    assert iterate(net, 10 * SECOND, G1, [5]) == [9 * SECOND]
    assert iterate(net, 99 * SECOND, CLOUD, [G0, G1]) == [21 * SECOND] * 2
    with pytest.raises(
        UserError, match=r"network.b has 3 values for 2 gateways; give one for each"
    ):
        network(**EXACT | {"b": (3.0, 7.0, 1.0)})
