"""Who trains on what: the scenario's data section turned into sample indices per device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.data.samples import Dataset, Ints
from simulator.data.schemes import (
    Parts,
    classes_per_device,
    dirichlet,
    disjoint_groups,
    grouped,
    iid,
    llt,
    natural,
    primary_secondary,
)
from simulator.data.section import (
    ClassesPerDevice,
    DataSection,
    Dirichlet,
    DisjointGroups,
    Grouped,
    Iid,
    Llt,
    Natural,
    PrimarySecondary,
)
from simulator.errors import UserError


def partition(
    dataset: Dataset,
    section: DataSection,
    num_devices: int,
    groups: Sequence[int] | None,
    rng: np.random.Generator,
) -> Parts:
    """Indices into the training samples for each device, as the scenario asks.

    ``groups`` has the group of each device; only partitions by group need it.
    """
    size = len(dataset.y_train)
    used = _sample(np.arange(size), max(1, round(section.fraction * size)), rng)
    parts = [used[part] for part in _dispatch(dataset, section, num_devices, groups, used, rng)]
    for device, part in enumerate(parts):
        if len(part) == 0:
            raise UserError(
                f"empty partition: device {device} of {num_devices} gets none of the {len(used)} "
                f"samples of {dataset.name!r} (partition {section.partition.kind!r}, fraction "
                f"{section.fraction}); use fewer devices, a larger fraction or another partition"
            )
    limit = section.samples_per_device
    return [_sample(part, limit, rng) for part in parts] if limit else parts


def choose_test(dataset: Dataset, section: DataSection, rng: np.random.Generator) -> Ints:
    """Indices of the test samples to evaluate on."""
    everything = np.arange(len(dataset.y_test))
    return _sample(everything, section.max_test_samples or len(everything), rng)


def _dispatch(
    dataset: Dataset,
    section: DataSection,
    num_devices: int,
    groups: Sequence[int] | None,
    used: Ints,
    rng: np.random.Generator,
) -> Parts:
    labels = dataset.y_train[used]
    how = section.partition
    _check_fit(dataset, section, num_devices, groups)
    match how:
        case Iid():
            return iid(labels, num_devices, rng)
        case ClassesPerDevice():
            return classes_per_device(labels, num_devices, rng, how.k)
        case PrimarySecondary():
            return primary_secondary(labels, num_devices, rng, how.share)
        case Dirichlet():
            return dirichlet(labels, num_devices, rng, how.alpha, how.min_samples)
        case Llt():
            return llt(labels, num_devices, rng, how.samples_per_device, how.share)
        case Natural():
            assert dataset.owner is not None
            return natural(dataset.owner[used], num_devices, rng, how.min_samples)
        case Grouped():
            assert groups is not None
            return grouped(
                labels,
                num_devices,
                rng,
                groups,
                how.between,
                how.within,
                how.alpha,
                how.min_samples,
            )
        case DisjointGroups():
            assert groups is not None
            return disjoint_groups(labels, num_devices, rng, groups, how.k)


def _check_fit(
    dataset: Dataset, section: DataSection, num_devices: int, groups: Sequence[int] | None
) -> None:
    how = section.partition
    label_free = isinstance(how, Iid | Natural) or (
        isinstance(how, Grouped) and how.between == how.within == "iid"
    )
    if dataset.num_classes is None and not label_free:
        raise UserError(
            f"partition {how.kind!r} needs class labels, but {dataset.name!r} is a regression; "
            "use 'iid' or 'natural'"
        )
    if isinstance(how, Natural) and dataset.owner is None:
        raise UserError(
            f"{dataset.name!r} has no natural owners; use another partition than 'natural'"
        )
    if isinstance(how, Grouped | DisjointGroups) and len(groups or ()) != num_devices:
        raise UserError(
            f"partition {how.kind!r} needs the group of each of the {num_devices} devices, "
            f"{len(groups or ())} are known; use a topology with groups or another partition"
        )


def _sample(indices: Ints, count: int, rng: np.random.Generator) -> Ints:
    """``count`` of the indices at random, sorted; all of them when there are no more."""
    if count >= len(indices):
        return indices
    return np.sort(rng.choice(indices, count, replace=False))
