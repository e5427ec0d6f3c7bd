"""Where nodes stand, and with whom devices exchanged models."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from simulator.compare import human_bytes
from simulator.report.activity import passed_on
from simulator.report.chart import COLOURS, Chart, Control, Section, Trace, View, label, plain
from simulator.report.devices import answers_of
from simulator.report.gather import Gathered
from simulator.report.numbers import thinned
from simulator.report.places import Place, has_coordinates, places_of
from simulator.report.run import Run
from topologies import Topology

MOST_RUNS = 12
MOST_DEVICES = 1000
_MOST_NAMES = 30
"""Of gateways that can be read on the map."""
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star")


def section(gathered: Gathered) -> Section:
    title = "Topology and associations"
    groups = [g for g in gathered.groups if g.first.topology is not None][:MOST_RUNS]
    if not groups:
        return Section("topology", title, missing="the runs' topologies cannot be read any more")
    views, shown = {}, {}
    many = geographic = schematic = False
    for group in groups:
        run = group.first
        assert run.topology is not None
        views[str(group.number)] = _view(run, run.topology)
        shown[str(group.number)] = f"{group.name}, seed {run.seed}"
        many = many or len(run.devices) > MOST_DEVICES
        on_map = has_coordinates(run.topology)
        geographic, schematic = geographic or on_map, schematic or not on_map
    words = [
        "Devices have the colour and the mark of the gateway that they exchanged models with last "
        "(in a ring of devices: that led the ring); hollow ones never did. Dotted lines are where "
        "they began, if they moved."
    ]
    if geographic:
        words.append("Distances are in kilometres; a cloud without a place stands on top.")
    if schematic:
        words.append("Without coordinates, devices stand around their gateways.")
    if many:
        words.append(f"{MOST_DEVICES:,} devices are drawn, evenly chosen.")
    if len(gathered.groups) > MOST_RUNS:
        words.append(f"Of the first {MOST_RUNS} variants.")
    chart = Chart(views, (Control("run", shown),), alt=title)
    return Section("topology", title, tuple(words), chart=chart)


def _view(run: Run, topology: Topology) -> View:
    met = run.partners
    last = {str(device): str(gateway) for device, gateway in met["last"].items()}
    places = places_of(topology, last)
    cloud = topology.nodes[topology.cloud].name
    gateways = [name for name in run.gateways if name in places]
    drawn = [run.devices[i] for i in thinned(len(run.devices), MOST_DEVICES)]
    traces = [
        _lines([(places[g], places[cloud]) for g in gateways], "@ink/0.5", 1.5, "solid"),
        *_members(run, places, [*gateways, cloud], drawn, met),
        _gateway_marks(run, places, gateways, last),
        _cloud_mark(places[cloud], cloud),
    ]
    moved = [
        (places[device], places[first])
        for device, first in met.loc[met["first"] != met["last"], "first"].items()
        if device in places and first in places
    ]
    if moved:
        traces.insert(0, _lines(moved, "@ink/0.45", 1, "dot"))
    hidden = {"visible": False, "type": "linear"}
    shown = {"title": {"text": "km"}, "zeroline": False, "constrain": "domain"}
    by_place = has_coordinates(topology)
    layout = {
        "xaxis": shown if by_place else hidden, "hovermode": "closest", "height": 520,
        "yaxis": (shown if by_place else hidden) | {"scaleanchor": "x"},
    }  # fmt: skip
    return {"data": traces, "layout": layout}


def _lines(pairs: Iterable[tuple[Place, Place]], colour: str, width: float, dash: str) -> Trace:
    x, y = [], []
    for (x0, y0), (x1, y1) in pairs:
        x += [x0, x1, float("nan")]
        y += [y0, y1, float("nan")]
    return {
        "type": "scatter", "mode": "lines", "x": plain(x), "y": plain(y), "hoverinfo": "skip",
        "line": {"color": colour, "width": width, "dash": dash}, "showlegend": False,
    }  # fmt: skip


def _members(
    run: Run, places: dict[str, Place], centres: list[str], drawn: list[str], met: pd.DataFrame
) -> list[Trace]:
    """For each gateway (and a cloud that devices talk to) its devices, and lines to them."""
    last, moves = met["last"].to_dict(), met["moves"].to_dict()
    answers = answers_of(run)
    sent = run.transfers.groupby("src")["bytes"].sum()
    traces = []
    for i, centre in enumerate(centres):
        devices = [device for device in drawn if last.get(device) == centre]
        if not devices:
            continue
        colour = f"@c{i % COLOURS}"
        pairs = [(places[device], places[centre]) for device in devices]
        traces.append(_lines(pairs, f"{colour}/0.45", 1, "solid"))
        told = [
            f"{label(device)}, with {label(centre)}<br>{answers.get(device, 0)} answers, "
            f"moved {moves[device]} times<br>{human_bytes(float(sent.get(device, 0)))} sent"
            for device in devices
        ]
        marker = {"color": colour, "size": 8, "symbol": _SYMBOLS[i % len(_SYMBOLS)]}
        traces.append(_marks([places[device] for device in devices], told, marker))
    strangers = [device for device in drawn if device not in last]
    if strangers:
        ring = passed_on(run.transfers)
        told = [
            f"{label(device)}: exchanged {'models with devices' if device in ring else 'no model'}"
            for device in strangers
        ]
        marker = {"color": "@soft", "size": 8, "symbol": "circle-open"}
        traces.append(_marks([places[device] for device in strangers], told, marker))
    return traces


def _marks(at: list[Place], told: list[str], marker: dict[str, object], **more: object) -> Trace:
    return {
        "type": "scatter", "mode": "markers", "x": plain(x for x, _ in at),
        "y": plain(y for _, y in at), "text": told, "hovertemplate": "%{text}<extra></extra>",
        "marker": marker | {"line": {"color": "@paper", "width": 1}}, "showlegend": False,
    } | more  # fmt: skip


def _gateway_marks(
    run: Run, places: dict[str, Place], gateways: list[str], last: dict[str, str]
) -> Trace:
    carried = run.transfers
    traffic = carried.groupby("src")["bytes"].sum().add(
        carried.groupby("dst")["bytes"].sum(), fill_value=0
    )  # fmt: skip
    count = pd.Series(list(last.values())).value_counts()
    told = [
        f"{label(gateway)}: {count.get(gateway, 0)} devices<br>"
        f"{human_bytes(float(traffic.get(gateway, 0)))} carried"
        for gateway in gateways
    ]
    few = len(gateways) <= _MOST_NAMES
    marker: dict[str, object] = {
        "color": [f"@c{i % COLOURS}" for i in range(len(gateways))], "size": 17 if few else 7,
        "symbol": [_SYMBOLS[i % len(_SYMBOLS)] for i in range(len(gateways))],
    }  # fmt: skip
    names = {"mode": "markers+text", "texttemplate": "%{customdata}", "textposition": "top center",
             "customdata": [label(gateway) for gateway in gateways]}  # fmt: skip
    trace = _marks(
        [places[gateway] for gateway in gateways], told, marker, **(names if few else {})
    )
    trace["marker"]["line"] = {"color": "@ink", "width": 1.5}
    return trace


def _cloud_mark(place: Place, name: str) -> Trace:
    marker = {"color": "@ink", "size": 15, "symbol": "hexagon2"}
    return _marks([place], [label(name)], marker, mode="markers+text",
                  texttemplate=label(name), textposition="bottom center")  # fmt: skip
