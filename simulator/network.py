"""What the kernel asks of a network: start transfers, run to the next one that ends.

There is no ``delay(src, dst)``: how long a transfer takes may depend on the transfers that
start after it, so only the network's own clock can tell when it ends.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from simulator.units import FlowId, NodeId, Time


class Completion(NamedTuple):
    """A transfer has ended at ``time``; ``lost`` says why it failed, "" when it arrived.

    ``radio_j`` is what the radios of its devices used meanwhile, None where nobody measures.
    """

    flow: FlowId
    time: Time
    lost: str = ""
    radio_j: float | None = None


class Energy(NamedTuple):
    """What a device has used since the start; a processor without power figures is None."""

    radio_j: float
    processor_j: float | None


class Network(Protocol):
    def send(self, now: Time, src: NodeId, dst: NodeId, nbytes: int) -> FlowId:
        """Start a transfer at ``now`` (never before the last ``advance``).

        Flow ids count up from 0. Two nodes with no path between them are a ``UserError``.
        """
        ...

    def advance(self, limit: Time) -> Completion | None:
        """Run to the first completion at or before ``limit``; else to ``limit``, giving None.

        Completions at the same time come out one a call, in the order of their flow ids.
        """
        ...

    def estimate(self, src: NodeId, dst: NodeId, nbytes: int) -> Time:
        """How long a lone transfer should take: a belief for selectors, never the clock."""
        ...

    def close(self) -> None:
        """Let go of what the network holds outside of this process."""
        ...

    def save(self) -> dict[str, object]:
        """The state to resume from, of plain values (see ``simulator.state``)."""
        ...

    def load(self, state: dict[str, object]) -> None:
        """Take up a saved state; the network was built from the same scenario."""
        ...


@runtime_checkable
class ComputingNetwork(Network, Protocol):
    """A network in whose clock devices compute too, as they do in ns-3."""

    def compute(self, now: Time, node: NodeId, duration: Time) -> FlowId:
        """Start a computation; ``advance`` tells its end. It is numbered among the flows."""
        ...

    def cancel(self, flow: FlowId) -> None:
        """Give up a computation that has not ended: ``advance`` will not tell its end."""
        ...

    def energy(self, now: Time) -> dict[NodeId, Energy]:
        """What each device has used until ``now``; empty unless the scenario asks for it."""
        ...
