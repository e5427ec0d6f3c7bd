import math

import pyproj
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.errors import UserError
from topologies import Building, Link, Node, Radio, Tier, Topology
from topologies.geography import Position, boxes, distance_m, positions
from topologies.linkbudget import path_loss_db, rssi_dbm

GEOD = pyproj.Geod(ellps="WGS84")
RADIO = Radio("r", "n", 5.0, 20, 20.0, 9.0, 15.0, channel_rate_bps=1e6)


def line(*nodes, **more):
    """A cloud without a place, then the first node as gateway of all others."""
    links = [Link(0, 1, 1e6, 0.0)]
    links += [Link(1, i, 1e6, 0.0, "wifi") for i in range(2, len(nodes) + 1)]
    return Topology("t", (Node("c", Tier.CLOUD), *nodes), tuple(links), **more)


def gateway(latitude, longitude, **more):
    return Node("g", Tier.GATEWAY, latitude, longitude, **({"height_m": 10} | more))


def device(latitude, longitude, name="d", **more):
    return Node(name, Tier.DEVICE, latitude, longitude, **({"height_m": 10} | more))


@given(
    latitude=st.floats(-89, 89),
    longitude=st.floats(-180, 180),
    azimuth=st.floats(0, 360),
    length_m=st.floats(1, 30_000),
)
@example(latitude=10.0, longitude=179.99, azimuth=90.0, length_m=30_000.0)
@example(latitude=88.9, longitude=0.0, azimuth=0.0, length_m=30_000.0)
def test_distances_are_those_on_the_ellipsoid(latitude, longitude, azimuth, length_m):
    lon, lat, _ = GEOD.fwd(longitude, latitude, azimuth, length_m)
    third_lon, third_lat, _ = GEOD.fwd(longitude, latitude, azimuth + 90, 20_000)
    topology = line(
        gateway(latitude, longitude), device(lat, lon), device(third_lat, third_lon, "e")
    )
    at = positions(topology)
    assert set(at) == {1, 2, 3}, "the cloud has no place"
    assert distance_m(at[1], at[2]) == pytest.approx(length_m, rel=1e-3)
    across = GEOD.inv(lon, lat, third_lon, third_lat)[2]
    assert distance_m(at[2], at[3]) == pytest.approx(across, rel=1e-3)


def test_east_is_x_and_north_is_y():
    at = positions(line(gateway(40.0, -74.0), device(40.01, -74.0), device(40.0, -73.99, "e")))
    assert at[2].y_m - at[1].y_m == pytest.approx(1110, rel=0.01)
    assert abs(at[2].x_m - at[1].x_m) < 1
    assert at[3].x_m - at[1].x_m == pytest.approx(1113 * math.cos(math.radians(40)), rel=0.01)


def test_height_counts_and_altitude_stands_in():
    topology = line(
        gateway(40.0, -74.0, height_m=None, altitude_m=60),
        device(40.0, -74.0, height_m=4, altitude_m=20),
        device(40.0, -74.0, "e", height_m=None, altitude_m=30),
    )
    at = positions(topology)
    assert [at[i].z_m for i in (1, 2, 3)] == [43, 4, 13], "ground: 3 m below the lowest altitude"
    assert distance_m(at[1], at[3]) == pytest.approx(30)


def test_what_is_missing_is_told():
    with pytest.raises(UserError, match="device 'd' has no latitude and longitude"):
        positions(line(gateway(1, 1), device(None, None)))
    with pytest.raises(UserError, match="device 'd' has neither height_m nor altitude_m"):
        positions(line(gateway(1, 1), device(1, 1, height_m=None)))


def test_buildings_are_boxes_among_the_nodes():
    topology = line(
        gateway(40.0, -74.0), device(40.002, -73.998),
        buildings=(Building(40.0, -74.0, 40.002, -73.998, 25.0),),
    )  # fmt: skip
    at, (box,) = positions(topology), boxes(topology)
    assert (box.x_min_m, box.y_min_m) == pytest.approx(at[1][:2])
    assert (box.x_max_m, box.y_max_m) == pytest.approx(at[2][:2])
    assert box.height_m == 25


def test_path_loss():
    assert path_loss_db(100, 5.2) == pytest.approx(20 * 2 + 20 * math.log10(5.2) + 32.45)
    assert path_loss_db(1000, 5.2) - path_loss_db(100, 5.2) == pytest.approx(27)
    assert path_loss_db(10, 5.2) - path_loss_db(1, 5.2) == pytest.approx(20)
    assert path_loss_db(0, 5.2) == path_loss_db(1, 5.2)


HYBRID = {100: 83, 300: 96, 600: 102, 900: 106, 1000: 114, 1500: 119, 3000: 126, 5000: 132}
"""Mean loss of ns-3's HybridBuildings, 60 m to 30 m high, 5.2 GHz (measured with ns-3 3.44)."""


@pytest.mark.parametrize("length_m", HYBRID)
def test_path_loss_is_near_that_of_ns3(length_m):
    assert path_loss_db(length_m, 5.2) == pytest.approx(HYBRID[length_m], abs=7)


def test_rssi_is_power_plus_gains_minus_loss():
    at = {1: Position(0, 0, 10), 2: Position(1000, 0, 10)}
    topology = line(gateway(1, 1), device(1, 1), radios=(RADIO,))
    loss = path_loss_db(1000, 5.2)
    assert rssi_dbm(topology, at, 1, 2) == pytest.approx(20 + 9 + 15 - loss)
    own = line(
        gateway(1, 1), device(1, 1, antenna_gain_dbi=2.0, tx_power_dbm=14.0), radios=(RADIO,)
    )
    assert rssi_dbm(own, at, 2, 1) == pytest.approx(14 + 2 + 15 - loss)
    assert rssi_dbm(own, at, 1, 2) == pytest.approx(20 + 2 + 15 - loss)
    with pytest.raises(UserError, match="has no radio profile"):
        rssi_dbm(line(gateway(1, 1), device(1, 1)), at, 1, 2)
