"""What the generated networks look like: where, how far apart, how high, with which radios."""

from __future__ import annotations

from dataclasses import dataclass, replace

from topologies.records import Radio

DIRECTIONAL = (
    Radio("broadband", "n", 5.0, 20, 20.0, 20.0, 17.0, channel_rate_bps=45e6),
    Radio("iot", "g", 2.4, 20, 20.0, 15.0, 20.0, channel_rate_bps=20e6),
)
"""A channel's rate is what TCP gets out of the top PHY rate of one stream: 65 Mbit/s of 802.11n
(ns-3 measures 47 Mbit/s for a lone 1.6 MB), 54 Mbit/s of 802.11g."""

OMNIDIRECTIONAL = tuple(replace(r, device_gain_dbi=3.0, gateway_gain_dbi=6.0) for r in DIRECTIONAL)


@dataclass(frozen=True)
class Style:
    """Pairs of median and sigma are lognormal laws."""

    middle: tuple[float, float]
    """Latitude and longitude of the cloud; hubs spread around it."""
    south: float
    west: float
    north: float
    east: float
    spread_m: tuple[float, float]
    """Standard deviations of the hubs' places, east and north."""
    away_m: tuple[float, float]
    """How far a building is from the hub that it belongs to."""
    altitude_m: tuple[float, float]
    """Of devices, above sea level."""
    gateway_altitude_m: tuple[float, float]
    """Lowest and highest."""
    half_m: float
    """The distance at which a gateway is in reach with probability 1/2."""
    fade_m: float
    """How slowly reach fades around that distance."""
    longest_m: float = float("inf")
    ground_m: float = 0.0
    """The level of the ground above the sea."""
    lowest_m: float = 2.0
    """No antenna is nearer to the ground."""
    radios: tuple[Radio, ...] = DIRECTIONAL
    least_buildings: int = 0
    """Of which the devices are a random choice; never fewer than devices."""
    hubs_per_building: float = 0.0
    """Never fewer hubs than gateways."""
    popularity: tuple[float, ...] = ()
    """How many buildings the biggest hubs have, in proportion."""
    others: float = 1.0
    """The same for the next one; from there it falls to 1."""
    beside: float = 0.0
    """The share of the buildings that stand beside another one, or beside a hub."""
    beside_hub: float = 0.0
    beside_m: tuple[float, float] = (1.0, 1.0)


NYCMESH = Style(
    middle=(40.715, -73.960),
    south=40.604, west=-74.031, north=40.864, east=-73.870,
    spread_m=(2300.0, 3500.0),
    away_m=(580.0, 0.867),
    altitude_m=(30.27, 0.46),
    gateway_altitude_m=(57.0, 180.0),
    half_m=4000.0,
    fade_m=3250.0,
    ground_m=5.0,
    least_buildings=842,
    hubs_per_building=65 / 842,
    popularity=(121.0, 92.0, 83.0, 65.0, 60.0, 33.0),
    others=21.0,
    beside=0.4,
    beside_hub=0.3,
    beside_m=(45.0, 1.1),
)  # fmt: skip
"""Published: the box, links of hubs (median 580 m, 95 % 2414 m), altitudes, sizes of the biggest
hubs, the law of reach. Fitted: the spread of the hubs, to the gateways in reach per device; what
stands beside what, to the distances to the nearest hub and building."""

METRO = replace(NYCMESH, half_m=1600.0, fade_m=500.0, longest_m=8000.0)
"""NYCMesh, grown: more devices and gateways on the same ground, shorter links."""

CAMPUS = Style(
    middle=(52.0000, 4.3740),
    south=51.99865, west=4.37180, north=52.00135, east=4.37620,
    spread_m=(70.0, 70.0),
    away_m=(60.0, 0.5),
    altitude_m=(8.0, 0.5),
    gateway_altitude_m=(12.0, 25.0),
    half_m=140.0,
    fade_m=25.0,
    radios=OMNIDIRECTIONAL,
)  # fmt: skip
"""300 m by 300 m, no directional antennas."""

RURAL = Style(
    middle=(53.10, 5.75),
    south=53.03, west=5.63, north=53.17, east=5.87,
    spread_m=(4000.0, 4000.0),
    away_m=(1800.0, 0.6),
    altitude_m=(6.0, 0.4),
    gateway_altitude_m=(20.0, 45.0),
    half_m=3000.0,
    fade_m=500.0,
    longest_m=5000.0,
)  # fmt: skip
"""Farms in flat land, links of up to 5 km."""

STYLES = {"nycmesh": NYCMESH, "metro": METRO, "campus": CAMPUS, "rural": RURAL}
