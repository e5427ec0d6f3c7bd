from __future__ import annotations

import codecs
import copyreg
import gzip
import os
import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simulator.data.dataset import load
from simulator.data.frames import load_frames
from simulator.errors import UserError

COLUMNS = ("acc-x", "acc-y", "acc-z", "gyro-x", "gyro-y", "gyro-z", "sequence", "label")
Array = npt.NDArray[Any]


class DataFrame: ...


class BlockManager: ...


class Index: ...


class RangeIndex: ...


def new_index() -> None: ...


NAMES = {
    id(DataFrame): "pandas.core.frame\nDataFrame",
    id(BlockManager): "pandas.core.internals.managers\nBlockManager",
    id(Index): "pandas.core.indexes.base\nIndex",
    id(RangeIndex): "pandas.core.indexes.range\nRangeIndex",
    id(new_index): "pandas.core.indexes.base\n_new_Index",
    id(object): "__builtin__\nobject",
    id(slice): "__builtin__\nslice",
    id(codecs.encode): "_codecs\nencode",
    id(copyreg._reconstructor): "copy_reg\n_reconstructor",  # type: ignore[attr-defined]
    id(np.ndarray): "numpy\nndarray",
    id(np.dtype): "numpy\ndtype",
    id(np.empty(0).__reduce__()[0]): "numpy.core.multiarray\n_reconstruct",
}


class OldPickler(pickle._Pickler):
    """Spells the names as pandas 1.0 under protocol 2 did."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if id(obj) in NAMES:
            self.write(pickle.GLOBAL + NAMES[id(obj)].encode() + b"\n")  # type: ignore[attr-defined]
        else:
            super().save(obj, save_persistent_id)  # type: ignore[misc]


class Built:
    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Any:
        return self.reduced


def old_object(kind: type, state: Any) -> Built:
    return Built(copyreg._reconstructor, (kind, object, None), state)  # type: ignore[attr-defined]


def old_frame(signals: Array, labels: Array) -> Built:
    integers = np.stack([np.arange(len(labels)), labels])
    names = Built(new_index, (Index, {"data": np.array(COLUMNS, object), "name": None}))
    rows = Built(new_index, (RangeIndex, {"start": 0, "stop": len(labels), "step": 1}))
    blocks = [
        {"values": signals.T.copy(), "mgr_locs": slice(0, 6, 1)},
        {"values": integers, "mgr_locs": slice(6, 8, 1)},
    ]
    last = {"0.14.1": {"axes": [names, rows], "blocks": blocks}}
    manager = old_object(BlockManager, ([names, rows], [], [], last))
    return old_object(DataFrame, {"_data": manager, "_typ": "dataframe"})


def pickled(content: Any) -> bytes:
    stream = BytesIO()
    OldPickler(stream, 2).dump(content)
    return stream.getvalue()


def recording(subject: int) -> tuple[Array, Array]:
    """14 windows of walking, a transition, then 5 windows of sitting (one is cut by the grid)."""
    signals = np.random.default_rng(subject).normal(size=(1400, 6)).round(6)
    labels = np.repeat([1, 7, 4], [960, 32, 408])
    return signals, labels


def write_packaged(folder: Path) -> None:
    folder.mkdir(parents=True)
    frames = {subject: [old_frame(*recording(subject))] for subject in (1, 2)}
    (folder / "HAPT.pkl.gz").write_bytes(gzip.compress(pickled(frames)))


def write_official(folder: Path) -> None:
    folder.mkdir(parents=True)
    for subject in (1, 2):
        signals, _ = recording(subject)
        end = f"exp0{subject}_user0{subject}.txt"
        np.savetxt(folder / f"acc_{end}", signals[:, :3], "%.6f")
        np.savetxt(folder / f"gyro_{end}", signals[:, 3:], "%.6f")
    spans = [f"{s} {s} {span}\n" for s in (1, 2) for span in ("1 0 959", "7 960 991", "4 992 1399")]
    (folder / "labels.txt").write_text("".join(spans))


def test_package_and_official_files_give_the_same_windows(tmp_path: Path) -> None:
    write_packaged(tmp_path / "a" / "har")
    write_official(tmp_path / "b" / "har")
    data, official = load("har", tmp_path / "a"), load("har", tmp_path / "b")
    np.testing.assert_allclose(data.x_train, official.x_train, atol=1e-6)
    np.testing.assert_array_equal(data.y_test, official.y_test)
    # Of 14 walking windows, 2 test and 1 overlaps; sitting has 4 (1024 to 1344), so no test part.
    assert data.owner is not None
    assert np.bincount(data.owner).tolist() == [11 + 4, 11 + 4]
    assert data.y_test.tolist() == [0, 0, 0, 0]
    assert data.owner_names == ("subject 1", "subject 2")
    assert data.x_train.shape[1:] == (128, 6)
    np.testing.assert_allclose(data.x_train.mean(axis=(0, 1)), 0, atol=1e-6)
    np.testing.assert_allclose(data.x_train.std(axis=(0, 1)), 1, atol=1e-5)


def test_unpickler_reads_frames_by_column() -> None:
    signals, labels = recording(1)
    frame = load_frames(BytesIO(pickled({1: [old_frame(signals, labels)]})))[1][0]
    np.testing.assert_array_equal(frame["gyro-y"], signals[:, 4])
    np.testing.assert_array_equal(frame["label"], labels)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_unpickler_runs_nothing(tmp_path: Path, protocol: int) -> None:
    trap = tmp_path / "trap"
    path = tmp_path / "har" / "HAPT.pkl.gz"
    path.parent.mkdir()
    evil = pickle.dumps(Built(os.system, (f"touch {trap}",)), protocol)
    path.write_bytes(gzip.compress(evil))
    with pytest.raises(UserError, match=r"HAPT\.pkl\.gz.*posix\.system, which is not allowed"):
        load("har", tmp_path)
    assert not trap.exists()


@pytest.mark.parametrize("name", ["eval", "getattr", "__import__"])
def test_unpickler_refuses_builtins(name: str) -> None:
    with pytest.raises(pickle.UnpicklingError, match=f"{name}, which is not allowed"):
        load_frames(BytesIO(f"c__builtin__\n{name}\n.".encode()))


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps([1, 2]), pickle.dumps({1: [2]})])
def test_broken_pickle_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "har" / "HAPT.pkl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(content))
    with pytest.raises(UserError, match=f"{path} cannot be read"):
        load("har", tmp_path)


def test_broken_official_file_is_named(tmp_path: Path) -> None:
    write_official(tmp_path / "har")
    (tmp_path / "har" / "gyro_exp02_user02.txt").write_text("1 2 three\n")
    with pytest.raises(UserError, match=r"gyro_exp02_user02\.txt cannot be read"):
        load("har", tmp_path)


def write_uci(folder: Path) -> None:
    """Subject 1 has 6 windows of walking (part "train"), subject 9 has 5 of laying ("test")."""
    folder.mkdir()
    for part, subject, label, count in (("train", 1, 1, 6), ("test", 9, 6, 5)):
        rows = np.arange(count)[:, np.newaxis] / 10 + np.zeros(561)
        np.savetxt(folder / f"X_{part}.txt", rows, " % .7e")
        (folder / f"y_{part}.txt").write_text(f"{label}\n" * count)
        (folder / f"subject_{part}.txt").write_text(f"{subject}\n" * count)


def test_uci_har_splits_within_each_subject(tmp_path: Path) -> None:
    write_uci(tmp_path / "uci-har")
    data = load("uci-har", tmp_path)
    assert data.x_train.shape == (4 + 3, 561)
    assert data.owner_names == ("subject 1", "subject 9")
    assert data.y_train.tolist() == [0, 0, 0, 0, 5, 5, 5]
    assert data.y_test.tolist() == [0, 5]
    np.testing.assert_allclose(data.x_test[:, 0], [0.5, 0.4])


def test_uci_har_with_a_missing_line_is_refused(tmp_path: Path) -> None:
    write_uci(tmp_path / "uci-har")
    (tmp_path / "uci-har" / "y_test.txt").write_text("6\n")
    with pytest.raises(UserError, match=r"x \(11, 561\), y \(7, 1\), subject \(11, 1\)"):
        load("uci-har", tmp_path)
