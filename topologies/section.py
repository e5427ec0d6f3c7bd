"""The ``[topology]`` table of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from simulator.section import Section


def _ordered(
    value: float | tuple[float, float] | tuple[int, int],
) -> float | tuple[float, float] | tuple[int, int]:
    if isinstance(value, tuple) and value[0] > value[1]:
        raise ValueError(f"low {value[0]} is above high {value[1]}; swap them")
    return value


Rate = Annotated[float, Field(ge=1)]
"""In bit/s."""
RateOrBounds = Annotated[Rate | tuple[Rate, Rate], AfterValidator(_ordered)]
Count = Annotated[int, Field(ge=1)]


class FileTopology(Section):
    """A topology from a JSON file."""

    kind: Literal["file"] = "file"
    path: Path
    """A .json file, relative to the scenario's folder; or the name of a shipped topology."""
    profile: str | None = None
    """Which of the file's radio profiles to use; by default its first."""


class TreeTopology(Section):
    """A generated tree: one cloud, gateways, devices."""

    kind: Literal["tree"] = "tree"
    gateways: Count
    """How many."""
    devices: Count
    """How many; the first gateway of device i is i modulo the gateways."""
    device_rate_bps: RateOrBounds = (250e3, 4e6)
    """Of a device's link, each way; [low, high] draws it log-uniform for each device."""
    gateway_rate_bps: RateOrBounds = 20e6
    """Of a gateway's Wi-Fi channel, shared by its devices and both directions."""
    backhaul_rate_bps: RateOrBounds = 100e6
    """Between a gateway and the cloud, each way."""
    device_latency_s: float = Field(0.003, ge=0, le=1e6)
    """Of a device's link, each way."""
    backhaul_latency_s: float = Field(0.005, ge=0, le=1e6)
    """Between a gateway and the cloud, each way."""
    reach: Annotated[Count | tuple[Count, Count], AfterValidator(_ordered)] = 1
    """How many gateways a device can use; [low, high] draws it for each device."""


class ReplayTopology(Section):
    """The topology implied by the Async-HFL authors' delay tables."""

    kind: Literal["replay"] = "replay"
    delays: Path
    """csv of round delays in seconds: a row per device, a column per gateway, 0 = no link."""
    cloud: Path
    """csv with one line: each gateway's delay to the cloud in seconds."""


TopologySection = Annotated[
    FileTopology | TreeTopology | ReplayTopology, Field(discriminator="kind")
]
