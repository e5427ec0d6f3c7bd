"""Drawn delays in units of the mean time of a mini-batch, with a bound: HGA-FL's experiments.

Xie et al., *Hierarchical Global Asynchronous Federated Learning Across Multi-Center*, ACML 2024,
Sections 4.1 and G. What a sub-center takes from a global model to its upload, its R rounds and all
training included, is a whole number of units t^, drawn evenly from 1 to Gamma_max. It is put on
the way from gateway to cloud, and everything else takes no time; leave [compute] at 0 s.

The paper does not say how delays are drawn. Sync Avg's times in its Table 3, 53074, 55304 and 3568
t^ for 118, 123 and 7 global steps, are all 446 t^ times one step more: so the slowest sub-center is
always equally slow, and delays are drawn once. That they are drawn evenly is our guess; the longest
of 8 would then be 445 in the mean. ``drawn = "upload"`` draws anew for every upload.

Left out: sizes of transfers, other traffic, devices' differences, and every pair but
gateway-device and cloud-gateway.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from simulator.errors import UserError
from simulator.network import Completion
from simulator.networks.arrivals import Arrivals
from simulator.rng import Stream, generator
from simulator.section import Section
from simulator.units import FlowId, NodeId, Time, to_ns
from topologies import Topology


class DrawnSection(Section):
    """Uploads take drawn times, all else none, as in HGA-FL's experiments."""

    kind: Literal["drawn"] = "drawn"
    gamma_max: int = Field(500, ge=1, le=10**6)
    """Gamma_max: the most units that a sub-center takes for an upload."""
    unit_s: float = Field(1.0, gt=0, le=1000)
    """t^ in seconds: the mean time of one mini-batch over all devices."""
    drawn: Literal["run", "upload"] = "run"
    """A gateway has one delay for the whole run, or draws one for every upload."""


class DrawnNetwork:
    """A delay for each upload of a gateway; all other transfers arrive as they are sent."""

    def __init__(self, topology: Topology, section: DrawnSection, seed: int) -> None:
        self._topology = topology
        self._section = section
        self._seed = seed
        self._arrivals = Arrivals()
        self._sent = 0
        self._uploads = dict.fromkeys(topology.gateways, 0)
        pairs = [(topology.cloud, gateway) for gateway in topology.gateways]
        pairs += [(gateway, dev) for dev in topology.devices for gateway in topology.reach(dev)]
        self._pairs = frozenset(pairs)

    @classmethod
    def build(
        cls, section: DrawnSection, topology: Topology, seed: int, base: Path
    ) -> DrawnNetwork:
        return cls(topology, section, seed)

    def send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        delay = self._delay(src, dst)
        if dst == self._topology.cloud:
            self._uploads[src] += 1
        flow = self._sent
        self._sent += 1
        self._arrivals.push(now + delay, flow)
        return flow

    def advance(self, limit: Time) -> Completion | None:
        return self._arrivals.pop(limit)

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        return self._delay(src, dst)

    def close(self) -> None:
        pass

    def save(self) -> dict[str, object]:
        uploads = [[gateway, count] for gateway, count in self._uploads.items()]
        return {
            "seed": self._seed,
            "sent": self._sent,
            "arrivals": self._arrivals.save(),
            "uploads": uploads,
        }

    def load(self, state: dict[str, Any]) -> None:
        self._seed, self._sent = state["seed"], state["sent"]
        self._arrivals.load(state["arrivals"])
        self._uploads = dict(state["uploads"])

    def _delay(self, src: NodeId, dst: NodeId) -> Time:
        if (src, dst) not in self._pairs and (dst, src) not in self._pairs:
            names = [self._topology.nodes[node].name for node in (src, dst)]
            raise UserError(
                f"the drawn network cannot carry {names[0]!r} to {names[1]!r}: it knows only "
                "cloud-gateway and gateway-device links; use another network for this algorithm"
            )
        if dst != self._topology.cloud:
            return 0
        count = self._uploads[src] if self._section.drawn == "upload" else 0
        rng = generator(self._seed, Stream.NETWORK, src, count)
        units = int(rng.integers(1, self._section.gamma_max, endpoint=True))
        return to_ns(units * self._section.unit_s)
