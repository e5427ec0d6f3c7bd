from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from simulator.data.dataset import load
from simulator.data.rda import read_rda
from simulator.errors import UserError

NIL = struct.pack(">i", 254)
Column = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def chars(text: str) -> bytes:
    return struct.pack(">ii", 9, len(text)) + text.encode()


def tagged(tag: str, value: bytes) -> bytes:
    return struct.pack(">ii", 2 | 1024, 1) + chars(tag) + value


def strings(texts: list[str]) -> bytes:
    return struct.pack(">ii", 16, len(texts)) + b"".join(chars(text) for text in texts)


def vector(column: Column) -> bytes:
    if column.dtype == np.int64:
        return struct.pack(">ii", 13, len(column)) + column.astype(">i4").tobytes()
    return struct.pack(">ii", 14, len(column)) + column.astype(">f8").tobytes()


def named(name: str, frame: dict[str, Column], names_tag: bytes) -> bytes:
    values = struct.pack(">ii", 19 | 512, len(frame)) + b"".join(map(vector, frame.values()))
    names = struct.pack(">i", 2 | 1024) + names_tag + strings(list(frame))
    return tagged(name, values + names + tagged("class", strings(["data.frame"])) + NIL)


def rda(name: str, frame: dict[str, Column], version: int = 2) -> bytes:
    """As R's save() writes a data frame, and another one that refers to the symbol "names"."""
    header = b"RDX%d\nX\n" % version + struct.pack(">iii", version, 0x40201, 0x20300)
    if version == 3:
        header += struct.pack(">i", 5) + b"UTF-8"
    second_symbol = struct.pack(">i", 255 | 2 << 8)
    frames = named(name, frame, struct.pack(">i", 1) + chars("names"))
    return header + frames + named("other", {"a": np.array([7])}, second_symbol) + NIL


def wind_frame(days: int) -> dict[str, Column]:
    dates = [date(1961, 1, 1) + timedelta(day) for day in range(days)]
    return {
        "year": np.array([day.year - 1900 for day in dates]),
        "month": np.array([day.month for day in dates]),
        "day": np.array([day.day for day in dates]),
        "RPT": np.arange(days, dtype=float),
        "VAL": np.full(days, 10.0),
    }


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_rda(tmp_path: Path, version: int, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "wind.rda"
    path.write_bytes(compress(rda("wind", wind_frame(3), version)))
    frames = read_rda(path)
    assert frames["other"]["a"].tolist() == [7]
    frame = frames["wind"]
    assert list(frame) == ["year", "month", "day", "RPT", "VAL"]
    assert frame["day"].tolist() == [1, 2, 3]
    assert frame["RPT"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"garbage", "starts with RDX2 or RDX3"),
        (bz2.compress(rda("wind", wind_frame(3)))[:-20], "cannot be read"),
        (rda("wind", wind_frame(3))[:-90], "EOFError: ends after"),
        (rda("wind", wind_frame(3))[:19] + struct.pack(">i", 99) + bytes(9), "type 99"),
        (rda("breeze", wind_frame(60)), "KeyError: 'wind'"),
    ],
)
def test_broken_rda_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "weather" / "wind.rda"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{path}.*{message}"):
        load("weather", tmp_path)


def test_weather_predicts_the_next_day(tmp_path: Path) -> None:
    (tmp_path / "weather").mkdir()
    (tmp_path / "weather" / "wind.rda").write_bytes(gzip.compress(rda("wind", wind_frame(60))))
    data = load("weather", tmp_path)
    # 60 days a station: 48 known, of which 48 - 24 are training targets; 12 are test targets.
    assert data.x_train.shape == (2 * 24, 24, 3)
    assert data.y_test.shape == (2 * 12, 1)
    assert data.num_classes is None
    assert data.owner_names == ("RPT", "VAL")
    knots = np.concatenate([np.arange(48.0), np.full(48, 10.0)])
    mean, std = knots.mean(), knots.std()
    assert data.y_train[0, 0] == pytest.approx((24 - mean) / std, rel=1e-5)
    assert data.y_test[0, 0] == pytest.approx((48 - mean) / std, rel=1e-5)
    np.testing.assert_allclose(data.x_train[1, :, 0], (np.arange(1, 25) - mean) / std, rtol=1e-4)


def write_station(path: Path, rows: int, header: str = "time,temperature,humidity") -> None:
    path.parent.mkdir(exist_ok=True)
    times = [f"2020-01-{1 + i // 48:02d} {i % 48 // 2:02d}:{30 * (i % 2):02d}" for i in range(rows)]
    lines = [f"{time},{i},{2 * i}" for i, time in enumerate(times)]
    path.write_text("\n".join([header, *reversed(lines)]) + "\n")


def test_hpwren_orders_by_time_and_predicts_all_columns(tmp_path: Path) -> None:
    write_station(tmp_path / "hpwren" / "north.csv", 100)
    write_station(tmp_path / "hpwren" / "south.csv", 110)
    data = load("hpwren", tmp_path)
    assert data.owner_names == ("north", "south")
    assert data.x_train.shape == (80 - 48 + 88 - 48, 48, 2)
    assert data.y_test.shape == (20 + 22, 2)
    assert np.all(np.diff(data.x_train[0, :, 0]) > 0)
    np.testing.assert_allclose(data.x_train[1, -1], data.y_train[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (100, "time,temperature,wind", r"south\.csv.*but .'time', 'temperature', 'humidity'"),
        (95, "time,temperature,humidity", "'south' has 95 complete readings.*at least 96"),
    ],
)
def test_hpwren_refuses(tmp_path: Path, rows: int, header: str, message: str) -> None:
    write_station(tmp_path / "hpwren" / "north.csv", 100)
    write_station(tmp_path / "hpwren" / "south.csv", rows, header)
    with pytest.raises(UserError, match=message):
        load("hpwren", tmp_path)


@pytest.mark.parametrize("content", ["", "time,a\nnever,1\n", "time,a\n2020-01-01,warm\n"])
def test_hpwren_garbage_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "hpwren" / "north.csv"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(UserError, match=f"{path} cannot be read"):
        load("hpwren", tmp_path)


def test_hpwren_without_files(tmp_path: Path) -> None:
    (tmp_path / "hpwren").mkdir()
    with pytest.raises(UserError, match=r"hpwren holds no \.csv file; put one csv per station"):
        load("hpwren", tmp_path)
