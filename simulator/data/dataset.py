"""Every data set by name. Adding one: a loader here, a line in catalog.py and in sources.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from simulator.data.catalog import EMBEDDED, EMNIST_SPLITS, find
from simulator.data.digits import load_digits
from simulator.data.har import load_har, load_uci_har
from simulator.data.idx import load_emnist, load_fashion_mnist, load_mnist
from simulator.data.leaf import load_femnist, load_shakespeare_leaf
from simulator.data.photos import load_cifar10, load_cinic10
from simulator.data.samples import Dataset
from simulator.data.shakespeare import load_shakespeare
from simulator.data.stations import load_hpwren, load_weather

__all__ = ["DATASETS", "Dataset", "load"]

DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "digits": load_digits,
    "fashion-mnist": load_fashion_mnist,
    "mnist": load_mnist,
    **{f"emnist-{split}": partial(load_emnist, split) for split in EMNIST_SPLITS},
    "femnist": load_femnist,
    "cifar10": load_cifar10,
    "cinic10": load_cinic10,
    "har": load_har,
    "uci-har": load_uci_har,
    "shakespeare": load_shakespeare,
    "shakespeare-leaf": load_shakespeare_leaf,
    "weather": load_weather,
    "hpwren": load_hpwren,
}


def load(name: str, folder: Path) -> Dataset:
    """The data set ``name`` from the data folder or a system package; see ``catalog.find``."""
    place = folder if name == EMBEDDED else find(name, folder)
    return DATASETS[name](place)
