"""How figures look: on a screen, or in a column of a paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: told apart by colour-blind readers too."""
LINES = ("-", "--", "-.", ":")
_NO_DATE: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "ModDate": None}, "svg": {"Date": None}, "png": {},
}  # fmt: skip
"""The same numbers give the same bytes."""


@dataclass(frozen=True)
class Look:
    formats: tuple[str, ...]
    small: float
    """Size of labels within a figure."""
    column_in: float | None = None
    """Width of a figure, whose panels stand one below the other; None: as wide as they like."""
    settings: Any = field(default_factory=dict)

    def figure(self, width: float, height: float, count: int = 1) -> tuple[Figure, list[Axes]]:
        """So many panels of that shape."""
        rows, columns, size = 1, count, (width * count, height)
        if self.column_in is not None:
            rows, columns = count, 1
            size = (self.column_in, self.column_in / width * height * count)
        figure, axes = plt.subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False
        )
        return figure, list(axes.flat)

    def bars(self, width: float, around: float, each: float, count: int) -> tuple[Figure, Axes]:
        """So many horizontal bars, with room ``around`` them; on paper they keep their height."""
        on_paper = 1.0 if self.column_in is None else width / self.column_in
        figure, (axes,) = self.figure(width, (around + each * count) * (on_paper + 1) / 2)
        axes.margins(x=0.12 * on_paper)
        return figure, axes

    def title(self, of: Figure | Axes, text: str, **style: Any) -> None:
        """A paper's figure has its caption instead."""
        if self.column_in is not None:
            return
        if isinstance(of, Axes):
            of.set_title(text, **style)
        else:
            of.suptitle(text, **style)

    def line(self, i: int) -> dict[str, Any]:
        """Colour and dashes of the i-th of many lines; on paper they differ without colours too."""
        turn = i // len(COLOURS) if self.column_in is None else i + i // len(COLOURS)
        return {"color": COLOURS[i % len(COLOURS)], "ls": LINES[turn % len(LINES)]}

    @contextmanager
    def used(self) -> Iterator[None]:
        with matplotlib.rc_context(self.settings):
            yield

    def save(self, figure: Figure, stem: Path) -> list[Path]:
        """In each format; a figure appears when it is whole."""
        written = []
        for form in self.formats:
            path = stem.with_name(f"{stem.name}.{form}")
            partial = path.with_name(f".{path.name}")
            with self.used():
                figure.savefig(partial, dpi=150, format=form, metadata=_NO_DATE[form])
            partial.replace(path)
            written.append(path)
        plt.close(figure)
        return written


SCREEN = Look(("png",), 8)
PAPER = Look(
    ("pdf", "svg"), 6.5, 3.5,
    {
        "font.family": "STIXGeneral", "mathtext.fontset": "stix", "font.size": 8,
        "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7,
        "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
        "pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "meshfl",
    },
)  # fmt: skip
LOOKS = {"screen": SCREEN, "paper": PAPER}
