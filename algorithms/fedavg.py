"""Hierarchical FedAvg: synchronous at both tiers.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*,
AISTATS 2017; in three tiers: Liu et al., *Client-Edge-Cloud Hierarchical Federated Learning*,
ICC 2020. With ``proximal`` > 0 the devices run FedProx (Li et al., MLSys 2020).

Cloud round: the cloud sends its model to every gateway that has devices. Each gateway runs R
rounds (send to the selected devices, wait for all of them, mean by samples) and sends its
model up; the cloud waits for all of them and takes the mean by samples.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from algorithms.rounds import GatewayRounds, SampleMean
from algorithms.sync_cloud import SyncCloud
from simulator.section import LONGEST_S, SHORTEST_S, Section


class FedAvgSection(Section):
    name: Literal["fedavg"] = "fedavg"
    gateway_rounds: int = Field(1, ge=1)
    """R: rounds inside a gateway per cloud round."""
    proximal: float = Field(0.0, ge=0)
    """mu of FedProx; 0 is FedAvg."""
    gateway_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """A gateway closes its round after this time with what has come; unset: it waits."""
    cloud_timeout_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """The same for the cloud's round."""


def fedavg(params: FedAvgSection) -> SyncCloud:
    rule = SampleMean(params.proximal)
    lower = GatewayRounds(params.gateway_rounds, rule, params.gateway_timeout_s)
    return SyncCloud(lower, params.cloud_timeout_s)
