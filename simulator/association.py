"""Which gateway each device belongs to, and the other way round."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, MutableMapping

from simulator.units import NodeId


class Association(MutableMapping[NodeId, NodeId]):
    """By device its gateway; ``members`` does not look at the devices of other gateways."""

    def __init__(self, gateways: Mapping[NodeId, NodeId]) -> None:
        self._gateways: dict[NodeId, NodeId] = {}
        self._members: dict[NodeId, list[NodeId]] = {}
        self.update(gateways)

    def members(self, gateway: NodeId) -> list[NodeId]:
        """Its devices in the order of their numbers, which is the topology's."""
        return self._members.get(gateway, []).copy()

    def __getitem__(self, device: NodeId) -> NodeId:
        return self._gateways[device]

    def __setitem__(self, device: NodeId, gateway: NodeId) -> None:
        if device in self._gateways:
            self._leave(device)
        self._gateways[device] = gateway
        insort(self._members.setdefault(gateway, []), device)

    def __delitem__(self, device: NodeId) -> None:
        self._leave(device)
        del self._gateways[device]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._gateways)

    def __len__(self) -> int:
        return len(self._gateways)

    def _leave(self, device: NodeId) -> None:
        members = self._members[self._gateways[device]]
        del members[bisect_left(members, device)]
