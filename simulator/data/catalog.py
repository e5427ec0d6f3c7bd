"""Which data sets there are and where they are looked for. Nothing heavy is imported here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from simulator.errors import UserError, unknown_name


class Entry(NamedTuple):
    description: str
    by_hand: str = ""
    """What to put into the data folder when ``meshfl data fetch`` cannot get it."""


EMNIST_SPLITS = {
    "balanced": 47,
    "byclass": 62,
    "bymerge": 47,
    "digits": 10,
    "letters": 26,
    "mnist": 10,
}
"""Split of EMNIST -> number of classes."""

_LEAF = "run LEAF's preprocess.sh and put its train/*.json and test/*.json there"

CATALOG: dict[str, Entry] = {
    "digits": Entry("1797 handwritten digits of 8 x 8, 10 classes; embedded in scikit-learn"),
    "fashion-mnist": Entry("70000 pictures of clothes of 28 x 28, 10 classes"),
    "mnist": Entry("70000 handwritten digits of 28 x 28, 10 classes"),
    **{
        f"emnist-{split}": Entry(f"handwritten characters of 28 x 28, {classes} classes")
        for split, classes in EMNIST_SPLITS.items()
    },
    "femnist": Entry("handwritten characters of 28 x 28 by writer, 62 classes (LEAF json)", _LEAF),
    "cifar10": Entry("60000 colour photographs of 32 x 32, 10 classes"),
    "cinic10": Entry("180000 colour photographs of 32 x 32, 10 classes"),
    "har": Entry("activities of 30 subjects, windows of 128 x 6 raw sensor readings, 6 classes"),
    "uci-har": Entry("activities of 30 subjects, 561 computed features, 6 classes"),
    "shakespeare": Entry("next character after 80, by (play, role), 80 classes"),
    "shakespeare-leaf": Entry("next character after 80, by role, 80 classes (LEAF json)", _LEAF),
    "weather": Entry("daily wind speed of 12 Irish stations, 1961-1978: predict the next day"),
    "hpwren": Entry(
        "half-hourly weather by station: predict the next reading",
        "put one csv per station there, a time column first, then numeric columns",
    ),
}

EMBEDDED = "digits"
"""The default: it needs no file."""

SYSTEM_FOLDERS = {
    "fashion-mnist": Path("/usr/share/datasets/fashion-mnist"),  # Debian: dataset-fashion-mnist
    "weather": Path("/usr/lib/R/site-library/gstat/data"),  # Debian: r-cran-gstat
}


def data_folder() -> Path:
    """Where data sets live: $MESHFL_DATA, or data/ in the current folder."""
    return Path(os.environ.get("MESHFL_DATA") or "data").absolute()


def find(name: str, folder: Path) -> Path:
    """The folder that holds the files of a data set: ``folder/name``, else the system's copy."""
    if name not in CATALOG:
        raise unknown_name("data set", name, CATALOG)
    places = [folder / name, *([SYSTEM_FOLDERS[name]] if name in SYSTEM_FOLDERS else [])]
    for place in places:
        if place.is_dir():
            return place
    by_hand = CATALOG[name].by_hand
    remedy = by_hand or f"get it with `meshfl data fetch {name}`"
    looked = " nor in ".join(str(place) for place in places)
    raise UserError(
        f"data set {name!r} is not in {looked}; {remedy} "
        f"(or set MESHFL_DATA to the folder that has a folder {name!r})"
    )
