"""How near the cheaper networks come to live ns-3, on the same traffic.

The yardstick is ns-3 itself with another seed: nothing can be expected to come nearer to a run of
ns-3 than another run of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp

from ns3_scenarios.network import Ns3Network
from ns3_scenarios.profile import profile_network
from ns3_scenarios.section import Ns3Section, ProfileSection
from simulator.errors import UserError
from simulator.network import Network
from simulator.networks.flow import FlowNetwork
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.profile import Profile
from simulator.networks.table import TableNetwork
from simulator.networks.traffic import Send, play
from simulator.rng import Stream, generator
from simulator.units import SECOND, NodeId, to_ns
from topologies import Topology

Progress = Callable[[int], None]
LOADS = {"light": 0.1, "medium": 0.3, "heavy": 0.9}
"""The share of each channel's time that is asked for."""
AGAIN = "ns3 again"
"""Live ns-3 with another seed."""
SHARES = (1 / 8, 1.0)
"""Of the largest size that was measured."""


@dataclass(frozen=True)
class Played:
    """One network's times for one traffic."""

    seconds: np.ndarray
    """In the order of sends; nan: it was lost."""
    makespan_s: float
    """Until the last that arrived."""
    cpu_s: float

    @property
    def arrived(self) -> np.ndarray:
        """The seconds of those that were not lost."""
        found: np.ndarray = self.seconds[~np.isnan(self.seconds)]
        return found

    @property
    def lost(self) -> int:
        return len(self.seconds) - len(self.arrived)


@dataclass(frozen=True)
class Fidelity:
    """One network against all runs of live ns-3; of lost transfers there is but their number."""

    traffic: str
    network: str
    transfers: int
    lost: float
    """Of these; for live ns-3 the mean over its runs."""
    mean_bias: float
    makespan_error: float
    median_error: float
    p95_error: float
    ks: float
    transfers_per_cpu_s: float
    sim_s_per_cpu_s: float


def poisson(
    topology: Topology, profile: Profile, load: float, count: int, home: dict[NodeId, NodeId]
) -> list[Send]:
    """Arrivals at every gateway; any of its devices, either way, one of two sizes.

    Devices with a pace send in proportion to it, and no more than ``load`` of it.
    """
    sends = []
    for gateway in topology.gateways:
        devices = [d for d in topology.devices if home[d] == gateway]
        if not devices:
            continue
        rng = generator(0, Stream.NETWORK, gateway, round(100 * load))
        paces = np.array([topology.rate_limit_bps(d) or np.inf for d in devices])
        paced = bool(np.isfinite(paces).all())
        shares = paces / paces.sum() if paced else None
        orders = []
        for _ in range(count):
            device, up = int(rng.choice(devices, p=shares)), bool(rng.random() < 0.5)
            pair = (device, gateway) if up else (gateway, device)
            orders.append((*pair, int(profile.sizes[-1] * rng.choice(SHARES))))
        work = np.mean([profile.seconds((src, dst), nbytes) for src, dst, nbytes in orders])
        # Those that share a channel ask for their parts of its load.
        sharing = sum(profile.channels[g] == profile.channels[gateway] for g in topology.gateways)
        at_pace = 8 * np.mean([nbytes for *_, nbytes in orders]) / paces.sum()
        gap = max(work * sharing, at_pace) / load
        times = np.cumsum(rng.exponential(gap, count))
        sends += [Send(to_ns(t), *order) for t, order in zip(times, orders, strict=True)]
    return sorted(sends)


def recorded(folder: Path, topology: Topology, most: int) -> list[Send]:
    """The first transfers of a run, as it sent them."""
    try:
        table = pd.read_parquet(folder / "transfers.parquet").sort_values("flow").head(most)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: holds no finished run ({error})") from None
    if unknown := set(table["src"]) - {node.name for node in topology.nodes}:
        raise UserError(
            f"{folder}: a run on another topology ({min(unknown)!r} is not in {topology.name!r})"
        )
    columns = [table[name].tolist() for name in ("start_s", "src", "dst", "bytes")]
    return [
        Send(to_ns(start_s), topology.id_of(src), topology.id_of(dst), nbytes)
        for start_s, src, dst, nbytes in zip(*columns, strict=True)
    ]


def nearest(topology: Topology, profile: Profile) -> dict[NodeId, NodeId]:
    size = profile.sizes[-1]
    return {
        d: min(topology.reach(d), key=lambda g: profile.seconds((d, g), size))
        for d in topology.devices
    }


def compare(
    topology: Topology,
    profile: Profile,
    section: ProfileSection,
    traffics: dict[str, list[Send]],
    seeds: int,
    progress: Progress,
) -> Iterator[tuple[list[Fidelity], dict[str, Played]]]:
    """Traffic by traffic: the figures of every network, and what each of them did."""
    for name, sends in traffics.items():
        live = [
            _play_live(topology, section.live(), seed, sends, progress) for seed in range(seeds)
        ]
        ours = {
            "profile": _play(profile_network(topology, profile, section, 1), sends),
            "flow": _play(FlowNetwork(topology, Noise(NoisySection(), 0)), sends),
            "table": _play(_looked_up(topology, profile), sends),
        }
        rows = [_against_itself(name, live)]
        rows += [_fidelity(name, kind, played, live) for kind, played in ours.items()]
        yield rows, {"ns3": live[0], AGAIN: live[1]} | ours


def _looked_up(topology: Topology, profile: Profile) -> TableNetwork:
    """A delay for each pair, that of the mean size: what one would take from a table."""
    nbytes = int(profile.sizes[-1] * np.mean(SHARES))
    delays = {}
    for src, dst in profile.alone_s:
        limits = [topology.rate_limit_bps(n) for n in (src, dst) if n in topology.devices]
        paced = [8 * nbytes / limit for limit in limits if limit]
        delays[src, dst] = to_ns(max(profile.seconds((src, dst), nbytes), *paced, 0.0))
    return TableNetwork(topology, delays, Noise(NoisySection(), 0), "the profile")


def _play_live(
    topology: Topology, section: Ns3Section, seed: int, sends: list[Send], progress: Progress
) -> Played:
    network = Ns3Network(topology, section, seed)
    try:
        before = network.cpu_s()
        played = _play(network, sends, progress)
        return replace(played, cpu_s=played.cpu_s + network.cpu_s() - before)
    finally:
        network.close()


def _play(network: Network, sends: list[Send], progress: Progress | None = None) -> Played:
    began = time.process_time()
    ended = play(network, sends, progress)
    spent = time.process_time() - began
    seconds = [
        math.nan if done.lost else (done.time - send.time) / SECOND
        for done, send in zip(ended, sends, strict=True)
    ]
    makespan = max((done.time for done in ended if not done.lost), default=0) / SECOND
    return Played(np.array(seconds), makespan, max(spent, 1e-6))


def _against_itself(traffic: str, live: list[Played]) -> Fidelity:
    pairs = list(permutations(live, 2))
    errors = np.concatenate([_errors(a, b) for a, b in pairs])
    means = [_mean(played.arrived) for played in live]
    makespans = [played.makespan_s for played in live]
    return Fidelity(
        traffic=traffic,
        network=AGAIN,
        transfers=len(live[0].seconds),
        lost=float(np.mean([played.lost for played in live])),
        mean_bias=float(np.std(means, ddof=1) / np.mean(means)),
        makespan_error=float(np.std(makespans, ddof=1) / np.mean(makespans)),
        median_error=_quantile(errors, 0.5),
        p95_error=_quantile(errors, 0.95),
        ks=float(np.mean([_distance(a.arrived, b.arrived) for a, b in pairs])),
        transfers_per_cpu_s=_transfers_per_cpu_s(live),
        sim_s_per_cpu_s=_sim_s_per_cpu_s(live),
    )


def _fidelity(traffic: str, kind: str, played: Played, live: list[Played]) -> Fidelity:
    errors = np.concatenate([_errors(played, truth) for truth in live])
    mean = np.mean([_mean(truth.arrived) for truth in live])
    makespan = np.mean([truth.makespan_s for truth in live])
    together = np.concatenate([truth.arrived for truth in live])
    return Fidelity(
        traffic=traffic,
        network=kind,
        transfers=len(played.seconds),
        lost=played.lost,
        mean_bias=float(_mean(played.arrived) / mean - 1),
        makespan_error=float(played.makespan_s / makespan - 1),
        median_error=_quantile(errors, 0.5),
        p95_error=_quantile(errors, 0.95),
        ks=_distance(played.arrived, together),
        transfers_per_cpu_s=_transfers_per_cpu_s([played]),
        sim_s_per_cpu_s=_sim_s_per_cpu_s([played]),
    )


def _errors(played: Played, truth: Played) -> np.ndarray:
    """Of those that arrive on both."""
    errors = np.abs(played.seconds - truth.seconds) / truth.seconds
    known: np.ndarray = errors[~np.isnan(errors)]
    return known


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _quantile(values: np.ndarray, share: float) -> float:
    return float(np.quantile(values, share)) if len(values) else math.nan


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(ks_2samp(a, b, method="asymp").statistic) if len(a) and len(b) else math.nan


def _transfers_per_cpu_s(runs: list[Played]) -> float:
    return sum(len(run.seconds) for run in runs) / sum(run.cpu_s for run in runs)


def _sim_s_per_cpu_s(runs: list[Played]) -> float:
    return sum(run.makespan_s for run in runs) / sum(run.cpu_s for run in runs)


def goals(rows: list[Fidelity]) -> dict[str, bool]:
    """What a profile is to reach on a traffic, given ns-3 against itself."""
    yardstick, profile = rows[0], next(row for row in rows if row.network == "profile")
    return {
        "mean within 10 %": abs(profile.mean_bias) <= 0.1,
        "makespan within 5 %": abs(profile.makespan_error) <= 0.05,
        "median error <= 1.5 x ns-3's": profile.median_error <= 1.5 * yardstick.median_error,
        "95 % error <= 1.5 x ns-3's": profile.p95_error <= 1.5 * yardstick.p95_error,
        "KS <= 0.1": profile.ks <= 0.1,
        "50 x as fast": profile.transfers_per_cpu_s >= 50 * yardstick.transfers_per_cpu_s,
    }
