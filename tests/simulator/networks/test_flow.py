import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.networks import FlowNetwork, FlowSection
from simulator.networks.noise import Noise
from simulator.networks.routes import Routes
from simulator.units import SECOND, to_seconds
from topologies import Link, Medium, Node, Tier, Topology


def topology(nodes, links, media=()):
    """Nodes by name: c is the cloud, g... gateways, d... devices; links by names."""
    tiers = {"c": Tier.CLOUD, "g": Tier.GATEWAY, "d": Tier.DEVICE}
    ids = {name: i for i, name in enumerate(nodes)}
    return Topology(
        "t",
        tuple(Node(name, tiers[name[0]]) for name in nodes),
        tuple(Link(ids[a], ids[b], *rest) for a, b, *rest in links),
        tuple(Medium(*medium) for medium in media),
    )


def network(topology, **options):
    return FlowNetwork(topology, Noise(FlowSection(**options), 0))


def drain(net):
    """Seconds at which each flow ended."""
    ended = {}
    while (completion := net.advance(10**18)) is not None:
        ended[completion.flow] = to_seconds(completion.time)
    return ended


MB = 1_000_000
STAR = topology(
    ["c", "g", "d0", "d1", "d2"],
    [
        ("c", "g", 100e6, 0.005),
        ("g", "d0", 8e6, 0.25, "wifi", "air"),
        ("g", "d1", 8e6, 0.25, "wifi", "air"),
        ("g", "d2", 1e6, 0.5, "wifi", "air"),
    ],
    [("air", 8e6)],
)
C, G, D0, D1, D2 = range(5)


def test_one_flow_is_latency_plus_bits_over_rate():
    net = network(STAR)
    net.send(0, G, D0, MB)
    net.send(10 * SECOND, C, G, MB)
    net.send(20 * SECOND, D2, C, MB)
    assert drain(net) == {0: 1.25, 1: 10.085, 2: 28.505}


def test_a_transfer_of_nothing_takes_the_latency():
    net = network(STAR)
    net.send(0, G, D0, MB)
    net.send(0, G, D0, 0)
    assert drain(net) == {0: 1.25, 1: 0.25}


def test_times_round_up_to_nanoseconds():
    net = network(topology(["c", "g", "d"], [("c", "g", 1.0, 0.0), ("g", "d", 3e9, 0.0)]))
    net.send(0, 1, 2, 1)
    assert net.advance(10).time == 3, "8 bits at 3 a nanosecond are 2.67 ns"


def test_second_starts_half_way():
    """Alone 0.5 s for the first half, then 1 s for the second: both halve the channel. The second
    has sent half when the first ends, and goes on alone."""
    net = network(STAR)
    net.send(0, G, D0, MB)
    net.send(SECOND // 2, G, D1, MB)
    assert drain(net) == {0: 1.75, 1: 2.25}


def test_up_and_down_share_a_medium_but_not_a_cable():
    net = network(STAR)
    net.send(0, G, D0, MB)
    net.send(0, D0, G, MB)
    net.send(0, C, G, MB)
    net.send(0, G, C, MB)
    assert drain(net) == {0: 2.25, 1: 2.25, 2: 0.085, 3: 0.085}


def test_a_slow_device_leaves_the_rest_to_the_others():
    """d2 takes 1 of 8 Mbit/s, d0 and d1 get 3.5 each; when they are done d2 still has 1."""
    net = network(STAR)
    for device in (D0, D1, D2):
        net.send(0, G, device, 7 * MB)
    assert drain(net) == {0: 16.25, 1: 16.25, 2: 56.5}


def test_three_links():
    """Two-hop flow 0 meets 1 on the first hop (10) and 2 on the second (4): 2, 8, 2 Mbit/s."""
    net = network(
        topology(
            ["c", "g0", "g1", "d"],
            [("c", "g0", 10e6, 0.0), ("g0", "g1", 4e6, 0.0), ("g1", "d", 99e6, 0.0)],
        )
    )
    net.send(0, 0, 2, MB)
    net.send(0, 0, 1, MB)
    net.send(0, 1, 2, MB)
    assert drain(net) == {0: 4.0, 1: 1.0, 2: 4.0}


def test_a_device_to_device_transfer_crosses_the_channel_twice():
    net = network(STAR)
    assert net.estimate(D0, D1, MB) == 2.5 * SECOND
    net.send(0, D0, D1, MB)
    assert drain(net) == {0: 2.5}
    net = network(STAR)
    net.send(0, D0, D1, MB)
    net.send(0, D0, G, MB)
    assert drain(net) == {0: 3.5, 1: 3.25}, "both at 8/3 Mbit/s: 2 x 8/3 + 8/3 = 8"


def test_flows_of_one_device_share_its_link():
    net = network(STAR)
    net.send(0, D2, G, MB)
    net.send(0, D2, C, MB)
    assert drain(net) == {0: 16.5, 1: 16.505}


def test_gateways_do_not_disturb_each_other():
    links = [(f"g{j}", f"d{j}", 1e6, 0.0, "wifi", f"air{j}") for j in range(2)]
    links += [("c", "g0", 1e6, 0.0), ("c", "g1", 1e6, 0.0)]
    two = topology(["c", "g0", "g1", "d0", "d1"], links, [("air0", 1e6), ("air1", 1e6)])
    net = network(two)
    net.send(0, 1, 3, MB)
    net.send(0, 2, 4, MB)
    assert drain(net) == {0: 8.0, 1: 8.0}
    assert len(net.save()["sharing"]["pools"]) == 0


MESH = topology(
    ["c", "g0", "g1", "g2", "d0", "d1", "d2"],
    [
        ("c", "g0", 10e6, 0.010),
        ("g0", "g1", 5e6, 0.001),
        ("g1", "c", 10e6, 0.010),
        ("c", "g2", 10e6, 0.002),
        ("g2", "g0", 2e6, 0.008),
        ("g0", "d0", 1e6, 0.003),
        ("g1", "d0", 1e6, 0.001),
        ("g2", "d1", 1e6, 0.003),
        ("d0", "d1", 3e6, 0.050),
        ("d2", "d1", 3e6, 0.001),
        ("g2", "d2", 1e6, 0.003),
    ],
)


@pytest.mark.parametrize(
    ("src", "dst", "latency_s", "rate_bps"),
    [
        ("c", "g0", 0.010, 10e6),
        ("g2", "g0", 0.008, 2e6),
        ("g2", "g1", 0.009, 2e6),
        ("d0", "c", 0.011, 1e6),
        ("d0", "g0", 0.002, 1e6),
        ("d0", "d1", 0.013, 1e6),
        ("d1", "d2", 0.001, 3e6),
        ("d2", "d0", 0.013, 1e6),
    ],
)
def test_routes(src, dst, latency_s, rate_bps):
    """By latency, then by hops (c to g0: one of 10 ms, not two); never through a device."""
    routes = Routes(MESH)
    there = routes.find(MESH.id_of(src), MESH.id_of(dst))
    back = routes.find(MESH.id_of(dst), MESH.id_of(src))
    assert to_seconds(there.latency) == to_seconds(back.latency) == pytest.approx(latency_s)
    assert there.rate_bps == back.rate_bps == rate_bps
    assert not set(there.crossed) & set(back.crossed), "each direction is its own"


def test_devices_talk_through_the_gateways_that_they_have_talked_with():
    """d0 is nearer to g1; with g0 it is 8 ms farther from d1 at g2: 3 + 8 + 3."""
    d0, d1, d2, g0, g2 = (MESH.id_of(name) for name in ("d0", "d1", "d2", "g0", "g2"))
    net = network(MESH)
    assert net.estimate(d0, d1, 0) == 13 * SECOND // 1000
    net.send(0, g0, d0, 1)
    net.send(0, d1, g2, 1)
    assert net.estimate(d0, d1, 0) == 14 * SECOND // 1000
    net.send(0, g2, d2, 1)
    assert net.estimate(d1, d2, 0) == SECOND // 1000, "they have a link of their own"
    again = network(MESH)
    again.load(net.save())
    assert again.estimate(d0, d1, 0) == 14 * SECOND // 1000


def fluid(topology, sends):
    """A slow, plain reference: raise all rates together until something is full; step to the next
    start or end; no rounding."""
    routes = Routes(topology)
    paths = list(ways(topology, routes, sends))
    left = {i: nbytes * 8.0 for i, (_, _, _, nbytes) in enumerate(sends)}
    starts = [at / SECOND for at, *_ in sends]
    now, going, ended = 0.0, set(), {}
    waiting = sorted(range(len(sends)), key=lambda i: starts[i])
    while waiting or going:
        rates = filled(going, paths, routes.capacities)
        end = min((now + left[i] / rates[i] for i in going), default=np.inf)
        then = min(end, starts[waiting[0]] if waiting else np.inf)
        for i in going:
            left[i] -= rates[i] * (then - now)
        now = then
        done = {i for i in going if left[i] <= 1e-9 * sends[i][3] * 8 + 1e-6}
        ended |= {i: now + paths[i].latency / SECOND for i in done}
        going -= done
        while waiting and starts[waiting[0]] <= now:
            going.add(waiting.pop(0))
    return ended


def ways(topology, routes, sends):
    """Devices talk to each other through the gateways that they have talked with last."""
    homes = {}
    for _, src, dst, _ in sends:
        both = src in homes and dst in homes
        yield routes.find(src, dst, (homes[src], homes[dst]) if both else None)
        for device, other in ((src, dst), (dst, src)):
            if device in topology.devices and other in topology.reach(device):
                homes[device] = other


def filled(going, paths, capacities):
    rates, rising = dict.fromkeys(going, 0.0), set(going)
    while rising:
        crossings = {
            c: sum(paths[i].crossed.count(c) for i in rising) for c in all_of(going, paths)
        }
        spare = {
            c: capacities[c] - sum(rates[i] * paths[i].crossed.count(c) for i in going)
            for c in crossings
        }
        step = min(spare[c] / n for c, n in crossings.items() if n)
        rates |= {i: rates[i] + step for i in rising}
        full = {c for c, n in crossings.items() if n and spare[c] / n <= step * (1 + 1e-9) + 1e-9}
        rising -= {i for i in rising if full & set(paths[i].crossed)}
    return rates


def all_of(going, paths):
    return {c for i in going for c in paths[i].crossed}


@st.composite
def traffic(draw, latency):
    """A mesh with two channels and some transfers over it, in the order of their starts."""
    rate = st.sampled_from([1e6, 2e6, 3e6, 5.5e6, 8e6])
    after = st.sampled_from([0.0, 0.004, 0.03]) if latency else st.just(0.0)
    plan = [("c", "g0"), ("c", "g1"), ("g0", "g1"), ("g0", "d0"), ("g0", "d1"), ("g1", "d1")]
    plan += [("g1", "d2"), ("g0", "d3"), ("g1", "d3"), ("d0", "d1")]
    links = []
    for a, b in plan:
        wifi = ("wifi", f"air{a[1]}") if a[0] == "g" and b[0] == "d" else ()
        links.append((a, b, draw(rate), draw(after), *wifi))
    nodes = ["c", "g0", "g1", "d0", "d1", "d2", "d3"]
    made = topology(nodes, links, [("air0", draw(rate)), ("air1", draw(rate))])
    end = st.integers(0, len(nodes) - 1)
    pair = st.tuples(end, end).filter(lambda p: p[0] != p[1])
    gap = st.sampled_from([0, 0, 10**6, 10**8, SECOND, 3 * SECOND])
    sends, now = [], 0
    for wait, (src, dst), nbytes in draw(
        st.lists(st.tuples(gap, pair, st.integers(1000, 2 * MB)), min_size=1, max_size=14)
    ):
        now += wait
        sends.append((now, src, dst, nbytes))
    return made, sends


@settings(max_examples=100, deadline=None)
@given(case=traffic(latency=True))
def test_agrees_with_the_plain_reference(case):
    made, sends = case
    net = network(made)
    assert [net.send(*send) for send in sends] == list(range(len(sends)))
    assert drain(net) == pytest.approx(fluid(made, sends), abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(case=traffic(latency=False))
def test_capacity_fairness_and_work(case):
    """At all times nothing is over capacity and everyone has a bottleneck; over a transfer's life
    its rate adds up to its size."""
    made, sends = case
    routes = Routes(made)
    net, now, carried, waiting = network(made), 0, dict.fromkeys(range(len(sends)), 0.0), sends
    while True:
        while waiting and waiting[0][0] == now:
            net.send(*waiting[0])
            waiting = waiting[1:]
        limit = waiting[0][0] if waiting else 10**18
        completion = net.advance(min(now + 1, limit))
        rates = rates_in(net.save())
        check_fair(rates, routes)
        if completion is None and limit > now + 1:
            completion = net.advance(limit)
        then = completion.time if completion else limit
        if then == 10**18:
            break
        for flow, (_, rate) in rates.items():
            carried[flow] += rate * (then - now) / SECOND
        now = then
    for flow, (_, _, _, nbytes) in enumerate(sends):
        assert carried[flow] == pytest.approx(8 * nbytes, abs=1.0)


def rates_in(state):
    """Per flow its way and its rate, for the pools whose rates are known."""
    return {
        flow: ((src, dst, via), rate)
        for pool in state["sharing"]["pools"]
        if not pool["stale"]
        for flow, src, dst, via, _, rate in pool["transfers"]
    }


def check_fair(rates, routes):
    users = {}
    for flow, (pair, rate) in rates.items():
        for c in routes.find(*pair).crossed:
            users.setdefault(c, []).append((flow, rate))
    full = set()
    for c, crossing in users.items():
        total = sum(rate for _, rate in crossing)
        assert total <= routes.capacities[c] * (1 + 1e-9)
        if total >= routes.capacities[c] * (1 - 1e-9):
            full.add(c)
    for pair, rate in rates.values():
        assert any(
            c in full and rate >= max(r for _, r in users[c]) * (1 - 1e-9)
            for c in routes.find(*pair).crossed
        )


@settings(max_examples=100, deadline=None)
@given(case=traffic(latency=True), cut=st.integers(0, 14))
def test_save_and_load_in_the_middle(case, cut):
    made, sends = case

    def run(interrupt):
        net, log = network(made, noise_sigma=0.2), []
        for i, send in enumerate(sends):
            while (completion := net.advance(send[0])) is not None:
                log.append(completion)
            net.send(*send)
            if interrupt and i == cut:
                state = json.loads(json.dumps(net.save()))
                net = network(made, noise_sigma=0.2)
                net.load(state)
        while (completion := net.advance(10**18)) is not None:
            log.append(completion)
        return log

    assert run(False) == run(True)


def test_a_crowd_shares_each_of_two_channels():
    links = [
        (f"g{j}", f"d{j}{i}", 1e6, 0.0, "wifi", f"air{j}") for j in range(2) for i in range(99)
    ]
    links += [("c", "g0", 9e6, 0.0), ("c", "g1", 9e6, 0.0)]
    names = ["c", "g0", "g1", *(f"d{j}{i}" for j in range(2) for i in range(99))]
    net = network(topology(names, links, [("air0", 1e6), ("air1", 2e6)]))
    for device in range(3, 3 + 2 * 99):
        net.send(0, 1 + (device - 3) // 99, device, 1000)
    ended = drain(net)
    assert list(ended.values()) == pytest.approx([0.396] * 99 + [0.792] * 99)


def test_pools_part_again():
    """A transfer across both channels joins them; long after it is gone they stand apart."""
    links = [(f"g{j}", f"d{j}{i}", 1e6, 0.0, "wifi", f"air{j}") for j in range(2) for i in range(3)]
    links += [("c", "g0", 9e6, 0.0), ("c", "g1", 9e6, 0.0)]
    names = ["c", "g0", "g1", *(f"d{j}{i}" for j in range(2) for i in range(3))]
    made = topology(names, links, [("air0", 1e6), ("air1", 1e6)])
    net = network(made)
    g0, g1, d00, d01, d10, d11 = map(made.id_of, ["g0", "g1", "d00", "d01", "d10", "d11"])
    for _ in range(8):
        net.send(0, d00, d10, 1000)
    for gateway, device in ((g0, d00), (g0, d01), (g1, d10), (g1, d11)):
        net.send(0, gateway, device, 10 * MB)
    assert net.advance(1) is None
    assert [len(pool["transfers"]) for pool in net.save()["sharing"]["pools"]] == [12]
    for _ in range(8):
        net.advance(10**12)
    assert net.advance(2 * SECOND) is None
    assert sorted(len(pool["transfers"]) for pool in net.save()["sharing"]["pools"]) == [2, 2]
    ended = drain(net)
    assert len(ended) == 4
    last = (8 * 8000 + 2 * 80e6) / 1e6
    assert list(ended.values()) == pytest.approx([last] * 4, abs=1e-6)


def test_many_sends_at_one_instant_wait_to_be_shared():
    net = network(STAR)
    for i in range(30):
        net.send(SECOND, G, D0 + i % 2, MB)
    (pool,) = net.save()["sharing"]["pools"]
    assert pool["stale"]
    assert len(pool["transfers"]) == 30
    assert net.advance(SECOND + 1) is None
    (pool,) = net.save()["sharing"]["pools"]
    assert not pool["stale"]
    assert [rate for *_, rate in pool["transfers"]] == pytest.approx([8e6 / 30] * 30)


def test_what_would_take_longer_than_forever_does_not_end():
    slow = topology(["c", "g", "d"], [("c", "g", 1e6, 0.0), ("g", "d", 1.0, 0.0)])
    net = network(slow)
    net.send(0, 1, 2, 10**9 * MB)
    net.send(0, 0, 1, MB)
    assert drain(net) == {1: 8.0}


def test_noise_is_on_the_work_not_on_the_latency():
    net = network(STAR, noise_sigma=0.5)
    times = []
    for i in range(2000):
        net.send(i * 100 * SECOND, G, D0, MB)
        times.append(to_seconds(net.advance(10**18).time - i * 100 * SECOND) - 0.25)
    assert min(times) > 0
    assert np.mean(times) == pytest.approx(1, abs=0.05)
    assert np.log(times).std() == pytest.approx(0.5, abs=0.03)


def test_a_lost_transfer_carries_its_bytes():
    net = network(STAR, loss_probability=1)
    net.send(0, G, D0, MB)
    net.send(0, G, D1, MB)
    ended = [net.advance(10**18) for _ in range(2)]
    assert [(c.time, c.lost) for c in ended] == [(2.25 * SECOND, "lost in transit")] * 2
