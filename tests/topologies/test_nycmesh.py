"""The generator against the published statistics of NYCMesh (a snapshot of 2024)."""

import numpy as np
import pytest
from scipy import stats

from simulator.errors import UserError
from simulator.rng import Stream, generator
from topologies import Topology, shipped
from topologies.geography import distance_m, positions
from topologies.nycmesh import CHANNELS, city, nycmesh
from topologies.styles import NYCMESH, STYLES

SEEDS = range(1, 11)
IN_REACH = np.array([35, 44, 45, 38, 17, 5])
"""Devices with 1 to 6 gateways in reach in the 184 x 6 files of the Async-HFL study."""
SHIPPED = {
    "nycmesh-184": ("nycmesh", 184, 6),
    "nycmesh-100": ("nycmesh", 100, 10),
    "nycmesh-30": ("nycmesh", 30, 3),
    "campus-12": ("campus", 12, 2),
    "rural-60": ("rural", 60, 4),
    "metro-1000": ("metro", 1000, 20),
}


def rng(seed=1):
    return generator(seed, Stream.TOPOLOGY)


@pytest.fixture(scope="module")
def networks():
    return [nycmesh(rng=rng(seed)) for seed in SEEDS]


@pytest.fixture(scope="module")
def cities():
    return [city(NYCMESH, 184, 6, rng(seed)) for seed in SEEDS]


def test_size_and_box(networks):
    for topology in networks:
        assert (len(topology.devices), len(topology.gateways)) == (184, 6)
        for node in topology.nodes:
            assert 40.604 <= node.latitude <= 40.864
            assert -74.031 <= node.longitude <= -73.870


def nearest(places, others):
    return np.sort(np.linalg.norm(places[:, None] - others, axis=2), axis=1)


def test_distances_to_the_nearest_hub(cities):
    assert {(len(hubs), len(buildings)) for hubs, buildings in cities} == {(65, 842)}
    away = np.concatenate([nearest(buildings, hubs)[:, 0] for hubs, buildings in cities])
    assert np.median(away) == pytest.approx(363, rel=0.1)
    assert np.quantile(away, 0.95) == pytest.approx(1084, rel=0.1)
    assert np.log(away).mean() == pytest.approx(5.68, abs=0.1)
    assert np.log(away).std() == pytest.approx(1.08, abs=0.1)


def test_distances_to_the_nearest_other_building(cities):
    near = np.concatenate([nearest(b, b)[:, 1] for _, b in cities])
    assert np.median(near) == pytest.approx(70, rel=0.15)


def test_altitudes(networks):
    altitude = [t.nodes[d].altitude_m for t in networks for d in t.devices]
    assert np.quantile(altitude, [0.05, 0.25, 0.5, 0.75, 0.95]) == pytest.approx(
        [16, 25, 30, 39, 62], rel=0.15
    )
    assert np.log(altitude).mean() == pytest.approx(3.41, abs=0.03)
    assert np.log(altitude).std() == pytest.approx(0.46, abs=0.03)
    gateways = [t.nodes[g].altitude_m for t in networks for g in t.gateways]
    assert 57 <= min(gateways) < 80 < 150 < max(gateways) <= 180


def test_heights_are_above_the_ground(networks):
    for topology in networks:
        for node in topology.nodes:
            assert node.height_m == pytest.approx(node.altitude_m - NYCMESH.ground_m)
            assert node.height_m >= 2


def in_reach(topology):
    counts = [len(topology.reach(device)) for device in topology.devices]
    return np.bincount(counts, minlength=7)[1:]


def test_gateways_in_reach_per_device(networks):
    mean = np.mean([in_reach(topology) for topology in networks], axis=0)
    assert mean / 184 == pytest.approx(IN_REACH / 184, abs=0.04)


def test_gateways_in_reach_in_the_shipped_file():
    counts = in_reach(Topology.load(shipped()["nycmesh-184"]))
    assert stats.chisquare(counts, IN_REACH).pvalue > 0.05, counts


def test_devices_in_reach_per_gateway(networks):
    """Published: 85, 91, 93, 84, 56, 116."""
    for topology in networks:
        reach = [topology.reach(device) for device in topology.devices]
        counts = [sum(g in gateways for gateways in reach) for g in topology.gateways]
        assert min(counts) > 40
        assert max(counts) < 140
        assert np.mean(counts) == pytest.approx(87.5, rel=0.15)


def test_limits_of_iot_devices(networks):
    paced = [topology.with_radio("iot") for topology in networks]
    limits = [t.rate_limit_bps(device) for t in paced for device in t.devices]
    assert 80e3 <= min(limits) < 90e3
    assert 1900e3 < max(limits) <= 2048e3
    assert np.median(limits) == pytest.approx(np.sqrt(80e3 * 2048e3), rel=0.1), "log-uniform"
    assert all(t.rate_limit_bps(d) is None for t in networks for d in t.devices), "broadband"


def test_backhaul_is_fast_and_short(networks):
    for topology in networks:
        wires = [link for link in topology.links if link.kind != "wifi"]
        assert len(wires) == 6
        assert all(link.rate_bps == 1e9 and 0.002 <= link.latency_s < 0.003 for link in wires)


def test_channels_do_not_overlap_until_they_run_out():
    topology = nycmesh(10, 12, rng=rng())
    for radio in topology.radios:
        allowed = CHANNELS[radio.band_ghz]
        given = [radio.channels[f"g{j}"] for j in range(12)]
        assert set(given) == set(allowed)
        assert len(set(given[: len(allowed)])) == len(allowed)
    at = positions(topology)
    fourth = [distance_m(at[1 + 3], at[1 + j]) for j in range(3)]
    three = topology.with_radio("iot")
    assert three.nodes[4].channel == three.nodes[1 + int(np.argmax(fourth))].channel


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_are_what_their_readme_makes(name):
    kind, devices, gateways = SHIPPED[name]
    made = nycmesh(devices, gateways, rng=rng(1), name=name, style=STYLES[kind])
    text = shipped()[name].read_text()
    assert made.to_json() == text
    assert Topology.from_json(text) == made
    readme = (shipped()[name].parent / "README.md").read_text()
    command = f"{kind} --devices {devices} --gateways {gateways} --seed 1 -o {name}.json"
    assert f"meshfl topology generate {command}" in readme
    assert [radio.name for radio in made.radios] == ["broadband", "iot"]


def lengths(topology):
    at = positions(topology)
    return [distance_m(at[x.a], at[x.b]) for x in topology.links if x.kind == "wifi"]


@pytest.mark.parametrize("seed", SEEDS)
def test_campus_and_rural_lengths(seed):
    assert max(lengths(nycmesh(12, 2, rng=rng(seed), style=STYLES["campus"]))) < 300
    assert max(lengths(nycmesh(60, 4, rng=rng(seed), style=STYLES["rural"]))) <= 5001


@pytest.mark.parametrize(("kind", "devices", "gateways"), [
    ("nycmesh", 1, 1), ("nycmesh", 1500, 3), ("nycmesh", 5, 80), ("campus", 3, 1), ("rural", 1, 9),
])  # fmt: skip
def test_any_size(kind, devices, gateways):
    topology = nycmesh(devices, gateways, rng=rng(), style=STYLES[kind])
    assert (len(topology.devices), len(topology.gateways)) == (devices, gateways)


def test_same_seed_same_network():
    made = [nycmesh(20, 3, rng=rng(seed)) for seed in (5, 5, 6)]
    assert made[0] == made[1] != made[2]


def test_no_devices():
    with pytest.raises(UserError, match="0 devices and 6 gateways"):
        nycmesh(0, rng=rng())
