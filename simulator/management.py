"""What the kernel and algorithms ask of selection and association."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from simulator.events import Update
from simulator.units import NodeId

if TYPE_CHECKING:
    from simulator.kernel import Simulation


class Manager(Protocol):
    """Who trains next, and with which gateway; told what becomes of devices. State as above.

    ``gateway`` is whoever asks devices: the cloud, where there are two tiers.
    """

    def select(
        self, sim: Simulation, gateway: NodeId, idle: list[NodeId], most: int | None = None
    ) -> list[NodeId]:
        """Which of these devices train next, at most so many; in the order given."""
        ...

    def begin(self, sim: Simulation, gateway: NodeId, device: NodeId) -> None:
        """The gateway asks the device now."""
        ...

    def end(self, sim: Simulation, gateway: NodeId, device: NodeId, update: Update | None) -> None:
        """The device has answered, or the gateway has given it up (None)."""
        ...

    def drop(self, gateway: NodeId, device: NodeId) -> None:
        """The gateway no longer wants what it asked for; that says nothing about the device."""
        ...

    def report_bytes(self, sim: Simulation, device: NodeId) -> int:
        """What a device tells along with its model, for the sake of selection."""
        ...

    def upload_bytes(self, sim: Simulation, gateway: NodeId) -> int:
        """What a gateway tells along with its model, for the sake of association."""
        ...

    def reassociate(self, sim: Simulation, epoch: int) -> dict[NodeId, NodeId]:
        """By device its new gateway, if cloud epoch ``epoch`` is one to move devices."""
        ...

    # For the warm-up alone

    def parameter_bytes(self, sim: Simulation) -> int:
        """What must be sent to whoever is to compute sketches of gradients."""
        ...

    @property
    def devices_sketch(self) -> bool:
        """Else their gateways do, from the models that they get anyway."""
        ...

    def fit(self, sim: Simulation, updates: Sequence[Update]) -> None:
        """Make the sketch from these devices' gradients, and know them."""
        ...

    def equip(self, node: NodeId) -> None:
        """The node can compute sketches now."""
        ...

    # For the summary

    def told(self) -> dict[str, Any]: ...
