"""The networks a scenario can choose from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.network import Network
from simulator.networks.drawn import DrawnNetwork, DrawnSection
from simulator.networks.flow import FlowNetwork, FlowSection
from simulator.networks.linear import LinearDelayNetwork, LinearSection
from simulator.networks.table import ReplaySection, TableNetwork, TableSection
from topologies import Topology

NetworkSection = Annotated[
    DrawnSection | FlowSection | LinearSection | ReplaySection | TableSection,
    Field(discriminator="kind"),
]

NETWORKS: dict[str, type[DrawnNetwork | FlowNetwork | LinearDelayNetwork | TableNetwork]] = {
    "drawn": DrawnNetwork,
    "flow": FlowNetwork,
    "linear": LinearDelayNetwork,
    "replay": TableNetwork,
    "table": TableNetwork,
}


def build_network(section: NetworkSection, topology: Topology, seed: int, base: Path) -> Network:
    """The network a scenario asks for; its relative paths start at ``base``."""
    build: Callable[..., Network] = NETWORKS[section.kind].build
    return build(section, topology, seed, base)
