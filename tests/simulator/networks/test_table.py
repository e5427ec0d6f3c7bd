import math

import numpy as np
import pytest

from simulator.errors import UserError
from simulator.network import Completion
from simulator.networks import ReplaySection, TableNetwork, TableSection, build_network
from simulator.networks.noise import Noise, NoisySection
from simulator.units import SECOND
from topologies import Link, Node, Tier, Topology, topology_from_replay

CLOUD, GATEWAY, D0, D1 = range(4)
TOPOLOGY = Topology(
    "t",
    (
        Node("hq", Tier.CLOUD),
        Node("roof", Tier.GATEWAY),
        Node("cam", Tier.DEVICE),
        Node("car", Tier.DEVICE),
    ),
    (Link(0, 1, 1e6, 0.0), Link(1, 2, 1e6, 0.0), Link(1, 3, 1e6, 0.0)),
)
ROWS = "src,dst,delay_s\nhq,roof,0.5\nroof,cam,1.25\ncam,roof,2\ncar,roof,0\n"


def from_links(folder, text=ROWS, **options):
    (folder / "links.csv").write_text(text)
    return build_network(TableSection(path="links.csv", **options), TOPOLOGY, 0, folder)


def test_links_with_and_without_a_reverse(tmp_path):
    network = from_links(tmp_path)
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1)]
    seconds = [network.estimate(a, b, 10**9) / SECOND for a, b in pairs]
    assert seconds == [0.5, 0.5, 1.25, 2, 0, 0]
    network.send(10, D0, GATEWAY, 10**9)
    network.send(10, GATEWAY, D0, 1)
    assert network.advance(10**12) == Completion(1, 10 + 5 * SECOND // 4)
    assert network.advance(10**12) == Completion(0, 10 + 2 * SECOND)


def test_no_relaying(tmp_path):
    network = from_links(tmp_path)
    for src, dst in ((D0, D1), (D0, CLOUD)):
        with pytest.raises(UserError, match=r"links\.csv: no delay from 'cam' to '(car|hq)'"):
            network.send(0, src, dst, 1)
        with pytest.raises(UserError, match="no delay from 'cam'"):
            network.estimate(src, dst, 1)
    assert network.send(0, D0, GATEWAY, 1) == 0, "a refused transfer takes no number"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"links\.csv is empty"),
        ("from,to,delay_s\n", r"row 1: the header is .* it must be src,dst,delay_s"),
        (ROWS + "hq,roof\n", r"row 6: 2 columns; there must be 3"),
        (ROWS + "hq,rof,1\n", r"row 6: unknown node 'rof'; did you mean 'roof'"),
        (ROWS + "cam,car,-1\n", r"row 6 column delay_s: '-1' is no delay"),
        (ROWS + "cam,car,nan\n", r"row 6 column delay_s: 'nan' is no delay"),
        (ROWS + "cam,car,fast\n", r"row 6 column delay_s: 'fast' is no delay"),
        (ROWS + "roof,cam,1\n", r"row 6: 'roof' to 'cam' is there twice"),
        ("src,dst,delay_s\nhq,roof,1\nroof,cam,1\n", r"no delay from 'car' to 'roof'"),
    ],
)
def test_malformed_links(tmp_path, text, message):
    with pytest.raises(UserError, match=message) as caught:
        from_links(tmp_path, text)
    assert "\n" not in str(caught.value)


def replay_files(folder, delays="4,0\n2,10\n", cloud="18.72,1\n"):
    (folder / "delays.csv").write_text(delays)
    (folder / "cloud.csv").write_text(cloud)
    return topology_from_replay(folder / "delays.csv", folder / "cloud.csv")


@pytest.mark.parametrize("share", [0, 0.25, 0.5, 1])
def test_replay_splits_round_delays(tmp_path, share):
    topology = replay_files(tmp_path)
    section = ReplaySection(delays="delays.csv", cloud="cloud.csv", downlink_share=share)
    network = build_network(section, topology, 0, tmp_path)
    ids = map(topology.id_of, ["cloud", "g0", "g1", "d0", "d1"])
    cloud, g0, g1, d0, d1 = ids
    for parent, child, round_s in [(g0, d0, 4), (g0, d1, 2), (g1, d1, 10), (cloud, g0, 18.72)]:
        assert network.estimate(parent, child, 1) == round(share * round_s * SECOND)
        assert network.estimate(child, parent, 1) == round((1 - share) * round_s * SECOND)
    with pytest.raises(UserError, match=r"delays\.csv: no delay from 'd0' to 'g1'"):
        network.send(0, d0, g1, 1)


def test_half_a_nanosecond_is_not_lost(tmp_path):
    topology = replay_files(tmp_path, "1.000000001\n", "0\n")
    section = ReplaySection(delays="delays.csv", cloud="cloud.csv")
    network = build_network(section, topology, 0, tmp_path)
    assert network.estimate(1, 2, 1) + network.estimate(2, 1, 1) == SECOND + 1


def test_replay_must_agree_with_the_topology(tmp_path):
    section = ReplaySection(delays="delays.csv", cloud="cloud.csv")
    replay_files(tmp_path)
    with pytest.raises(UserError, match=r"2 rows x 2 columns, .* 2 devices and 1 gateways"):
        build_network(section, TOPOLOGY, 0, tmp_path)
    dense = replay_files(tmp_path, "4,1\n2,10\n")
    replay_files(tmp_path)
    with pytest.raises(UserError, match="no delay from 'd0' to 'g1'"):
        build_network(section, dense, 0, tmp_path)


def noisy(sigma, loss, seed=0):
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1)]
    noise = Noise(NoisySection(noise_sigma=sigma, loss_probability=loss), seed)
    return TableNetwork(TOPOLOGY, dict.fromkeys(pairs, SECOND), noise, "test")


def test_noise_has_mean_one_and_the_given_spread():
    network = noisy(0.5, 0)
    for _ in range(20_000):
        network.send(0, D0, GATEWAY, 1)
    factors = np.array([network.advance(10**18).time for _ in range(20_000)]) / SECOND
    assert factors.mean() == pytest.approx(1, abs=0.02)
    assert np.log(factors).std() == pytest.approx(0.5, abs=0.02)
    assert np.log(factors).mean() == pytest.approx(-0.125, abs=0.02)


def test_loss_is_told_at_the_end_of_the_transfer():
    network = noisy(0, 0.25)
    for _ in range(4000):
        network.send(0, D0, GATEWAY, 1)
    ended = [network.advance(SECOND) for _ in range(4000)]
    assert {c.lost for c in ended} == {"", "lost in transit"}
    assert {c.time for c in ended} == {SECOND}
    share = sum(c.lost != "" for c in ended) / 4000
    assert abs(share - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 4000)


def test_certain_loss():
    network = noisy(0, 1)
    network.send(0, D0, GATEWAY, 1)
    assert network.advance(SECOND) == Completion(0, SECOND, "lost in transit")
