"""What a page is made of: sections with words, a table, a chart that plotly.js draws.

Colours are names that the page resolves by its theme: ``@c0`` to ``@c6`` of groups, ``@k0`` to
``@k4`` of kinds, ``@ink``, ``@soft``, ``@grid``; ``@c0/0.2`` is translucent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from simulator.report.gather import Group

COLOURS = 7
_DASHES = ("solid", "dash", "dot", "dashdot")
_DIGITS = 7
Trace = dict[str, Any]
View = dict[str, Any]


@dataclass(frozen=True)
class Control:
    """A choice above a chart: its label, and by key what is shown."""

    label: str
    options: dict[str, str]


@dataclass(frozen=True)
class Chart:
    """``views`` by the chosen keys, joined by ``|``."""

    views: dict[str, View]
    controls: tuple[Control, ...] = ()
    log_axis: str = ""
    """The axis that may be made logarithmic."""
    alt: str = ""
    """For those who do not see it."""


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: list[list[str]]
    groups: list[int] = field(default_factory=list)
    """Of the rows, if they have any: their colours stand before them."""
    titles: tuple[str, ...] = ()
    """What a column means."""
    folded: str = ""
    """Of a long one that is seen when asked for: what it is."""


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    chart: Chart | None = None
    missing: str = ""
    """Why there is nothing to show; the section is then left out."""


def colour(group: Group | int, alpha: float | None = None) -> str:
    number = group if isinstance(group, int) else group.number
    return f"@c{number % COLOURS}" + ("" if alpha is None else f"/{alpha:g}")


def dash(number: int) -> str:
    return _DASHES[number // COLOURS % len(_DASHES)]


def label(text: str) -> str:
    """plotly.js reads some HTML in whatever it writes."""
    return escape(text, quote=False)


def wrapped(text: str, width: int = 18) -> str:
    """For names beside bars; broken between words, and long words too."""
    lines = [""]
    for word in text.split():
        while len(word) > width:
            lines += [word[:width]]
            word = word[width:]
        joined = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], joined] if len(joined) <= width else [*lines, word]
    return "<br>".join(label(line) for line in lines if line)


def plain(values: Iterable[float] | np.ndarray) -> list[float | int | None]:
    """For JSON: seven digits, and null for what is not finite."""
    return [short(float(value)) for value in values]


def short(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def line_of(group: Group, x: np.ndarray, y: np.ndarray, **more: Any) -> Trace:
    return {
        "type": "scatter", "mode": "lines", "name": label(group.name), "x": plain(x), "y": plain(y),
        "line": {"color": colour(group), "dash": dash(group.number), "width": 2},
        "meta": {"group": group.number}, "showlegend": False,
    } | more  # fmt: skip


def band_of(group: Group, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> Trace:
    return {
        "type": "scatter", "mode": "lines", "x": plain([*x, *x[::-1]]),
        "y": plain([*low, *high[::-1]]), "fill": "toself", "fillcolor": colour(group, 0.13),
        "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False,
        "meta": {"group": group.number, "band": True},
    }  # fmt: skip


def axis(title: str, **more: Any) -> dict[str, Any]:
    return {"title": {"text": title}} | more


BYTES_AXIS = {"tickformat": "~s", "ticksuffix": "B", "rangemode": "tozero"}
_TIME_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "h"), (0.0, 1.0, "s"))


def time_unit(longest_s: float) -> tuple[float, str]:
    """How many seconds the unit has, and its name."""
    return next((scale, unit) for least, scale, unit in _TIME_UNITS if longest_s >= least)
