"""A network of measured times: what was measured, several hops, files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.errors import UserError
from simulator.networks.cells import Contention
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.profile import Profile, ProfileNetwork
from simulator.networks.profile_file import load_profile, save_profile
from simulator.networks.traffic import Send, keep_under_way, play
from topologies import Link, Node, Radio, Tier, Topology, find_topology, shipped_profiles

SECOND = 10**9
CLOUD, G0, G1, D0, D1, D2 = range(6)
PAIRS = [(CLOUD, G0), (CLOUD, G1), (G0, D0), (G0, D1), (G1, D1), (G1, D2)]
TIERS = [Tier.CLOUD, *[Tier.GATEWAY] * 2, *[Tier.DEVICE] * 3]
RADIO = Radio("slow", "g", 2.4, 20, 20.0, 3.0, 6.0, 2e7, {"g0": 1, "g1": 6}, {"d2": 80e3})
TOPOLOGY = Topology(
    "small",
    tuple(Node(n, t) for n, t in zip(["cloud", "g0", "g1", "d0", "d1", "d2"], TIERS, strict=True)),
    tuple(Link(a, b, 1e7, 0.0, "wifi" if a else "ethernet") for a, b in PAIRS),
)
AIR, WIRE = (0.2, 0.3, 1.0), (0.02, 0.03, 0.1)
PROFILE = Profile(
    sizes=(1000, 2000, 9000),
    alone_s={p: WIRE if CLOUD in p else AIR for a, b in PAIRS for p in ((a, b), (b, a))},
    channels={G0: G0, G1: G1},
    contention=Contention(1.0, 0.0, 1.0, 0.0, 0.0, 1e-6, 0.0, 0.0, 2.0),
    association_s=0.5,
    noise_sigma=0.1,
)


def network(profile=PROFILE, topology=TOPOLOGY, **noise):
    return ProfileNetwork(topology, profile, Noise(NoisySection(**noise), 0))


def durations(net, *sends):
    sends = [Send(int(t * SECOND), *rest) for t, *rest in sends]
    return [(d.time - s.time) / SECOND for d, s in zip(play(net, sends), sends, strict=True)]


@pytest.mark.parametrize(
    ("nbytes", "seconds"),
    [(1000, 0.2), (1500, 0.25), (2000, 0.3), (5500, 0.65), (9000, 1.0), (16000, 1.7), (0, 0.1)],
)
def test_times_lie_on_lines_through_what_was_measured(nbytes, seconds):
    assert PROFILE.seconds((D0, G0), nbytes) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("nbytes", "seconds"),
    # 10 us a byte after 50 kB; 14,480 bytes are TCP's first window, then it waits once
    [(10_000, 0.2), (14_480, 0.2448), (14_481, 0.44481), (19_240, 0.4924), (20_000, 0.5)],
)
def test_the_step_of_tcps_window_stands_where_it_is(nbytes, seconds):
    pair = (D0, G0)
    profile = replace(PROFILE, sizes=(10_000, 20_000, 50_000), alone_s={pair: (0.2, 0.5, 0.8)})
    assert profile.seconds(pair, nbytes) == pytest.approx(seconds)


def test_a_device_associates_first_and_again_when_it_changes_gateway():
    net = network()
    sends = [(10 * i, *pair, 1000) for i, pair in enumerate([(D1, G0), (G0, D1), (G1, D1)])]
    assert durations(net, *sends) == pytest.approx([0.7, 0.2, 0.7])


def test_gateways_on_one_channel_share_it():
    apart = durations(network(), (0, G0, D0, 9000), (0, G1, D2, 9000))
    assert apart == pytest.approx([1.5, 1.5])
    joined = network(replace(PROFILE, channels={G0: G0, G1: G0}))
    assert durations(joined, (0, G0, D0, 9000), (0, G1, D2, 9000)) == pytest.approx([2.5, 2.5])


def test_several_hops_take_the_slowest_and_the_latencies_of_the_rest():
    lone = replace(PROFILE, association_s=0.0)
    wire_latency, air_latency = 0.01, 0.1
    assert durations(network(lone), (0, D0, CLOUD, 9000)) == pytest.approx([1.0 + wire_latency])
    peers = durations(network(lone), (0, D0, D2, 9000))
    assert peers == pytest.approx([1.0 + 2 * wire_latency + air_latency])
    neighbours = durations(network(lone), (0, D0, D1, 9000))
    assert neighbours == pytest.approx([2.0]), "both hops on one channel"
    assert durations(network(lone), (0, G0, G1, 9000)) == pytest.approx([0.1 + wire_latency])


def test_both_directions_of_a_wire_are_independent():
    net = network()
    assert durations(net, (0, G0, CLOUD, 9000), (0, CLOUD, G0, 9000)) == pytest.approx([0.1, 0.1])
    assert durations(net, (5, G0, CLOUD, 9000), (5, G0, CLOUD, 9000)) == pytest.approx([0.2, 0.2])


def test_a_paced_device_takes_as_long_as_its_application():
    paced = replace(TOPOLOGY, radios=(RADIO,), nodes=tuple(
        replace(n, channel=RADIO.channels.get(n.name)) for n in TOPOLOGY.nodes
    ))  # fmt: skip
    net = network(replace(PROFILE, association_s=0.0), paced)
    assert net.estimate(D2, G1, 40_000) == pytest.approx(4.1 * SECOND), "the air is slower"
    fast = replace(PROFILE, association_s=0.0, alone_s=dict.fromkeys(PROFILE.alone_s, WIRE))
    net = network(fast, paced)
    assert net.estimate(D2, G1, 40_000) == pytest.approx(4.0 * SECOND)
    assert durations(net, (0, D2, G1, 40_000)) == pytest.approx([4.0])


def test_paces_are_of_devices_on_a_slow_wire_too():
    names = ("d0", "d1")
    radio = replace(RADIO, rate_limits_bps=dict.fromkeys(names, 80e3))
    nodes = tuple(replace(n, channel=radio.channels.get(n.name)) for n in TOPOLOGY.nodes)
    paced = replace(TOPOLOGY, radios=(radio,), nodes=nodes)
    slow = {p: AIR if CLOUD in p else WIRE for p in PROFILE.alone_s}
    net = network(replace(PROFILE, association_s=0.0, alone_s=slow), paced)
    alone = durations(net, (0, D0, CLOUD, 40_000))
    both = durations(net, (50, D0, CLOUD, 40_000), (50, D1, CLOUD, 40_000))
    assert both == pytest.approx([2 * alone[0]] * 2, rel=0.05), "the wire is shared, not the paces"


def test_every_nanosecond_is_as_it_was_when_python_shared_the_channels():
    """Windows that grow, paces, queues; what runs were recorded with must be what they repeat."""
    city = find_topology(Path("nycmesh-30")).with_radio("iot")
    [path] = [path for path in shipped_profiles() if path.stem == "nycmesh-30-iot"]
    net = network(load_profile(path, city, json.loads(path.read_text())["key"]), city)
    ends = [(d, city.reach(d)[0]) for d in city.devices[:8]]
    orders = [order for d, g in ends for order in ((g, d, 50_000), (d, g, 203_560))]
    assert [end for _, end in keep_under_way(net, orders, 6)] == [
        703623908, 2741219657, 280111219, 1014875559, 2108172341, 8446277168, 835117845, 2831083614,
        2714069298, 8525809409, 3518376268, 8320916701, 3558103137, 6015987094, 3794529310, 4556864165,
    ]  # fmt: skip


def test_pairs_without_a_way_are_told():
    with pytest.raises(UserError, match="no way from 'd0' to 'g1'"):
        network().send(0, D0, G1, 10)


def test_a_profile_survives_its_file(tmp_path):
    save_profile(tmp_path / "p.json", PROFILE, TOPOLOGY, "key")
    assert load_profile(tmp_path / "p.json", TOPOLOGY, "key") == PROFILE
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: None, r"cannot read the profile"),
        (lambda c: c | {"schema": 9}, "not a profile of schema 1"),
        (lambda c: c | {"key": "other"}, "measured for topology 'small'.*measure anew: meshfl"),
        (lambda c: c | {"sizes": "many"}, "damaged"),
        (lambda c: {k: v for k, v in c.items() if k != "alone_s"}, "damaged.*alone_s"),
        (lambda c: c | {"contention": {"speed": 1}}, "damaged"),
        (lambda c: c | {"alone_s": [["d0", "nobody", 1, 2, 3]]}, "unknown node 'nobody'"),
        (lambda c: c | {"alone_s": c["alone_s"][1:]}, "no good times from 'cloud' to 'g0'"),
        (lambda c: c | {"alone_s": [[*r[:2], 0.1] for r in c["alone_s"]]}, r"no good times.*0\.1"),
        (lambda c: c | {"alone_s": [[*r[:2], 1, 2, float("nan")] for r in c["alone_s"]]}, "nan"),
        (lambda c: c | {"sizes": [1000, 1000, 9000]}, "sizes .* ascending"),
        (lambda c: c | {"channels": {"g0": "g0"}}, "no channel of gateway 'g1'"),
        (lambda c: c | {"channels": [1]}, "damaged"),
        (lambda c: c | {"channels": {"g0": "g0", "g1": "d0"}}, "'d0', which is no gateway"),
        (lambda c: c | {"channels": c["channels"] | {"d0": "g0"}}, "'d0', which is no gateway"),
        (lambda c: c | {"alone_s": [[*r[:2], 2, 1, 3] for r in c["alone_s"]]}, "larger size"),
        (lambda c: c | {"alone_s": [[*r[:2], 1, 2, 2e9] for r in c["alone_s"]]}, r"up to 1e\+09 s"),
        (lambda c: c | {"sizes": [1000, 2000, 1e400]}, "damaged"),
        (lambda c: c | {"sizes": [1000, 2000, 10**13]}, r"up to 1e\+12"),
        (lambda c: c | {"association_s": 1e300}, r"association_s is 1e\+300.* at most 1e\+09"),
        (lambda c: c | {"noise_sigma": 1e9}, "noise_sigma is 1000000000.0.* at most 10"),
        (lambda c: c | {"contention": c["contention"] | {"closing_s": 1e10}}, "closing_s"),
        (lambda c: c | {"contention": c["contention"] | {"access_point": 1e9}}, "access_point"),
        (lambda c: c | {"association_s": -3}, "association_s is -3.* at least 0"),
        (lambda c: c | {"noise_sigma": -1}, "noise_sigma is -1.0"),
        (lambda c: c | {"contention": c["contention"] | {"uplink": "much"}}, "uplink is 'much'"),
        (lambda c: c | {"contention": c["contention"] | {"uplink": -1}}, "uplink is -1"),
    ],
)
def test_bad_files(tmp_path, change, message):
    path = tmp_path / "p.json"
    save_profile(path, PROFILE, TOPOLOGY, "key")
    content = change(json.loads(path.read_text()))
    path.write_text("{" if content is None else json.dumps(content))
    with pytest.raises(UserError, match=message):
        load_profile(path, TOPOLOGY, "key")
