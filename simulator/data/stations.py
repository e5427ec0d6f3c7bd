"""Weather by station: from a window of readings, predict the next one.

Inputs and targets are standardised over the training readings of all stations. The last fifth of
each station's readings are the targets for testing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simulator.data.rda import read_rda
from simulator.data.samples import TEST_SHARE, Array, Dataset, reading
from simulator.errors import UserError

WEATHER_WINDOW = 24
"""Days."""
HPWREN_WINDOW = 48
"""Readings: the past 24 hours."""


def load_weather(folder: Path) -> Dataset:
    """gstat's wind data: knots a day, with the sine and cosine of the day of the year."""
    import pandas as pd

    path = folder / "wind.rda"
    frames = read_rda(path)
    with reading(path):
        wind = frames["wind"]
        codes = [name for name in wind if name not in ("year", "month", "day")]
        dates = pd.to_datetime(
            {"year": wind["year"] + 1900, "month": wind["month"], "day": wind["day"]}
        )
        angle = 2 * np.pi * dates.dt.day_of_year.to_numpy() / 365.25
        season = np.stack([np.sin(angle), np.cos(angle)], axis=1)
        series = {code: np.column_stack([wind[code], season]) for code in codes}
    return _next_step("weather", series, WEATHER_WINDOW, num_targets=1, place=path)


def load_hpwren(folder: Path) -> Dataset:
    """One csv per station: a time column first, then the same numeric columns in every file.

    Rows are used in the order of their times; a row with a missing number is left out.
    """
    import pandas as pd

    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise UserError(f"{folder} holds no .csv file; put one csv per station there")
    series: dict[str, Array] = {}
    columns: list[str] = []
    for path in paths:
        with reading(path):
            table = pd.read_csv(path)
            columns = columns or list(table.columns)
            if list(table.columns) != columns or len(columns) < 2:
                raise ValueError(f"columns {list(table.columns)}, but {columns} in {paths[0].name}")
            times = pd.to_datetime(table.iloc[:, 0])
            numbers = table.iloc[:, 1:].apply(pd.to_numeric)
            ordered = numbers.iloc[np.argsort(times.to_numpy(), kind="stable")]
            series[path.stem] = ordered.dropna().to_numpy(np.float64)
    return _next_step("hpwren", series, HPWREN_WINDOW, len(columns) - 1, place=folder)


def _next_step(
    name: str, series: dict[str, Array], window: int, num_targets: int, place: Path
) -> Dataset:
    """Windows of all features; the targets are the first ``num_targets`` of the next reading."""
    for station, values in series.items():
        if len(values) < 2 * window:
            raise UserError(
                f"{place}: station {station!r} has {len(values)} complete readings; "
                f"windows of {window} need at least {2 * window}"
            )
    cuts = {station: len(values) - len(values) // TEST_SHARE for station, values in series.items()}
    known = np.concatenate([values[: cuts[station]] for station, values in series.items()])
    mean, std = known.mean(axis=0), known.std(axis=0)
    std = np.where(std > 0, std, 1)
    x_train, y_train, x_test, y_test = [], [], [], []
    for station, values in series.items():
        scaled = ((values - mean) / std).astype(np.float32)
        runs = np.lib.stride_tricks.sliding_window_view(scaled, window + 1, axis=0)
        x, y = runs[:, :, :window].swapaxes(1, 2), runs[:, :num_targets, window]
        cut = cuts[station] - window
        x_train.append(x[:cut])
        y_train.append(y[:cut])
        x_test.append(x[cut:])
        y_test.append(y[cut:])
    sizes = [len(y) for y in y_train]
    return Dataset(
        name,
        np.concatenate(x_train),
        np.concatenate(y_train),
        np.concatenate(x_test),
        np.concatenate(y_test),
        num_classes=None,
        owner=np.repeat(np.arange(len(series), dtype=np.int64), sizes),
        owner_names=tuple(series),
    )
