"""The [network] table of a scenario that runs on ns-3."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from simulator.section import LONGEST_S, Section


class BackgroundSection(Section):
    """A neighbour of each gateway, on its channel, that talks with it on and off (UDP)."""

    down_bps: float = Field(5e6, ge=0, le=1e10)
    """Rate from the gateway to its neighbour while on; 0: none."""
    up_bps: float = Field(1e6, ge=0, le=1e10)
    """Rate from the neighbour to the gateway while on; 0: none."""
    on_s: float = Field(1.0, gt=0, le=LONGEST_S)
    """Mean of the exponential times for which a direction is on."""
    off_s: float = Field(1.0, gt=0, le=LONGEST_S)
    """Mean of the exponential times for which a direction is off."""
    packet_bytes: int = Field(1000, ge=1, le=1472)
    """Content of each packet."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.down_bps == self.up_bps == 0:
            raise ValueError("down_bps and up_bps are both 0; delete the table for no traffic")
        return self


class RadioSettings(Section):
    """What ns-3's packets travel over, besides the topology."""

    transport: Literal["tcp", "udp"] = "tcp"
    """UDP has no retransmission: a model that arrives incomplete is lost."""
    udp_rate_bps: float = Field(2e6, ge=1e3, le=1e10)
    """How fast UDP sends, devices with a limit of their own aside: it does not sense congestion."""
    rate_manager: str = Field("ideal", pattern=r"^(ideal|minstrel|constant:\w+)$")
    """How Wi-Fi chooses its rate: ideal, minstrel, or constant:MODE (say constant:HtMcs4)."""
    loss: Literal["hybrid-buildings", "itu-r-1411", "log-distance", "fixed"] = "hybrid-buildings"
    """Propagation loss model."""
    loss_exponent: float = Field(3.0, gt=0)
    """Of log-distance."""
    fixed_rss_dbm: float = Field(-60.0, ge=-120, le=30)
    """Received power everywhere, of fixed."""
    shadowing_sigma_db: float = Field(0.0, ge=0)
    """Deviation of log-normal shadowing, drawn once for each pair of nodes."""
    sensitivity_dbm: float = Field(-92.0, ge=-120, le=0)
    """Frames that arrive weaker are not noticed (ns-3's own default is -82)."""
    rts_bytes: int = Field(2000, ge=0, le=4692480)
    """Longer Wi-Fi frames are announced by RTS/CTS: far devices do not hear each other."""
    queue: Literal["fq-codel", "fifo"] = "fq-codel"
    """What waits before a Wi-Fi device: Linux's fair queues, or one queue of 500 packets."""
    backhaul: Literal["point-to-point", "csma"] = "point-to-point"
    """What carries Ethernet and fibre links; csma is one shared wire each, for short spans."""
    background: BackgroundSection | None = None
    """Traffic of others; [network.background] makes a neighbour for each gateway."""


class Ns3Section(RadioSettings):
    """Packets over Wi-Fi and Ethernet, simulated by ns-3 while the run goes on."""

    kind: Literal["ns3"] = "ns3"
    deadline_s: float = Field(3600.0, gt=0, le=LONGEST_S)
    """A transfer that takes longer is lost."""
    energy: bool = False
    """Meter the energy of devices: radios, and processors if [compute] kind is classes."""


class ProfileSection(RadioSettings):
    """Times that ns-3 has measured beforehand: meshfl network profile."""

    kind: Literal["profile"] = "profile"
    path: Path | None = None
    """The profile; unset: the one that was shipped or measured for these settings."""
    noise_sigma: float | None = Field(None, ge=0)
    """Log-normal noise of mean 1 on every transfer; unset: as measured."""
    loss_probability: float = Field(0.0, ge=0, le=1)
    """Chance that a transfer is lost; it still takes its time, and is reported at its end."""

    def live(self) -> Ns3Section:
        """The same on live ns-3."""
        return Ns3Section(**{name: getattr(self, name) for name in RadioSettings.model_fields})
