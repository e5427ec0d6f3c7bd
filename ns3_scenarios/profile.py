"""Profiles of networks: measured by ns-3, fitted, kept.

From lone transfers come the times of every link; the constants of sharing
(``simulator.networks.cells``) are those that repeat the runs among others best.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ns3_scenarios.measure import IN_FLIGHT, Progress, Sample, Task, contending, measure, tasks_of
from ns3_scenarios.network import scene_of
from ns3_scenarios.section import ProfileSection, RadioSettings
from simulator.compiled import cache_folder
from simulator.errors import UserError
from simulator.folders import alone_in
from simulator.networks.cells import Contention
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.profile import Pair, Profile, ProfileNetwork
from simulator.networks.profile_file import load_profile, remedy, save_profile
from simulator.networks.traffic import keep_under_way
from simulator.units import SECOND, NodeId
from topologies import Tier, Topology, shipped_profiles

VERSION = 1
"""Of what is measured and how ns-3 is set up: a change makes all profiles old."""
BYTES = 1_600_000
_FIT_ON = 400
"""Transfers of each number in flight; more change the constants little."""


def key_of(topology: Topology, section: ProfileSection) -> str:
    """Of all that ns-3 is told, paces aside: they are no part of a measurement."""
    scene = scene_of(unpaced(topology), section.live(), 0, {})
    text = json.dumps([VERSION, scene], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def profile_path(key: str, nbytes: int) -> Path:
    """Where a profile lies that was measured here."""
    return cache_folder() / "profiles" / f"{key}-{nbytes:010d}.json"


def find_profile(topology: Topology, section: ProfileSection) -> Path:
    """The profile of a scenario that names none."""
    key = key_of(topology, section)
    if shipped := _shipped(key):
        return shipped[0]
    if measured := sorted((cache_folder() / "profiles").glob(f"{key}-*.json")):
        return measured[-1]  # of the largest size
    raise UserError(
        f"topology {topology.name!r} has not been measured with these [network] settings; "
        f"measure it once with: {remedy(topology, settings_of(section))}, or choose [network] "
        "kind = 'ns3'"
    )


def _shipped(key: str) -> list[Path]:
    return [p for p in shipped_profiles() if f'"key": "{key}"' in p.read_text(encoding="utf-8")]


def known_profile(
    topology: Topology, section: ProfileSection, nbytes: int, out: Path | None
) -> Path | None:
    """A good profile up to this size: at ``out``, shipped, or measured here before."""
    key = key_of(topology, section)
    for path in [*([out] if out else []), *_shipped(key), profile_path(key, nbytes)]:
        try:
            if load_profile(path, topology, key).sizes[-1] == nbytes:
                return path
        except UserError:
            continue  # there is none, or a damaged one
    return None


def settings_of(section: ProfileSection) -> list[str]:
    """KEY=VALUE of all that ns-3 is told and that is not as by default."""
    given = section.model_dump(include=set(RadioSettings.model_fields), exclude_defaults=True)
    return list(_assignments(given))


def _assignments(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _assignments(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}={value if isinstance(value, str) else json.dumps(value)}"


def read_profile(path: Path, topology: Topology, section: ProfileSection) -> Profile:
    return load_profile(path, topology, key_of(topology, section), settings_of(section))


def build_profile_network(
    topology: Topology, section: ProfileSection, seed: int, base: Path
) -> ProfileNetwork:
    path = find_profile(topology, section) if section.path is None else base / section.path
    profile = read_profile(path, topology, section)
    return profile_network(topology, profile, section, seed)


def profile_network(
    topology: Topology, profile: Profile, section: ProfileSection, seed: int
) -> ProfileNetwork:
    sigma = profile.noise_sigma if section.noise_sigma is None else section.noise_sigma
    noisy = NoisySection(noise_sigma=sigma, loss_probability=section.loss_probability)
    return ProfileNetwork(topology, profile, Noise(noisy, seed))


def sizes_for(nbytes: int) -> tuple[int, ...]:
    """Close together where TCP's first windows make steps."""
    return tuple(nbytes // part for part in (160, 80, 32, 8, 1))


def work_bytes(topology: Topology, nbytes: int) -> int:
    """How many bytes a measurement will send: the length of its progress bar."""
    tasks = tasks_of(topology, sizes_for(nbytes))
    return sum(size for task in tasks for *_, size in task.orders)


def make_profile(
    topology: Topology,
    section: ProfileSection,
    nbytes: int,
    workers: int,
    progress: Progress,
    out: Path | None = None,
) -> Path:
    """Measure what has not been measured yet, fit, and write the profile."""
    key = key_of(topology, section)
    path = profile_path(key, nbytes) if out is None else out
    path.parent.mkdir(parents=True, exist_ok=True)
    sizes, live = sizes_for(nbytes), section.live()
    folder = cache_folder() / "profiles" / f"{key}-{nbytes}"
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder, "measuring this network"):
        samples = measure(topology, live, tasks_of(topology, sizes), folder, workers, progress)
        profile = fitted(topology, sizes, contending(topology, live), samples)
        save_profile(path, profile, topology, key)
        shutil.rmtree(folder)
    return path


def fitted(
    topology: Topology,
    sizes: tuple[int, ...],
    channels: dict[NodeId, NodeId],
    samples: dict[Task, list[Sample]],
) -> Profile:
    times: dict[Pair, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for task, found in samples.items():
        for sample in found if task.is_alone else ():
            times[sample.src, sample.dst][sample.nbytes].append(sample.seconds)
    up = [by for (src, _), by in times.items() if topology.nodes[src].tier is Tier.DEVICE]
    waits = [by[sizes[0]].pop(0) - by[sizes[0]][0] for by in up]
    repeated = [by[sizes[-2]] for by in times.values()]
    profile = Profile(
        sizes=sizes,
        alone_s={pair: _rising(mean(by[size]) for size in sizes) for pair, by in times.items()},
        channels=channels,
        contention=Contention(),
        association_s=mean(waits),
        # A ratio of two has the noise of both, twice the variance of one. Of the largest size:
        # the noise of independent parts falls with the root of the size.
        noise_sigma=_spread([np.log(a / b) for a, b in repeated])
        * float(np.sqrt(sizes[-2] / sizes[-1] / 2)),
    )
    fit = fit_contention(topology, profile, samples)
    return replace(profile, contention=replace(fit, closing_s=_closing_s(profile, samples)))


def _rising(times: Iterable[float]) -> tuple[float, ...]:
    """Sizes that differ little may come out the wrong way round, by noise."""
    return tuple(accumulate(times, max))


def _closing_s(profile: Profile, samples: dict[Task, list[Sample]]) -> float:
    """How much longer a transfer takes at the heels of another."""
    longer = [
        sample.seconds - profile.seconds((sample.src, sample.dst), sample.nbytes)
        for task, found in samples.items()
        if task.in_flight == 1 and not task.is_alone
        for before, sample in pairwise(found)
        if {before.src, before.dst} == {sample.src, sample.dst}  # else a device that associates
    ]
    return max(0.0, median(longer))


def _spread(found: list[float]) -> float:
    """A standard deviation that a few outliers do not change."""
    values = np.array(found)
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def fit_contention(
    topology: Topology, profile: Profile, samples: dict[Task, list[Sample]]
) -> Contention:
    """The constants with which the runs among others come out as ns-3 had them."""
    runs = [run for n in IN_FLIGHT[1:] for run in _some_runs(samples, n)]
    bare = unpaced(topology)
    scale, lowest = np.array(list(_FITTED.values())).T
    start = np.array([getattr(profile.contention, name) for name in _FITTED]) / scale

    def constants(scaled: np.ndarray) -> Contention:
        values = np.maximum(scaled * scale, lowest)
        return Contention(**dict(zip(_FITTED, map(float, values), strict=True)))

    def error(scaled: np.ndarray) -> float:
        trial = replace(profile, contention=constants(scaled), association_s=0.0)
        total = 0.0
        for task, truth in runs:
            network = ProfileNetwork(bare, trial, Noise(NoisySection(), 0))
            times = np.array(keep_under_way(network, task.orders, task.in_flight)).T
            ratio = (times[1] - times[0]) / SECOND / [sample.seconds for sample in truth]
            total += float(np.abs(np.log(ratio)).mean())
        return total

    options = {"maxfev": _EVALUATIONS, "initial_simplex": _simplex(start)}
    return constants(minimize(error, start, method="Nelder-Mead", options=options).x)


_EVALUATIONS = 250
_FITTED = {
    "access_point": (0.2, 0.0),
    "rate_fairness": (0.5, 0.0),
    "uplink": (1.0, 0.1),
    "downlink_cost": (0.07, -0.2),
    "uplink_cost": (0.07, -0.2),
    "round_trip_s": (0.005, 1e-4),
    "downlink_queue_s": (0.03, 0.0),
    "uplink_queue_s": (0.01, 0.0),
    "window_growth": (1.0, 1.2),
}
"""The constants that are fitted: the size of a step, and the lowest value."""


def _simplex(start: np.ndarray) -> np.ndarray:
    return np.vstack([start, start + 0.5 * np.eye(len(start))])


def _some_runs(
    samples: dict[Task, list[Sample]], in_flight: int
) -> Iterator[tuple[Task, list[Sample]]]:
    """Whole runs, of some gateways and devices, in which nothing was lost."""
    count = 0
    for task, found in samples.items():
        whole = all(sample.arrived for sample in found)
        if whole and task.in_flight == in_flight and count < _FIT_ON:
            count += len(found)
            yield task, found


def unpaced(topology: Topology) -> Topology:
    """With applications that send as fast as they can."""
    radios = tuple(replace(radio, rate_limits_bps={}) for radio in topology.radios)
    return replace(topology, radios=radios)
