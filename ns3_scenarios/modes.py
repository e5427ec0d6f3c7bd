"""The constant rates that each Wi-Fi standard has, by ns-3's names of them."""

from __future__ import annotations

from simulator.errors import UserError, did_you_mean
from topologies import Radio

_DSSS = ("DsssRate1Mbps", "DsssRate2Mbps", "DsssRate5_5Mbps", "DsssRate11Mbps")
_OFDM_MBPS = (6, 9, 12, 18, 24, 36, 48, 54)
_PREFIXES = {"n": ("Ht",), "ac": ("Ht", "Vht"), "ax": ("Ht", "Vht", "He")}
_HIGHEST = {"Ht": 7, "Vht": 9, "He": 11}
"""Of one spatial stream: radios have one antenna."""


def modes_of(radio: Radio) -> list[str]:
    """The slowest first, generation by generation."""
    if radio.standard == "b":
        return list(_DSSS)
    low = radio.band_ghz < 3
    modes = [*_DSSS] if low else []
    modes += [f"{'ErpOfdm' if low else 'Ofdm'}Rate{mbps}Mbps" for mbps in _OFDM_MBPS]
    for prefix in _PREFIXES.get(radio.standard, ()):
        if not (low and prefix == "Vht"):
            modes += [f"{prefix}Mcs{i}" for i in range(_highest(prefix, radio) + 1)]
    return modes


def check_rate_manager(rate_manager: str, radio: Radio) -> None:
    """ns-3 itself would end in the middle of the run."""
    kind, _, mode = rate_manager.partition(":")
    modes = modes_of(radio)
    if kind == "constant" and mode not in modes:
        raise UserError(
            f"network.rate_manager = {rate_manager!r}: radio {radio.name!r} (802.11"
            f"{radio.standard}, {radio.band_ghz:g} GHz, {radio.width_mhz} MHz) has no mode "
            f"{mode!r}; {did_you_mean(mode, modes)}"
        )


def _highest(prefix: str, radio: Radio) -> int:
    """At 20 MHz the fastest mode of 802.11ac does not exist with one stream."""
    return _HIGHEST[prefix] - (prefix == "Vht" and radio.width_mhz == 20)
