"""A map of a topology."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar  # type: ignore[import-untyped]

from simulator.errors import UserError
from simulator.units import NodeId
from topologies.geography import Position, boxes, positions
from topologies.linkbudget import rssi_dbm
from topologies.records import Link, Tier
from topologies.topology import Topology

SUFFIXES = (".png", ".svg")
WIRED = {"ethernet": "-", "fibre": (0, (5, 2))}


class Mark(NamedTuple):
    marker: str
    size: float
    colour: str


class Scale(NamedTuple):
    metres: float
    unit: str

    def of(self, place: Position) -> tuple[float, float]:
        return place.x_m / self.metres, place.y_m / self.metres


MARKS = {
    Tier.DEVICE: Mark("o", 22.0, "#0072B2"),
    Tier.GATEWAY: Mark("^", 120.0, "#D55E00"),
    Tier.CLOUD: Mark("s", 110.0, "#000000"),
}


def draw(topology: Topology, path: Path) -> Path:
    """Write the map; the suffix of ``path`` says whether as PNG or as SVG."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: a picture ends in {' or '.join(SUFFIXES)}; rename it")
    partial = path.with_name(f".{path.name}")
    try:
        # Without salt and date an SVG would differ from one writing to the next.
        with rc_context({"svg.hashsalt": "meshfl"}):
            metadata = {"Date": None} if path.suffix == ".svg" else None
            _figure(topology).savefig(partial, dpi=150, format=path.suffix[1:], metadata=metadata)
        partial.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error}") from None
    return path


def _figure(topology: Topology) -> Figure:
    places = positions(topology)
    extent = np.ptp([place[:2] for place in places.values()], axis=0)
    scale = Scale(1000.0, "km") if extent.max() > 2000 else Scale(1.0, "m")
    height = float(np.clip(7.2 * extent[1] / max(extent[0], 1.0), 5.5, 9.0))
    figure = Figure(figsize=(10.5, height), layout="constrained")
    grid = figure.add_gridspec(4, 2, width_ratios=[3, 1], height_ratios=[4, 0.25, 1, 3])
    chart = figure.add_subplot(grid[:, 0])
    air = _draw_links(chart, topology, places, scale)
    _draw_buildings(chart, topology, scale)
    _draw_nodes(chart, topology, places, scale)
    _finish(chart, topology, scale)
    key = figure.add_subplot(grid[0, 1])
    key.axis("off")
    key.legend(handles=_legend(topology), loc="upper left", frameon=False, borderpad=0)
    if air.get_array() is not None:
        bar = figure.colorbar(
            air, figure.add_subplot(grid[1, 1]), orientation="horizontal", extend="both"
        )
        bar.set_label("received power [dBm]\n(log-distance estimate)")
    _draw_reach(figure.add_subplot(grid[3, 1]), topology)
    return figure


def _draw_links(
    chart: Axes, topology: Topology, places: dict[NodeId, Position], scale: Scale
) -> LineCollection:
    """Give those through the air."""
    located = [link for link in topology.links if link.a in places and link.b in places]
    wifi = [link for link in located if link.kind == "wifi"]
    width = float(np.clip(12 / np.sqrt(max(len(wifi), 1)), 0.35, 2.0))
    air = LineCollection([], linewidths=width, zorder=1, cmap="viridis_r")
    if wifi and topology.radio:
        power = np.array([rssi_dbm(topology, places, link.a, link.b) for link in wifi])
        strongest_last = np.argsort(power)
        wifi = [wifi[i] for i in strongest_last]
        air.set_array(power[strongest_last])
        air.set_clim(*np.quantile(power, [0.02, 0.98]))
    else:
        air.set_color("0.7")
    air.set_segments(_ends(wifi, places, scale))
    chart.add_collection(air)
    for kind, style in WIRED.items():
        wired = [link for link in located if link.kind == kind]
        lines = LineCollection(_ends(wired, places, scale), colors="black", linestyles=[style])
        lines.set(linewidth=1.2, alpha=0.8, zorder=2)
        chart.add_collection(lines)
    return air


def _ends(
    links: list[Link], places: dict[NodeId, Position], scale: Scale
) -> list[list[tuple[float, float]]]:
    return [[scale.of(places[end]) for end in (link.a, link.b)] for link in links]


def _draw_buildings(chart: Axes, topology: Topology, scale: Scale) -> None:
    for box in boxes(topology):
        x, y, x_max, y_max = (
            m / scale.metres for m in (box.x_min_m, box.y_min_m, box.x_max_m, box.y_max_m)
        )
        chart.add_patch(
            Rectangle((x, y), x_max - x, y_max - y, facecolor="0.85", edgecolor="0.6", zorder=0)
        )


def _draw_nodes(
    chart: Axes, topology: Topology, places: dict[NodeId, Position], scale: Scale
) -> None:
    many = len(topology.devices) > 300
    for level, (tier, mark) in enumerate(MARKS.items(), start=3):
        at = [scale.of(places[i]) for i in places if topology.nodes[i].tier is tier]
        if at:
            size = mark.size / (3 if many and tier is Tier.DEVICE else 1)
            x, y = np.array(at).T
            chart.scatter(
                x, y, size, mark.colour, marker=mark.marker, zorder=level,
                edgecolors="white", linewidths=0.3 if many else 0.6,
            )  # fmt: skip
    few = len(topology.gateways) <= 8
    for gateway in topology.gateways:
        node = topology.nodes[gateway]
        text = f"{node.name} (ch {node.channel})" if few and node.channel else node.name
        chart.annotate(
            text, scale.of(places[gateway]), (7, 5), textcoords="offset points", fontsize=8,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}, zorder=6,
        )  # fmt: skip


def _finish(chart: Axes, topology: Topology, scale: Scale) -> None:
    chart.set_aspect("equal", adjustable="datalim")
    chart.autoscale_view()
    profile = f", radio profile {topology.radio.name}" if topology.radio else ""
    chart.set_title(f"{topology.name}{profile}")
    chart.set(xlabel=f"east [{scale.unit}]", ylabel=f"north [{scale.unit}]")
    chart.grid(alpha=0.25, linewidth=0.5)
    chart.set_axisbelow(True)
    low, high = chart.get_xlim()
    length = _round_length((high - low) / 5)
    text = f"{length:g} {scale.unit}"
    chart.add_artist(AnchoredSizeBar(chart.transData, length, text, "lower right", pad=0.4))


def _round_length(most: float) -> float:
    """The largest 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(most))
    return float(max(power * k for k in (1, 2, 5) if power * k <= most))


def _legend(topology: Topology) -> list[Line2D | Patch]:
    counts = Counter(node.tier for node in topology.nodes)
    kinds = {link.kind for link in topology.links}
    handles: list[Line2D | Patch] = [
        Line2D(
            [], [], ls="", marker=mark.marker, color=mark.colour, ms=7, mec="white",
            label=f"{tier} ({counts[tier]})",
        )
        for tier, mark in reversed(MARKS.items())
    ]  # fmt: skip
    for kind, style in WIRED.items():
        if kind in kinds:
            handles.append(Line2D([], [], color="black", ls=style, lw=1.2, label=kind))
    if "wifi" in kinds:
        colour = "0.7" if topology.radio is None else "#21918c"
        handles.append(Line2D([], [], color=colour, lw=2, label="Wi-Fi, in reach"))
    if topology.buildings:
        handles.append(Patch(facecolor="0.85", edgecolor="0.6", label="building"))
    return handles


def _draw_reach(chart: Axes, topology: Topology) -> None:
    counts = Counter(len(topology.reach(device)) for device in topology.devices)
    values = list(range(1, max(counts) + 1))
    bars = chart.bar(values, [counts[v] for v in values], color=MARKS[Tier.DEVICE].colour)
    if len(values) <= 8:
        chart.bar_label(bars, fontsize=8)
        chart.set_xticks(values)
    chart.set(xlabel="gateways in reach", ylabel="devices")
    chart.spines[["top", "right"]].set_visible(False)
