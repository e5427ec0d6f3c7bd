"""RFL-HA: synchronous gateways under an asynchronous cloud.

Wang et al., *Resource-Efficient Federated Learning with Hierarchical Aggregation in Edge
Computing*, INFOCOM 2021, as Async-HFL compares with it (Yu et al., IoTDI 2023, Section 6.3). A
gateway goes through R synchronous rounds with its devices and uploads; the cloud mixes that in,
weighted by its staleness as in Async-HFL, Eq. (5), and answers that gateway alone. Which devices
share a gateway is for its re-clustering heuristic, ``[association] name = "rfl-ha"``.

That is FedAsync's rule over FedAvg's in ``algorithms.two_level``, where is said what happens to
gateways without devices, and to what is lost. As in Async-HFL, the freshest possible upload has
staleness 1.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from algorithms.global_rules import FedAsyncG, FedAsyncGSection
from algorithms.rounds import GatewayRounds, SampleMean
from algorithms.staleness import PolynomialStaleness, Staleness
from algorithms.two_level import TwoLevel
from simulator.section import LONGEST_S, SHORTEST_S, Section


class RflHaSection(Section):
    name: Literal["rfl-ha"] = "rfl-ha"
    alpha: float = Field(0.6, gt=0, le=1)
    """Weight of a gateway's model at the cloud, before staleness."""
    staleness: Staleness = PolynomialStaleness()
    """How the weight of an upload falls with the cloud epochs since its start was downloaded."""
    gateway_rounds: int = Field(5, ge=1)
    """R: rounds inside a gateway per upload."""
    proximal: float = Field(0.0, ge=0)
    """rho: pull of local training towards the downloaded model."""
    gateway_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A gateway closes its round after this time with what has come; unset: it waits."""


def rfl_ha(params: RflHaSection) -> TwoLevel:
    rule = FedAsyncG(FedAsyncGSection(alpha=params.alpha, staleness=params.staleness))
    devices = SampleMean(params.proximal)
    lower = GatewayRounds(params.gateway_rounds, devices, params.gateway_timeout_s)
    return TwoLevel(rule, lower, fresh_staleness=1)
