"""The linear delay model of "Delay Sensitive Hierarchical Federated Learning" (2024), section IV.

A local iteration of a group of n clients lasts d n + b + Exp(mean e n + f), training and
aggregation included; a global round of n groups likewise, with the _g parameters. Groups may have
parameters of their own, as in its Fig. 10. To give one draw
an iteration, a downlink takes no time, all that a parent sends down at one instant is one broadcast
to n children, and each of their uplinks takes that broadcast's draw. The first uplink closes the
broadcast: what is sent down later at the same instant is another. The paper's unit of time is the
second here.

Left out: sizes of transfers, other traffic, differences between clients of a group, and every pair
but gateway-device and cloud-gateway.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from simulator.errors import UserError
from simulator.network import Completion
from simulator.networks.arrivals import Arrivals
from simulator.rng import Stream, generator
from simulator.section import Section
from simulator.units import FlowId, NodeId, Time, to_ns
from topologies import Topology

Parameter = Annotated[float, Field(ge=0)]
OfGroups = Parameter | tuple[Parameter, ...]
"""Of every group, or one of each in the order of the topology's gateways."""


class LinearSection(Section):
    """The paper's {d, b, e, f, d_g, b_g, e_g, f_g}, in seconds."""

    kind: Literal["linear"] = "linear"
    d: OfGroups
    """Constant part of a local iteration, per client of the group; a list: of each group."""
    b: OfGroups
    """Constant part of a local iteration; the same."""
    e: OfGroups
    """Mean of the exponential part of a local iteration, per client of the group; the same."""
    f: OfGroups
    """Mean of the exponential part of a local iteration; the same."""
    d_g: Parameter
    """Constant part of a global round, per group."""
    b_g: Parameter
    """Constant part of a global round."""
    e_g: Parameter
    """Mean of the exponential part of a global round, per group."""
    f_g: Parameter
    """Mean of the exponential part of a global round."""


@dataclass
class Broadcast:
    time: Time
    size: int = 0
    draw: Time | None = None
    """Made when the first uplink starts; from then on the broadcast is closed."""


class LinearDelayNetwork:
    """One shifted exponential delay per iteration of a group and per global round."""

    def __init__(self, topology: Topology, section: LinearSection, seed: int) -> None:
        self._topology = topology
        self._parameters = _parameters_of(topology, section)
        self._rng = generator(seed, Stream.NETWORK)
        self._arrivals = Arrivals()
        self._sent = 0
        self._open: dict[NodeId, Broadcast] = {}
        self._heard: dict[tuple[NodeId, NodeId], Broadcast] = {}
        pairs = [(topology.cloud, gateway) for gateway in topology.gateways]
        pairs += [(gateway, dev) for dev in topology.devices for gateway in topology.reach(dev)]
        self._pairs = frozenset(pairs)
        self._children = Counter(parent for parent, _ in pairs)

    @classmethod
    def build(
        cls, section: LinearSection, topology: Topology, seed: int, base: Path
    ) -> LinearDelayNetwork:
        return cls(topology, section, seed)

    def send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        if self._is_downlink(src, dst):
            self._join_broadcast(now, src, dst)
            delay = 0
        else:
            delay = self._draw(src, dst)
        flow = self._sent
        self._sent += 1
        self._arrivals.push(now + delay, flow)
        return flow

    def advance(self, limit: Time) -> Completion | None:
        return self._arrivals.pop(limit)

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        """The mean for the child's last broadcast, else for all of the parent's children."""
        if self._is_downlink(src, dst):
            return 0
        heard = self._heard.get((dst, src))
        size = heard.size if heard else self._children[dst]
        constant, mean = self._shift_and_mean(dst, size)
        return to_ns(constant + mean)

    def close(self) -> None:
        pass

    def save(self) -> dict[str, object]:
        broadcasts = {id(b): b for b in (*self._heard.values(), *self._open.values())}
        number = {key: i for i, key in enumerate(broadcasts)}
        return {
            "sent": self._sent,
            "arrivals": self._arrivals.save(),
            "rng": dict(self._rng.bit_generator.state),
            "broadcasts": [[b.time, b.size, b.draw] for b in broadcasts.values()],
            "open": [[parent, number[id(b)]] for parent, b in self._open.items()],
            "heard": [[*pair, number[id(b)]] for pair, b in self._heard.items()],
        }

    def load(self, state: dict[str, Any]) -> None:
        self._sent = state["sent"]
        self._arrivals.load(state["arrivals"])
        self._rng.bit_generator.state = state["rng"]
        broadcasts = [Broadcast(*row) for row in state["broadcasts"]]
        self._open = {parent: broadcasts[i] for parent, i in state["open"]}
        self._heard = {(parent, child): broadcasts[i] for parent, child, i in state["heard"]}

    def _is_downlink(self, src: NodeId, dst: NodeId) -> bool:
        if (src, dst) in self._pairs:
            return True
        if (dst, src) in self._pairs:
            return False
        raise self._error(src, dst, "it knows only cloud-gateway and gateway-device links")

    def _join_broadcast(self, now: Time, parent: NodeId, child: NodeId) -> None:
        broadcast = self._open.get(parent)
        if broadcast is None or broadcast.time != now or broadcast.draw is not None:
            broadcast = self._open[parent] = Broadcast(now)
        if self._heard.get((parent, child)) is not broadcast:
            broadcast.size += 1
            self._heard[parent, child] = broadcast

    def _draw(self, child: NodeId, parent: NodeId) -> Time:
        broadcast = self._heard.get((parent, child))
        if broadcast is None:
            raise self._error(child, parent, "an uplink answers a downlink, and there was none")
        if broadcast.draw is None:
            constant, mean = self._shift_and_mean(parent, broadcast.size)
            broadcast.draw = to_ns(constant + self._rng.exponential(mean))
        return broadcast.draw

    def _shift_and_mean(self, parent: NodeId, size: int) -> tuple[float, float]:
        d, b, e, f = self._parameters[parent]
        return d * size + b, e * size + f

    def _error(self, src: NodeId, dst: NodeId, why: str) -> UserError:
        names = [self._topology.nodes[node].name for node in (src, dst)]
        return UserError(
            f"the linear delay network cannot carry {names[0]!r} to {names[1]!r}: {why}; "
            "use another network for this algorithm"
        )


def _parameters_of(topology: Topology, section: LinearSection) -> dict[NodeId, tuple[float, ...]]:
    """d, b, e and f of each gateway's iterations, and of the cloud's rounds."""
    columns = []
    for name in ("d", "b", "e", "f"):
        value, count = getattr(section, name), len(topology.gateways)
        column = value if isinstance(value, tuple) else (value,) * count
        if len(column) != count:
            raise UserError(
                f"network.{name} has {len(column)} values for {count} gateways; "
                "give one for each, or one number for all"
            )
        columns.append(column)
    of_groups = zip(topology.gateways, zip(*columns, strict=True), strict=True)
    return dict(of_groups) | {topology.cloud: (section.d_g, section.b_g, section.e_g, section.f_g)}
