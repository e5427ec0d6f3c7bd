"""The channels that Wi-Fi has, by standard, band and width: those that ns-3 can be set to."""

from __future__ import annotations

_LOW_20 = tuple(range(1, 14))
_LOW_40 = tuple(range(3, 12))
_HIGH_20 = (*range(36, 65, 4), *range(100, 145, 4), *range(149, 182, 4))
_HIGH_40 = (38, 46, 54, 62, 102, 110, 118, 126, 134, 142, 151, 159, 167, 175)
_HIGH_80 = (42, 58, 106, 122, 138, 155, 171)
_HIGH_160 = (50, 114, 163)

CHANNELS: dict[tuple[str, float, int], tuple[int, ...]] = {
    ("b", 2.4, 20): tuple(range(1, 15)),
    ("g", 2.4, 20): _LOW_20,
    ("n", 2.4, 20): _LOW_20,
    ("n", 2.4, 40): _LOW_40,
    ("n", 5, 20): _HIGH_20,
    ("n", 5, 40): _HIGH_40,
    ("ac", 5, 20): _HIGH_20,
    ("ac", 5, 40): _HIGH_40,
    ("ac", 5, 80): _HIGH_80,
    ("ac", 5, 160): _HIGH_160,
    ("ax", 2.4, 20): _LOW_20,
    ("ax", 2.4, 40): _LOW_40,
    ("ax", 5, 20): _HIGH_20,
    ("ax", 5, 40): _HIGH_40,
    ("ax", 5, 80): _HIGH_80,
    ("ax", 5, 160): _HIGH_160,
}
"""A wide channel has the number of its middle, not of one of the 20 MHz that it is made of."""


def layouts(standard: str) -> str:
    """The bands and widths of a standard, in words."""
    own = [(band, width) for name, band, width in CHANNELS if name == standard]
    return ", ".join(f"{band:g} GHz with {width} MHz" for band, width in own)
