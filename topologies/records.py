"""The records of a topology file. In a file links name nodes; in the program they hold ids."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import pydantic.dataclasses
from pydantic import AfterValidator, ConfigDict, Field

from simulator.units import NodeId

Name = Annotated[str, Field(min_length=1)]
Rate = Annotated[float, Field(ge=1)]
"""In bit/s."""
Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]
Channel = Annotated[int, Field(ge=1, le=233)]
Gain = Annotated[float, Field(ge=-50, le=60)]
"""In dBi; 60 is a dish of 24 m at 5 GHz."""
Power = Annotated[float, Field(ge=-50, le=60)]
"""In dBm; 60 is a kilowatt."""


def _known_band(band_ghz: float) -> float:
    if band_ghz not in (2.4, 5):
        raise ValueError("it must be 2.4 or 5")
    return band_ghz


_strict = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Tier(StrEnum):
    CLOUD = "cloud"
    GATEWAY = "gateway"
    DEVICE = "device"


@pydantic.dataclasses.dataclass(frozen=True, config=_strict)
class Node:
    name: Name
    tier: Annotated[Tier, Field(strict=False)]
    latitude: Latitude | None = None
    longitude: Longitude | None = None
    height_m: float | None = None
    """Above the ground."""
    altitude_m: float | None = None
    """Above sea level."""
    antenna_gain_dbi: Gain | None = None
    """Of this node's own antenna; None: the radio's, for its tier."""
    tx_power_dbm: Power | None = None
    """Of this node's own transmitter; None: the radio's."""
    channel: Channel | None = None
    """Of a gateway's Wi-Fi, under the topology's first radio."""


@pydantic.dataclasses.dataclass(frozen=True, config=_strict)
class Link:
    """Both ways between ``a`` and ``b``, each way with ``rate_bps`` of its own (full duplex).

    With a ``medium``, both ways and all links of that medium also share the medium's rate.
    """

    a: NodeId
    b: NodeId
    rate_bps: Rate
    latency_s: Annotated[float, Field(ge=0, le=1e6)]
    kind: Literal["ethernet", "fibre", "wifi"] = "ethernet"
    medium: Name | None = None


@pydantic.dataclasses.dataclass(frozen=True, config=_strict)
class Medium:
    """What several links share, such as the Wi-Fi channel of a gateway."""

    name: Name
    rate_bps: Rate


@pydantic.dataclasses.dataclass(frozen=True, config=_strict)
class Radio:
    """A radio profile: what all Wi-Fi of the topology is made of when this one is in use."""

    name: Name
    standard: Literal["b", "g", "n", "ac", "ax"]
    band_ghz: Annotated[float, AfterValidator(_known_band)]
    width_mhz: Literal[20, 40, 80, 160]
    tx_power_dbm: Power
    device_gain_dbi: Gain
    gateway_gain_dbi: Gain
    channel_rate_bps: Rate
    """What one channel carries for all its users together: the rate of every Wi-Fi medium."""
    channels: dict[Name, Channel] = Field(default_factory=dict)
    """By gateway; the rest keep the channel they have."""
    rate_limits_bps: dict[Name, Rate] = Field(default_factory=dict)
    """By device: the pace of its application, for all it sends and for all it receives."""


@pydantic.dataclasses.dataclass(frozen=True, config=_strict)
class Building:
    """A box that stands on the ground and gets in the way of radio."""

    south: Latitude
    west: Longitude
    north: Latitude
    east: Longitude
    height_m: Annotated[float, Field(gt=0)]
