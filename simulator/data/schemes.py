"""Ways to divide samples among devices: sorted indices per device, no sample on two devices.

The functions are pure; the same generator state gives the same partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from simulator.data.samples import Array, Ints
from simulator.errors import UserError

Parts = list[Ints]
Mix = Literal["iid", "dirichlet"]

MAX_DRAWS = 100


def iid(labels: Array, num_devices: int, rng: np.random.Generator) -> Parts:
    """Every sample once, sizes equal (± 1)."""
    return _proportional(len(labels), np.ones(num_devices), rng)


def classes_per_device(labels: Ints, num_devices: int, rng: np.random.Generator, k: int) -> Parts:
    """k classes on each device, every class on equally many devices (± 1), shared evenly there.

    Every sample once, except those of classes that no device has (only when devices * k is
    below the number of classes). A class with fewer samples than devices leaves some without.
    """
    pools = _pools(labels, rng)
    if k > len(pools):
        raise UserError(f"{k} classes per device, but the data has {len(pools)}; use a smaller k")
    used = np.zeros(len(pools), int)
    holders: list[list[int]] = [[] for _ in pools]
    for device in range(num_devices):
        hand: list[int] = []
        for _ in range(k):
            hand.append(_deal(used, hand, rng))
            holders[hand[-1]].append(device)
    shares: list[Parts] = [[] for _ in range(num_devices)]
    for pool, devices in zip(pools, holders, strict=True):
        if devices:
            pieces = np.array_split(pool, len(devices))  # the first are larger by one
            for device, piece in zip(rng.permutation(devices), pieces, strict=True):
                shares[device].append(piece)
    return [_join(share) for share in shares]


def primary_secondary(
    labels: Ints, num_devices: int, rng: np.random.Generator, share: float = 0.8
) -> Parts:
    """``share`` of one class and the rest of another on each device, as many as the scarcest
    class allows; all devices have the same number and what is left over stays unused."""
    pools = _pools(labels, rng)
    if len(pools) < 2:
        raise UserError("a primary and a secondary class need data with at least 2 classes")
    primaries, secondaries = np.zeros(len(pools), int), np.zeros(len(pools), int)
    pairs = []
    for _ in range(num_devices):
        primary = _deal(primaries, [], rng)
        pairs.append((primary, _deal(secondaries, [primary], rng)))
    supply = np.array([len(pool) for pool in pools])
    total = len(labels) // num_devices
    most = round(share * total)
    while np.any(primaries * most + secondaries * (total - most) > supply):
        total -= 1
        most = round(share * total)
    stacks = [list(pool) for pool in pools]
    return [
        _join([_take(stacks[primary], most), _take(stacks[secondary], total - most)])
        for primary, secondary in pairs
    ]


def dirichlet(
    labels: Ints, num_devices: int, rng: np.random.Generator, alpha: float, min_samples: int = 1
) -> Parts:
    """LDA: each device draws a mix of classes q ~ Dir(alpha); every sample once.

    The samples of a class are divided in proportion to the devices' q for it, so sizes differ.
    """
    return _dirichlet(labels, np.ones(num_devices, int), rng, alpha, min_samples)


def llt(
    labels: Ints,
    num_devices: int,
    rng: np.random.Generator,
    samples_per_device: int = 200,
    share: float = 0.9,
) -> Parts:
    """``samples_per_device`` on each device, ``share`` of them of one class, the rest of others.

    Dominating classes are dealt evenly; the others come at random from what is left.
    """
    needed = num_devices * samples_per_device
    if needed > len(labels):
        raise UserError(
            f"LLT needs {num_devices} devices x {samples_per_device} = {needed} samples, "
            f"the data has {len(labels)}; use fewer devices or samples per device"
        )
    most = max(1, round(share * samples_per_device))
    pools = [list(pool) for pool in _pools(labels, rng)]
    used = np.zeros(len(pools), int)
    dominating = [_deal(used, [], rng) for _ in range(num_devices)]
    _check_llt(used * most, pools)
    mains = [_take(pools[label], most) for label in dominating]
    rest = rng.permutation(np.concatenate([np.array(pool, np.int64) for pool in pools]))
    parts = []
    for main in mains:
        others = np.flatnonzero(labels[rest] != labels[main[0]])[: samples_per_device - most]
        if len(main) + len(others) < samples_per_device:
            raise UserError(
                f"LLT ran out of samples of other classes for {num_devices} devices x "
                f"{samples_per_device}; use fewer devices or samples per device"
            )
        parts.append(_join([main, rest[others]]))
        rest = np.delete(rest, others)
    return parts


def _check_llt(needed: Ints, pools: list[list[int]]) -> None:
    short = next((c for c, pool in enumerate(pools) if needed[c] > len(pool)), None)
    if short is not None:
        raise UserError(
            f"LLT needs {needed[short]} samples of the class number {short}, the data has "
            f"{len(pools[short])}; use fewer devices, fewer samples per device or a smaller share"
        )


def natural(owner: Ints, num_devices: int, rng: np.random.Generator, min_samples: int = 1) -> Parts:
    """One owner's samples on each device; with more owners than devices, owners at random."""
    owners, counts = np.unique(owner, return_counts=True)
    owners = owners[counts >= min_samples]
    if len(owners) < num_devices:
        raise UserError(
            f"{num_devices} devices, but only {len(owners)} natural owners with at least "
            f"{min_samples} training samples; use fewer devices or a smaller min_samples"
        )
    chosen = np.sort(rng.choice(owners, num_devices, replace=False))
    return [np.flatnonzero(owner == one) for one in chosen]


def grouped(
    labels: Array,
    num_devices: int,
    rng: np.random.Generator,
    groups: Sequence[int],
    between: Mix,
    within: Mix,
    alpha: float = 0.1,
    min_samples: int = 1,
) -> Parts:
    """The four schemes of the star/ring paper (003, section 5); every sample once.

    A group's share grows with its number of devices. Dirichlet at both levels is, as printed
    there, one Dirichlet partition over all devices, whatever their groups.
    """
    if between == within == "dirichlet":
        return dirichlet(labels, num_devices, rng, alpha, min_samples)
    _, index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if between == "dirichlet":
        pools = _dirichlet(labels, sizes, rng, alpha, min_samples)
    else:
        pools = _proportional(len(labels), sizes, rng)
    parts: dict[int, Ints] = {}
    for group, pool in enumerate(pools):
        members = np.flatnonzero(index == group).tolist()
        if within == "dirichlet":
            inner = dirichlet(labels[pool], len(members), rng, alpha, min_samples)
        else:
            inner = iid(pool, len(members), rng)
        parts |= {device: pool[part] for device, part in zip(members, inner, strict=True)}
    return [parts[device] for device in range(num_devices)]


def disjoint_groups(
    labels: Ints, num_devices: int, rng: np.random.Generator, groups: Sequence[int], k: int
) -> Parts:
    """The classes are dealt to the groups, then ``classes_per_device`` in each (002, Fig. 5)."""
    _, index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    classes = rng.permutation(np.unique(labels))
    parts: dict[int, Ints] = {}
    for group, own in enumerate(np.array_split(classes, len(sizes))):
        members = np.flatnonzero(index == group).tolist()
        pool = np.flatnonzero(np.isin(labels, own))
        inner = classes_per_device(labels[pool], len(members), rng, k)
        parts |= {device: pool[part] for device, part in zip(members, inner, strict=True)}
    return [parts[device] for device in range(num_devices)]


def _pools(labels: Ints, rng: np.random.Generator) -> Parts:
    """The samples of each class that occurs, shuffled."""
    return [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]


def _deal(used: Ints, avoid: list[int], rng: np.random.Generator) -> int:
    """One of the classes used least so far, outside ``avoid``; counts it as used."""
    cost = used + rng.random(len(used))
    cost[avoid] = np.inf
    choice = int(np.argmin(cost))
    used[choice] += 1
    return choice


def _take(stack: list[int], count: int) -> Ints:
    taken = np.array(stack[:count], np.int64)
    del stack[:count]
    return taken


def _join(pieces: Parts) -> Ints:
    return np.sort(np.concatenate([*pieces, np.empty(0, np.int64)]))


def _proportional(num_samples: int, weights: Array, rng: np.random.Generator) -> Parts:
    cuts = np.rint(np.cumsum(weights) / np.sum(weights) * num_samples).astype(int)[:-1]
    return [np.sort(piece) for piece in np.split(rng.permutation(num_samples), cuts)]


def _dirichlet(
    labels: Ints, weights: Ints, rng: np.random.Generator, alpha: float, min_samples: int
) -> Parts:
    """Bins with Dirichlet mixes, sized by ``weights``: bin b gets at least weights[b] * min."""
    pools = _pools(labels, rng)
    parts: Parts = []
    for _ in range(MAX_DRAWS):
        mix = rng.dirichlet(np.full(len(pools), alpha), len(weights)) * weights[:, np.newaxis]
        mix += np.finfo(float).tiny  # a class that nobody drew is divided evenly
        ends = np.cumsum(mix / mix.sum(axis=0), axis=0)
        split = [
            np.split(pool, np.rint(ends[:-1, c] * len(pool)).astype(int))
            for c, pool in enumerate(pools)
        ]
        parts = [_join([pieces[b] for pieces in split]) for b in range(len(weights))]
        if all(len(part) >= weights[b] * min_samples for b, part in enumerate(parts)):
            return parts
    raise UserError(
        f"Dirichlet({alpha}): after {MAX_DRAWS} draws a share of {len(labels)} samples still has "
        f"only {min(len(part) for part in parts)} (min_samples {min_samples}, {len(weights)} "
        "shares); use a larger alpha, fewer devices or a smaller min_samples"
    )
