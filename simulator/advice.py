"""Where a scenario's parameters lie outside of what a paper's theory asks for.

A warning is not an error: the papers' own settings lie outside, too.
"""

from __future__ import annotations

from pathlib import Path

from algorithms.bounds import least_alpha, most_global_rate
from algorithms.global_rules import HgaGSection
from algorithms.sub_center import SDynSection
from algorithms.sync_time_hfl import SyncTimeSection
from algorithms.two_level import TwoLevelSection
from simulator.errors import UserError
from simulator.networks.drawn import DrawnNetwork, DrawnSection
from simulator.parts import FOREVER
from simulator.scenario import Scenario
from simulator.units import FlowId, NodeId
from topologies import Topology, load_topology

_STEPS = 1000
"""Global steps for which drawn delays are looked at."""


def warnings_of(scenario: Scenario, base: Path) -> list[str]:
    section = scenario.algorithm
    if isinstance(section, SyncTimeSection) and scenario.run.learning != "none":
        return _about_step(scenario)
    if not isinstance(section, TwoLevelSection):
        return []
    found = []
    if isinstance(section.cloud, HgaGSection):
        found += _about_rate(scenario, section.cloud, base)
    if isinstance(section.gateway, SDynSection) and scenario.run.learning != "none":
        found += _about_alpha(scenario, section.gateway, section.gateway_rounds)
    return found


def _about_rate(scenario: Scenario, cloud: HgaGSection, base: Path) -> list[str]:
    """Where delays are not drawn, zeta is twice Gamma, as the paper has it in Section 2."""
    topology = load_topology(scenario.topology, scenario.run.seed, base)
    buffer = min(cloud.buffer, len(topology.gateways))
    if isinstance(scenario.network, DrawnSection):
        network = DrawnNetwork.build(scenario.network, topology, scenario.run.seed, base)
        staleness, cached_age = _oldest(network, topology, buffer)
        because = f"the drawn delays' longest in {_STEPS} global steps"
    else:
        staleness = max(1.0, len(topology.gateways) / buffer)
        cached_age = 2 * staleness
        because = "M / K, if all sub-centers are equally fast"
    most = most_global_rate(staleness, cached_age)
    if cloud.rate <= most:
        return []
    return [
        f"algorithm.cloud.rate = {cloud.rate:g} is above {most:.3g}, HGA-FL's limit (68) for a "
        f"staleness of {staleness:g} global steps ({because}) and cached differences of "
        f"{cached_age:g}"
    ]


def _oldest(network: DrawnNetwork, topology: Topology, buffer: int) -> tuple[float, float]:
    """Gamma_max and zeta_max in global steps, at least 1, if all devices always answer."""
    now, epoch, staleness, cached_age = 0, 0, 1, 1
    starts, cached = dict.fromkeys(topology.gateways, 0), dict[NodeId, int]()
    flows: dict[FlowId, NodeId] = {}
    idle = list(topology.gateways)
    while epoch < _STEPS:
        flows |= {
            network.send(now, gateway, topology.cloud, 0): gateway for gateway in sorted(idle)
        }
        idle = []
        while len(idle) < buffer:
            done = network.advance(FOREVER)
            assert done is not None
            now = done.time
            idle.append(flows.pop(done.flow))
        for gateway in idle:
            staleness = max(staleness, epoch - starts[gateway])
            cached_age = max(cached_age, epoch - cached.get(gateway, epoch))
            cached[gateway], starts[gateway] = starts[gateway], epoch + 1
        epoch += 1
    return staleness, cached_age


def _about_alpha(scenario: Scenario, gateway: SDynSection, rounds: int) -> list[str]:
    try:
        smoothness, how = _smoothness(scenario)
    except UserError as error:
        return [f"algorithm.gateway.alpha is not compared with HGA-FL's limit (67): {error}"]
    least = least_alpha(smoothness, rounds)
    if gateway.alpha >= least:
        return []
    return [
        f"algorithm.gateway.alpha = {gateway.alpha:g} is below {least:.3g}, HGA-FL's limit (67) "
        f"for R = {rounds} and {how}"
    ]


def _about_step(scenario: Scenario) -> list[str]:
    try:
        smoothness, how = _smoothness(scenario)
    except UserError as error:
        return [f"training.learning_rate is not compared with sync-time HFL's limit 1 / L: {error}"]
    rate = scenario.training.learning_rate
    if rate * smoothness <= 1:
        return []
    return [
        f"training.learning_rate = {rate:g} is above {1 / smoothness:.3g}, the limit 1 / L of "
        f"sync-time HFL's Lemma 1 and theorems, for {how}"
    ]


def _smoothness(scenario: Scenario) -> tuple[float, str]:
    """L, and a few words about it."""
    from simulator.data.catalog import data_folder
    from simulator.data.dataset import load
    from simulator.smoothness import SAMPLES, estimate_smoothness

    smoothness = estimate_smoothness(scenario, load(scenario.data.name, data_folder()))
    how = f"L = {smoothness:.3g} (estimated from {SAMPLES} samples where training begins)"
    return smoothness, how
