from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from simulator.data.dataset import load
from simulator.data.partition import choose_test, partition
from simulator.data.samples import Dataset
from simulator.data.section import DataSection, Dirichlet, Iid
from simulator.errors import UserError
from simulator.rng import Stream, generator


def rng() -> np.random.Generator:
    return generator(1, Stream.PARTITION)


def toy(num_classes: int | None = 4) -> Dataset:
    x = np.zeros((400, 2), np.float32)
    y = np.tile(np.arange(4), 100) if num_classes else np.zeros((400, 1), np.float32)
    owner = np.repeat(np.arange(10), 40)
    names = tuple(f"owner {number}" for number in range(10))
    return Dataset("toy", x, y, x[:50], y[:50], num_classes, owner, names)


def section(**fields: Any) -> DataSection:
    return DataSection.model_validate(fields)


@pytest.mark.parametrize(
    "how",
    [
        {"kind": "iid"},
        {"kind": "classes-per-device", "k": 2},
        {"kind": "primary-secondary"},
        {"kind": "dirichlet", "alpha": 0.5},
        {"kind": "llt", "samples_per_device": 20},
        {"kind": "natural"},
        {"kind": "grouped", "between": "dirichlet", "within": "iid", "alpha": 1.0},
        {"kind": "grouped", "between": "iid", "within": "dirichlet", "alpha": 1.0},
        {"kind": "disjoint-groups", "k": 2},
    ],
)
def test_every_kind_comes_from_a_scenario(how: dict[str, Any]) -> None:
    asked = section(name="digits", fraction=0.75, samples_per_device=15, partition=how)
    parts = partition(toy(), asked, 6, [0, 0, 0, 1, 1, 1], rng())
    used = np.concatenate(parts)
    assert len(parts) == 6
    assert len(np.unique(used)) == len(used)
    assert all(0 < len(part) <= 15 and np.all(np.diff(part) > 0) for part in parts)


def test_fraction_is_drawn_before_the_partition() -> None:
    parts = partition(toy(), section(fraction=0.1), 4, None, rng())
    assert [len(part) for part in parts] == [10] * 4
    assert max(part.max() for part in parts) > 100


def test_same_seed_same_partition(tmp_path: Path) -> None:
    digits = load("digits", tmp_path)
    asked = section(fraction=0.5, partition={"kind": "dirichlet", "alpha": 0.1})
    first, again = (partition(digits, asked, 30, None, rng()) for _ in range(2))
    assert [part.tolist() for part in first] == [part.tolist() for part in again]


def test_device_without_samples_is_an_error() -> None:
    message = r"empty partition: device \d+ of 500 gets none of the 400 samples of 'toy'.*use fewer"
    with pytest.raises(UserError, match=message):
        partition(toy(), section(), 500, None, rng())


@pytest.mark.parametrize(
    ("data", "how", "groups", "message"),
    [
        (toy(None), {"kind": "dirichlet", "alpha": 1}, None, "needs class labels.*regression"),
        (toy(), {"kind": "disjoint-groups"}, None, "group of each of the 6 devices, 0 are known"),
        (toy(), {"kind": "grouped", "between": "iid", "within": "iid"}, [1], "1 are known"),
    ],
)
def test_partition_that_does_not_fit(
    data: Dataset, how: dict[str, Any], groups: list[int] | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        partition(data, section(partition=how), 6, groups, rng())


def test_natural_needs_owners(tmp_path: Path) -> None:
    digits = load("digits", tmp_path)
    with pytest.raises(UserError, match="'digits' has no natural owners"):
        partition(digits, section(partition={"kind": "natural"}), 3, None, rng())


def test_regression_can_be_iid_and_natural() -> None:
    for kind in ("iid", "natural"):
        parts = partition(toy(None), section(partition={"kind": kind}), 10, None, rng())
        assert [len(part) for part in parts] == [40] * 10


def test_choose_test() -> None:
    assert choose_test(toy(), section(), rng()).tolist() == list(range(50))
    few = choose_test(toy(), section(max_test_samples=7), rng())
    assert len(np.unique(few)) == 7
    assert np.all(np.diff(few) > 0)


def test_section_defaults() -> None:
    assert DataSection().partition == Iid()
    assert DataSection(partition=Dirichlet(alpha=0.1)).name == "digits"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "minst"}, "unknown data set 'minst'; did you mean 'mnist'"),
        ({"fraction": 0}, "greater than 0"),
        ({"fraction": 1.5}, "less than or equal to 1"),
        ({"partition": {"kind": "dirichlet"}}, "alpha"),
        ({"partition": {"kind": "dirichlet", "alpha": 0.1, "k": 2}}, "Extra inputs"),
        ({"partition": {"kind": "drichlet"}}, "drichlet"),
        ({"partition": {"alpha": 0.1}}, "kind"),
    ],
)
def test_section_refuses(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        section(**fields)
