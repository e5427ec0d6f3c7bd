"""What every network promises the kernel."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from simulator.errors import UserError
from simulator.networks import NETWORKS, NetworkSection, build_network
from simulator.networks.cells import Contention
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.profile import Profile, ProfileNetwork
from simulator.units import SECOND
from topologies import Link, Medium, Node, Tier, Topology

CLOUD, G0, G1, D0, D1, D2 = range(6)
PAIRS = [(CLOUD, G0), (CLOUD, G1), (G0, D0), (G0, D1), (G1, D1), (G1, D2)]

TABLES = {
    "drawn": {"kind": "drawn"},
    "flow": {"kind": "flow"},
    "noisy flow": {"kind": "flow", "noise_sigma": 0.5, "loss_probability": 0.3},
    "linear": {
        "kind": "linear",
        **dict.fromkeys(["d", "b", "e", "f", "d_g", "b_g", "e_g", "f_g"], 0.3),
    },
    "table": {"kind": "table", "path": "links.csv"},
    "profile": {},
    "noisy profile": {"noise_sigma": 0.5, "loss_probability": 0.3},
    "replay": {"kind": "replay", "delays": "delays.csv", "cloud": "cloud.csv"},
    "noisy replay": {
        "kind": "replay",
        "delays": "delays.csv",
        "cloud": "cloud.csv",
        "noise_sigma": 0.5,
        "loss_probability": 0.3,
    },
}


PROFILE = Profile(
    sizes=(10_000, 100_000, 1_000_000),
    alone_s={p: (0.02, 0.1, 1.0) for a, b in PAIRS for p in ((a, b), (b, a))},
    channels={G0: G0, G1: G0},
    contention=Contention(),
    association_s=0.0,
    noise_sigma=0.0,
)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "delays.csv").write_text("1.5,0\n2,3\n0,0.5\n")
    (folder / "cloud.csv").write_text("18.72,1\n")
    names = ["cloud", "g0", "g1", "d0", "d1", "d2"]
    rows = [f"{names[a]},{names[b]},{a + b / 4}" for a, b in PAIRS]
    (folder / "links.csv").write_text("src,dst,delay_s\n" + "\n".join(rows))
    tiers = [Tier.CLOUD, Tier.GATEWAY, Tier.GATEWAY, Tier.DEVICE, Tier.DEVICE, Tier.DEVICE]
    media = Medium("air0", 3e6), Medium("air1", 3e6)
    links = tuple(
        Link(a, b, 1e6 * (b + 1), 0.01, "wifi", f"air{a - 1}") if a else Link(a, b, 5e6, 0.02)
        for a, b in PAIRS
    )
    topology = Topology(
        "t", tuple(Node(n, t) for n, t in zip(names, tiers, strict=True)), links, media
    )

    def make(kind, seed=0):
        if kind.endswith("profile"):
            return ProfileNetwork(topology, PROFILE, Noise(NoisySection(**TABLES[kind]), seed))
        section = TypeAdapter(NetworkSection).validate_python(TABLES[kind])
        return build_network(section, topology, seed, folder)

    return make


kinds = pytest.mark.parametrize("kind", TABLES)
moves = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"), st.sampled_from(PAIRS), st.booleans(), st.integers(0, 2_000_000)
        ),
        st.tuples(st.just("wait"), st.integers(0, 3 * SECOND)),
    ),
    max_size=30,
)


class Driver:
    """Plays moves as a kernel would, and checks the order of what it is told."""

    def __init__(self, network):
        self.network = network
        self.now = 0
        self.sent = 0
        self.ended = []
        for parent, child in PAIRS:
            self.send(parent, child, 1000)

    def send(self, src, dst, nbytes):
        assert self.network.send(self.now, src, dst, nbytes) == self.sent
        self.sent += 1

    def advance(self, limit):
        completion = self.network.advance(limit)
        if completion is not None:
            assert self.now <= completion.time <= limit
            if self.ended:
                last = self.ended[-1]
                assert (last.time, last.flow) < (completion.time, completion.flow)
            self.now = completion.time
            self.ended.append(completion)
        return completion

    def play(self, move):
        if move[0] == "send":
            _, (parent, child), up, nbytes = move
            self.send(*((child, parent) if up else (parent, child)), nbytes)
        else:
            limit = self.now + move[1]
            if self.advance(limit) is None:
                self.now = limit

    def finish(self):
        while self.advance(10**18):
            pass
        assert sorted(c.flow for c in self.ended) == list(range(self.sent))
        return self.ended


@kinds
def test_nothing_in_flight(build, kind):
    network = build(kind)
    assert network.advance(0) is None
    assert network.advance(5 * SECOND) is None


@kinds
def test_same_instant_in_order_of_flows(build, kind):
    if kind.startswith("noisy"):
        pytest.skip("equal times are not to be expected")
    network = build(kind)
    for flow in range(3):
        assert network.send(7, G0, D0, 1000) == flow
    ended = [network.advance(10**12) for _ in range(3)]
    assert [c.flow for c in ended] == [0, 1, 2]
    assert len({c.time for c in ended}) == 1
    assert network.advance(10**12) is None


@kinds
def test_limit_is_exact(build, kind):
    network = build(kind)
    network.send(0, G1, D2, 12345)
    end = build(kind)
    end.send(0, G1, D2, 12345)
    time = end.advance(10**12).time
    if time > 0:
        assert network.advance(time - 1) is None
    assert network.advance(time).time == time


@kinds
@given(moves=moves)
def test_time_order(build, kind, moves):
    driver = Driver(build(kind))
    for move in moves:
        driver.play(move)
    driver.finish()


@kinds
@given(moves=moves, cut=st.integers(0, 30))
def test_save_and_load_changes_nothing(build, kind, moves, cut):
    straight, broken = Driver(build(kind)), Driver(build(kind))
    for i, move in enumerate(moves):
        if i == cut:
            state = json.loads(json.dumps(broken.network.save()))
            broken.network = build(kind, seed=99)
            broken.network.load(state)
        straight.play(move)
        broken.play(move)
    assert straight.finish() == broken.finish()


@kinds
def test_same_seed_same_times(build, kind):
    def run(seed):
        driver = Driver(build(kind, seed))
        for parent, child in PAIRS * 3:
            driver.send(child, parent, 50_000)
        return driver.finish()

    assert run(1) == run(1)
    random = kind in ("linear", "drawn") or kind.startswith("noisy")
    assert (run(1) != run(2)) is random


@kinds
def test_a_node_does_not_send_to_itself(build, kind):
    with pytest.raises(UserError, match="'d0'"):
        build(kind).send(0, D0, D0, 1)


@kinds
def test_estimate_of_a_lone_transfer(build, kind):
    if kind == "linear" or kind.startswith("noisy"):
        pytest.skip("times are drawn")
    network = build(kind)
    network.send(0, D1, G1, 123_456)
    assert network.estimate(D1, G1, 123_456) == network.advance(10**12).time


def test_every_kind_has_a_section_and_a_class():
    assert {table["kind"] for table in TABLES.values() if "kind" in table} == set(NETWORKS)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "flw"}, "'drawn', 'flow', 'linear', 'replay', 'table'"),
        ({"kind": "flow", "noise_sigma": -1}, "greater than or equal to 0"),
        ({"kind": "flow", "loss_probability": 1.5}, "less than or equal to 1"),
        ({"kind": "flow", "noise": 1}, "noise"),
        ({"kind": "linear", "d": 1}, "required"),
        (TABLES["linear"] | {"e_g": -1}, "greater than or equal to 0"),
        (TABLES["linear"] | {"e_g": float("inf")}, "finite"),
        (TABLES["replay"] | {"downlink_share": 1.1}, "less than or equal to 1"),
    ],
)
def test_bad_sections(table, message):
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(NetworkSection).validate_python(table)
