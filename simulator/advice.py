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
from simulator.networks.drawn import DrawnSection
from simulator.scenario import Scenario
from topologies import load_topology


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
    """In the paper zeta is twice Gamma (Section 2), and Gamma_max is in units of drawn delays."""
    if isinstance(scenario.network, DrawnSection):
        staleness, because = float(scenario.network.gamma_max), "network.gamma_max"
    else:
        topology = load_topology(scenario.topology, scenario.run.seed, base)
        staleness = max(1.0, len(topology.gateways) / cloud.buffer)
        because = "M / K global steps, if all sub-centers are equally fast"
    most = most_global_rate(staleness, 2 * staleness)
    if cloud.rate <= most:
        return []
    return [
        f"algorithm.cloud.rate = {cloud.rate:g} is above {most:.3g}, HGA-FL's limit (68) for a "
        f"staleness of {staleness:g} ({because}) and cached differences twice as old"
    ]


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
