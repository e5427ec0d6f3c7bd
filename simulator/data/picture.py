"""A picture of who has which labels: one stacked bar a device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simulator.data.samples import Dataset, Ints
from simulator.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SUFFIXES = (".png", ".svg", ".pdf")
_MAX_TICKS = 60
_LEGEND_CLASSES = 20
"""With more classes, a colour bar stands for the legend."""


def plot_labels(
    dataset: Dataset,
    parts: Sequence[Ints],
    device_names: Sequence[str],
    path: Path,
    groups: Sequence[int] | None = None,
) -> None:
    """Draw the samples of each device, coloured by class; devices stand together by group."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    order = np.arange(len(parts)) if groups is None else np.argsort(groups, kind="stable")
    counts = label_counts(dataset, [parts[device] for device in order])
    num_devices, num_classes = counts.shape
    figure = Figure(figsize=(min(16, 5 + 0.12 * num_devices), 4.8), layout="constrained")
    axes = figure.add_subplot()
    if num_classes <= _LEGEND_CLASSES:
        colors = colormaps["tab10" if num_classes <= 10 else "tab20"](np.arange(num_classes))
    else:
        colors = colormaps["turbo"](np.linspace(0, 1, num_classes))
    bottom = np.zeros(num_devices)
    names = dataset.class_names or tuple(str(label) for label in range(num_classes))
    for label in range(num_classes):
        present = np.flatnonzero(counts[:, label])
        height = counts[present, label]
        axes.bar(present, height, 0.9, bottom[present], color=colors[label], label=names[label])
        bottom += counts[:, label]
    _label_axes(axes, dataset, parts, [device_names[device] for device in order])
    if groups is not None:
        _mark_groups(axes, np.asarray(groups)[order])
    _explain_colors(figure, axes, dataset)
    _save(figure, path)


def label_counts(dataset: Dataset, parts: Sequence[Ints]) -> Ints:
    """[device, class]: number of samples; a regression counts as one class."""
    labels = dataset.y_train
    if dataset.num_classes is None:
        return np.array([[len(part)] for part in parts], np.int64)
    return np.array([np.bincount(labels[part], minlength=dataset.num_classes) for part in parts])


def _label_axes(
    axes: Axes, dataset: Dataset, parts: Sequence[Ints], device_names: Sequence[str]
) -> None:
    step = -(-len(parts) // _MAX_TICKS)
    ticks = range(0, len(parts), step)
    axes.set_xticks(ticks, [device_names[tick] for tick in ticks], rotation=90, fontsize=7)
    axes.set_xlim(-0.7, len(parts) - 0.3)
    axes.set_xlabel("device")
    axes.set_ylabel("samples")
    axes.spines[["top", "right"]].set_visible(False)
    total = sum(len(part) for part in parts)
    axes.set_title(f"{dataset.name}: {total} training samples on {len(parts)} devices", pad=16)


def _mark_groups(axes: Axes, groups: Ints) -> None:
    edges = np.flatnonzero(np.diff(groups)) + 1
    for start, end in zip([0, *edges], [*edges, len(groups)], strict=True):
        axes.annotate(
            f"group {groups[start]}",
            ((start + end - 1) / 2, 1.01),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=7,
        )
        if start:
            axes.axvline(start - 0.5, color="black", linewidth=0.8, linestyle=":")


def _explain_colors(figure: Figure, axes: Axes, dataset: Dataset) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    if dataset.num_classes is None:
        return
    if dataset.num_classes <= _LEGEND_CLASSES:
        figure.legend(title="class", loc="outside right center", fontsize=8, frameon=False)
    else:
        scale = ScalarMappable(Normalize(0, dataset.num_classes - 1), "turbo")
        figure.colorbar(scale, ax=axes, label="class")


def _save(figure: Figure, path: Path) -> None:
    """Written beside ``path`` first: a kill leaves no half picture."""
    if path.suffix not in _SUFFIXES:
        raise UserError(f"{path}: a picture must end in {', '.join(_SUFFIXES)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        figure.savefig(draft, format=path.suffix.lstrip("."), dpi=150)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
