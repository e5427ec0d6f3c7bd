from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from simulator.errors import UserError
from simulator.rng import Stream, generator
from topologies import Link, Medium, TopologySection, TreeTopology, load_topology, shipped, tree

FIXED = {
    "device_rate_bps": 1e6,
    "gateway_rate_bps": 20e6,
    "backhaul_rate_bps": 100e6,
    "device_latency_s": 0.003,
    "backhaul_latency_s": 0.005,
}


def rng(seed=0):
    return generator(seed, Stream.TOPOLOGY)


def test_a_small_tree_link_by_link():
    topology = tree(2, 3, **FIXED, reach=1, rng=rng())
    assert [node.name for node in topology.nodes] == ["cloud", "g0", "g1", "d0", "d1", "d2"]
    assert topology.media == (Medium("g0-wifi", 20e6), Medium("g1-wifi", 20e6))
    assert topology.links == (
        Link(0, 1, 100e6, 0.005),
        Link(0, 2, 100e6, 0.005),
        Link(1, 3, 1e6, 0.003, "wifi", "g0-wifi"),
        Link(2, 4, 1e6, 0.003, "wifi", "g1-wifi"),
        Link(1, 5, 1e6, 0.003, "wifi", "g0-wifi"),
    )


def test_reach_starts_at_home_and_varies():
    topology = tree(4, 400, **FIXED, reach=(1, 3), rng=rng())
    reach = [topology.reach(device) for device in topology.devices]
    assert [gateways[0] for gateways in reach] == [1 + i % 4 for i in range(400)]
    assert all(len(set(gateways)) == len(gateways) for gateways in reach)
    counts = Counter(map(len, reach))
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 100
    further = Counter((g - gateways[0]) % 4 for gateways in reach for g in gateways[1:])
    assert set(further) == {1, 2, 3}
    assert min(further.values()) > 100


def test_rates_are_log_uniform_per_device():
    rates = FIXED | {"device_rate_bps": (250e3, 4e6)}
    topology = tree(2, 2000, **rates, reach=2, rng=rng())
    links = [link for link in topology.links if link.kind == "wifi"]
    assert all(a.rate_bps == b.rate_bps for a, b in zip(links[::2], links[1::2], strict=True))
    drawn = np.array([link.rate_bps for link in links[::2]])
    assert 250e3 <= drawn.min() < drawn.max() <= 4e6
    assert np.median(drawn) == pytest.approx(1e6, rel=0.1), "the middle of 1/4 and 4"


def test_same_seed_same_tree():
    rates = FIXED | {"gateway_rate_bps": (1e6, 2e6), "backhaul_rate_bps": (1e7, 2e7)}
    trees = [tree(3, 9, **rates, reach=(1, 3), rng=rng(seed)) for seed in (5, 5, 6)]
    assert trees[0] == trees[1] != trees[2]


@pytest.mark.parametrize("reach", [0, 4, (2, 4), (0, 1)])
def test_reach_beyond_the_gateways(reach):
    with pytest.raises(UserError, match="it must be within 1 and 3"):
        tree(3, 3, **FIXED, reach=reach, rng=rng())


def parse(**table):
    return TypeAdapter(TopologySection).validate_python(table)


def test_tree_section():
    section = parse(kind="tree", gateways=2, devices=5, device_rate_bps=[1e5, 1e6], reach=[1, 2])
    topology = load_topology(section, 7, Path())
    assert topology == tree(
        2,
        5,
        **FIXED | {"device_rate_bps": (1e5, 1e6)},
        reach=(1, 2),
        rng=rng(7),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"devices": 0}, "greater than or equal to 1"),
        ({"gateway_rate_bps": 0}, "greater than or equal to 1"),
        ({"device_rate_bps": [2.0, 1.0]}, "low 2.0 is above high 1.0; swap them"),
        ({"reach": [3, 1]}, "low 3 is above high 1"),
        ({"device_rate_bps": [1.0, float("nan")]}, "finite"),
        ({"backhaul_latency_s": -1}, "greater than or equal to 0"),
        ({"gatways": 3}, "gatways"),
        ({"kind": "ring"}, "'file', 'tree', 'replay'"),
    ],
)
def test_bad_tree_sections(change, message):
    with pytest.raises(ValidationError, match=message):
        parse(**{"kind": "tree", "gateways": 2, "devices": 5} | change)


def test_shipped_tree_is_what_its_readme_makes():
    made = tree(
        3,
        30,
        device_rate_bps=(250e3, 4e6),
        gateway_rate_bps=20e6,
        backhaul_rate_bps=100e6,
        device_latency_s=0.003,
        backhaul_latency_s=0.005,
        reach=(1, 2),
        rng=rng(0),
        name="tree-30",
    )
    loaded = load_topology(parse(kind="file", path="tree-30"), 0, Path("anywhere"))
    # exp and log may differ in the last digit between machines
    assert loaded.nodes == made.nodes
    assert loaded.media == made.media
    assert len(loaded.links) == len(made.links)
    for a, b in zip(loaded.links, made.links, strict=True):
        assert (a.a, a.b, a.latency_s, a.kind) == (b.a, b.b, b.latency_s, b.kind)
        assert a.rate_bps == pytest.approx(b.rate_bps)
    assert "tree-30" in shipped()


def test_file_section(tmp_path):
    topology = tree(1, 2, **FIXED, reach=1, rng=rng())
    topology.save(tmp_path / "mine.json")
    assert load_topology(parse(kind="file", path="mine.json"), 0, tmp_path) == topology
    with pytest.raises(UserError, match="shipped topology 'tre-30'; did you mean 'tree-30'"):
        load_topology(parse(kind="file", path="tre-30"), 0, tmp_path)


def test_defaults_are_the_shipped_trees_rates():
    topology = load_topology(TreeTopology(gateways=3, devices=30, reach=(1, 2)), 0, Path())
    assert topology.links[5].rate_bps == pytest.approx(
        load_topology(parse(kind="file", path="tree-30"), 0, Path()).links[5].rate_bps
    )
