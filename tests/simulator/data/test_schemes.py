from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from simulator.errors import UserError
from simulator.rng import Stream, generator

Ints = npt.NDArray[np.int64]
Rng = np.random.Generator
seeds = st.integers(0, 2**32 - 1)


def rng(seed: int = 0) -> Rng:
    return generator(seed, Stream.PARTITION)


def balanced(num_classes: int, each: int) -> Ints:
    return np.tile(np.arange(num_classes), each)


def groups_of(num_devices: int, num_groups: int) -> list[int]:
    return [device % num_groups for device in range(num_devices)]


def assert_disjoint(parts: Parts) -> None:
    used = np.concatenate(parts)
    assert len(np.unique(used)) == len(used)
    assert all(part.dtype == np.int64 and np.all(np.diff(part) > 0) for part in parts)


def assert_covers(parts: Parts, num_samples: int) -> None:
    assert_disjoint(parts)
    assert sum(len(part) for part in parts) == num_samples


SCHEMES: dict[str, Callable[[Ints, int, Rng], Parts]] = {
    "iid": iid,
    "classes": lambda labels, n, r: classes_per_device(labels, n, r, 2),
    "primary": primary_secondary,
    "dirichlet": lambda labels, n, r: dirichlet(labels, n, r, 0.5),
    "llt": lambda labels, n, r: llt(labels, n, r, 10),
    "natural": lambda labels, n, r: natural(labels, n, r),
    "grouped": lambda labels, n, r: grouped(labels, n, r, groups_of(n, 2), "dirichlet", "iid", 1.0),
    "disjoint": lambda labels, n, r: disjoint_groups(labels, n, r, groups_of(n, 2), 2),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_same_seed_same_parts(name: str) -> None:
    labels = rng(3).integers(0, 10, 600)
    first, again, other = (SCHEMES[name](labels, 8, rng(seed)) for seed in (5, 5, 6))
    assert [part.tolist() for part in first] == [part.tolist() for part in again]
    assert [part.tolist() for part in first] != [part.tolist() for part in other]
    assert_disjoint(first)


@given(st.integers(1, 300), st.integers(1, 40), seeds)
def test_iid_uses_every_sample_once_in_equal_sizes(samples: int, devices: int, seed: int) -> None:
    parts = iid(np.zeros(samples), devices, rng(seed))
    assert_covers(parts, samples)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(2, 12), st.integers(1, 30), st.integers(1, 4), seeds)
def test_every_device_has_exactly_k_classes(classes: int, devices: int, k: int, seed: int) -> None:
    k = min(k, classes)
    labels = balanced(classes, 130)
    parts = classes_per_device(labels, devices, rng(seed), k)
    assert_disjoint(parts)
    assert all(len(np.unique(labels[part])) == k for part in parts)
    if devices * k >= classes:
        assert_covers(parts, len(labels))
    holders = np.sum([np.bincount(np.unique(labels[p]), minlength=classes) for p in parts], axis=0)
    assert holders.max() - holders.min() <= 1


def test_classes_with_few_samples_leave_devices_with_fewer_classes() -> None:
    labels = np.array([0] * 50 + [1])
    parts = classes_per_device(labels, 5, rng(), 2)
    assert_covers(parts, 51)
    assert sorted(len(np.unique(labels[part])) for part in parts) == [1, 1, 1, 1, 2]


def test_more_classes_per_device_than_there_are() -> None:
    with pytest.raises(UserError, match="3 classes per device, but the data has 2"):
        classes_per_device(balanced(2, 5), 2, rng(), 3)


@given(st.integers(2, 10), st.integers(1, 40), st.floats(0.5, 1), seeds)
def test_primary_and_secondary_class(classes: int, devices: int, share: float, seed: int) -> None:
    labels = rng(seed).integers(0, classes, 2000)
    labels[:classes] = np.arange(classes)
    parts = primary_secondary(labels, devices, rng(seed), share)
    assert_disjoint(parts)
    total = len(parts[0])
    counts = [sorted(np.bincount(labels[part], minlength=classes))[::-1] for part in parts]
    most = max(round(share * total), total - round(share * total))
    assert all(count[:2] == [most, total - most] for count in counts)


def test_primary_and_secondary_use_most_of_balanced_data() -> None:
    parts = primary_secondary(balanced(10, 100), 10, rng(), 0.8)
    assert [len(part) for part in parts] == [len(parts[0])] * 10
    assert len(parts[0]) >= 80


@given(st.integers(1, 30), st.sampled_from([0.05, 0.1, 1.0, 100.0]), seeds)
def test_dirichlet_uses_every_sample_once(devices: int, alpha: float, seed: int) -> None:
    labels = balanced(10, 100)
    parts = dirichlet(labels, devices, rng(seed), alpha)
    assert_covers(parts, 1000)
    assert all(len(part) > 0 for part in parts)


def test_dirichlet_goes_from_one_sided_to_iid() -> None:
    labels = balanced(10, 1000)

    def largest_share(alpha: float) -> float:
        parts = dirichlet(labels, 20, rng(1), alpha)
        return float(np.mean([np.bincount(labels[part]).max() / len(part) for part in parts]))

    assert largest_share(1e-3) > 0.9
    assert 0.4 < largest_share(0.1) < 0.9
    assert largest_share(1000.0) == pytest.approx(0.1, abs=0.02)


def test_dirichlet_keeps_to_the_minimum_or_says_why_not() -> None:
    labels = balanced(10, 100)
    parts = dirichlet(labels, 10, rng(), 0.1, min_samples=30)
    assert min(len(part) for part in parts) >= 30
    with pytest.raises(UserError, match=r"Dirichlet\(0\.1\): after 100 draws.*min_samples 100"):
        dirichlet(labels, 10, rng(), 0.1, min_samples=100)


@settings(max_examples=50)
@given(st.integers(1, 20), st.integers(1, 30), st.floats(0.1, 1), seeds)
def test_llt_counts(devices: int, samples: int, share: float, seed: int) -> None:
    labels = balanced(10, 200)
    parts = llt(labels, devices, rng(seed), samples, share)
    assert_disjoint(parts)
    most = max(1, round(share * samples))
    for part in parts:
        counts = np.bincount(labels[part], minlength=10)
        assert counts.sum() == samples
        assert most in counts


def test_llt_of_the_paper() -> None:
    labels = balanced(10, 600)
    parts = llt(labels, 20, rng())
    dominating = [np.bincount(labels[part], minlength=10) for part in parts]
    assert all(counts.max() == 180 and counts.sum() == 200 for counts in dominating)
    holders = np.bincount([int(counts.argmax()) for counts in dominating], minlength=10)
    assert holders.tolist() == [2] * 10


@pytest.mark.parametrize(
    ("classes", "samples", "devices", "alpha"),
    [(10, 6_000, 50, 0.2), (10, 60_000, 100, 0.2), (47, 11_280, 50, 0.1), (10, 5_000, 50, 0.6)],
)
@pytest.mark.parametrize("seed", range(3))
def test_lda_of_hga_fl(classes: int, samples: int, devices: int, alpha: float, seed: int) -> None:
    """Tables 2 to 6: FashionMNIST, EMNIST and CIFAR-10 at the paper's shares."""
    labels = np.arange(samples) % classes
    parts = dirichlet(labels, devices, rng(seed), alpha)
    assert sum(map(len, parts)) == samples
    assert min(map(len, parts)) >= 1
    largest = [np.bincount(labels[part]).max() / len(part) for part in parts]
    assert np.mean(largest) > 2 / classes


@pytest.mark.parametrize(("classes", "samples", "each"), [(10, 60_000, 200), (47, 112_800, 100)])
def test_llt_of_hga_fl(classes: int, samples: int, each: int) -> None:
    """Fig. 3 and Table 7: 100 clients, one class is 90 % of each."""
    labels = np.arange(samples) % classes
    for part in llt(labels, 100, rng(), each):
        assert len(part) == each
        assert np.bincount(labels[part]).max() == 0.9 * each


@pytest.mark.parametrize(
    ("labels", "devices", "message"),
    [
        (balanced(10, 10), 5, "5 devices x 200 = 1000 samples, the data has 100"),
        (np.repeat([0, 1], [50, 950]), 2, "180 samples of the class number 0, the data has 50"),
        (np.zeros(1000, np.int64), 2, "ran out of samples of other classes"),
    ],
)
def test_llt_refuses(labels: Ints, devices: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        llt(labels, devices, rng())


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), seeds)
def test_natural_gives_each_device_one_owner(owners: list[int], seed: int) -> None:
    owner = np.array(owners)
    devices = len(np.unique(owner))
    assert_covers(natural(owner, devices, rng(seed)), len(owner))
    parts = natural(owner, max(1, devices - 1), rng(seed))
    chosen = [np.unique(owner[part]).tolist() for part in parts]
    assert all(len(one) == 1 for one in chosen)
    assert chosen == sorted(chosen)
    assert all(len(p) == np.sum(owner == one[0]) for p, one in zip(parts, chosen, strict=True))


def test_natural_with_too_few_owners() -> None:
    owner = np.array([0, 0, 0, 1, 2, 2])
    assert [part.tolist() for part in natural(owner, 2, rng(), 2)] == [[0, 1, 2], [4, 5]]
    with pytest.raises(UserError, match="3 devices, but only 2 natural owners with at least 2"):
        natural(owner, 3, rng(), 2)


@pytest.mark.parametrize("between", ["iid", "dirichlet"])
@pytest.mark.parametrize("within", ["iid", "dirichlet"])
@given(seed=seeds, num_groups=st.integers(1, 6))
@settings(max_examples=25)
def test_grouped_uses_every_sample_once(
    between: str, within: str, seed: int, num_groups: int
) -> None:
    labels = balanced(10, 300)
    groups = groups_of(20, num_groups)
    parts = grouped(labels, 20, rng(seed), groups, between, within, 0.5)  # type: ignore[arg-type]
    assert_covers(parts, 3000)
    assert all(len(part) > 0 for part in parts)


def distance(labels: Ints, parts: list[Ints]) -> float:
    """Mean over parts of the total variation between their labels and everyone's."""
    overall = np.bincount(labels) / len(labels)
    mixes = [np.bincount(labels[p], minlength=len(overall)) / len(p) for p in parts]
    return float(np.mean([np.abs(mix - overall).sum() / 2 for mix in mixes]))


@pytest.mark.parametrize(
    ("between", "within", "groups_differ", "devices_differ"),
    [
        ("iid", "iid", False, False),
        ("iid", "dirichlet", False, True),
        ("dirichlet", "iid", True, False),
    ],
)
def test_grouped_differs_where_it_should(
    between: str, within: str, groups_differ: bool, devices_differ: bool
) -> None:
    labels = balanced(10, 3000)
    groups = groups_of(100, 10)
    parts = grouped(labels, 100, rng(2), groups, between, within)  # type: ignore[arg-type]
    pools = [np.concatenate([parts[d] for d in range(100) if groups[d] == g]) for g in range(10)]
    assert (distance(labels, pools) > 0.4) == groups_differ
    inside = np.mean(
        [
            distance(labels[pool], [np.searchsorted(np.sort(pool), parts[d]) for d in (g, g + 10)])
            for g, pool in enumerate(np.sort(pool) for pool in pools)
        ]
    )
    assert (inside > 0.4) == devices_differ


def test_grouped_non_iid_at_both_levels_is_one_dirichlet() -> None:
    labels = balanced(10, 100)
    both = grouped(labels, 12, rng(4), groups_of(12, 3), "dirichlet", "dirichlet", 0.3)
    one = dirichlet(labels, 12, rng(4), 0.3)
    assert [part.tolist() for part in both] == [part.tolist() for part in one]


def test_larger_groups_get_more() -> None:
    groups = [7] * 9 + [3]
    parts = grouped(balanced(2, 500), 10, rng(), groups, "iid", "iid")
    assert [len(part) for part in parts] == [100] * 10
    parts = grouped(balanced(2, 500), 10, rng(), groups, "dirichlet", "iid", 1e4)
    np.testing.assert_allclose([len(part) for part in parts], 100, atol=5)


@given(seeds)
def test_disjoint_groups_share_no_class(seed: int) -> None:
    labels = balanced(10, 40)
    groups = groups_of(8, 2)
    parts = disjoint_groups(labels, 8, rng(seed), groups, 2)
    assert_covers(parts, 400)
    assert all(len(np.unique(labels[part])) == 2 for part in parts)
    seen = [{int(c) for d in range(g, 8, 2) for c in labels[parts[d]]} for g in (0, 1)]
    assert not seen[0] & seen[1]
