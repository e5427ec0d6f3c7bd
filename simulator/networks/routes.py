"""Paths over a topology's links, and what each of them crosses."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from simulator.errors import UserError
from simulator.units import NodeId, Time, to_ns
from topologies import Tier, Topology


class Route(NamedTuple):
    number: int
    src: NodeId
    dst: NodeId
    latency: Time
    crossed: tuple[int, ...]
    """Indices into ``Routes.capacities``; one that is crossed twice is there twice."""
    rate_bps: float
    """Of a transfer that is alone on the network."""
    via: Homes | None = None
    """Of two devices: through which gateways they talk, if that is known."""


Homes = tuple[NodeId, NodeId]
"""The gateways of source and destination."""
Path = tuple[Time, int, tuple[int, ...]]
"""Latency, hops, and what is crossed; the least of several is the one to take."""


class Tree(NamedTuple):
    """Shortest paths from one node, as far as anybody has asked, and where to go on from."""

    paths: dict[NodeId, Path]
    queue: list[tuple[Path, NodeId]]


class Routes:
    """Shortest paths by latency, then by hops; a device never forwards for others."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.capacities = [link.rate_bps for link in topology.links for _ in range(2)]
        """In bit/s: per link its two directions, the media, two ways per limited device."""
        medium = {m.name: len(self.capacities) + k for k, m in enumerate(topology.media)}
        self.capacities += [m.rate_bps for m in topology.media]
        sending, receiving = (self._add_limits() for _ in range(2))
        self._hops: dict[tuple[NodeId, NodeId], Path] = {}
        for k, link in enumerate(topology.links):
            shared = () if link.medium is None else (medium[link.medium],)
            latency = to_ns(link.latency_s)
            for way, (a, b) in enumerate(((link.a, link.b), (link.b, link.a))):
                paced = (*sending.get(a, ()), *receiving.get(b, ()))
                self._hops[a, b] = latency, 1, (2 * k + way, *shared, *paced)
        self._forwards = [node.tier is not Tier.DEVICE for node in topology.nodes]
        inner = [n for n, forwards in enumerate(self._forwards) if forwards]
        near = topology.neighbours
        self._inner = {node: [n for n in near[node] if self._forwards[n]] for node in inner}
        """Of the nodes that forward, the neighbours that do."""
        self._trees: dict[NodeId, Tree] = {}
        self._found: dict[tuple[NodeId, NodeId, Homes | None], Route] = {}

    def _add_limits(self) -> dict[NodeId, tuple[int]]:
        """A capacity for each device whose application has a pace, for one direction."""
        added = {}
        for device in self._topology.devices:
            limit = self._topology.rate_limit_bps(device)
            if limit is not None:
                added[device] = (len(self.capacities),)
                self.capacities.append(limit)
        return added

    def has_link(self, src: NodeId, dst: NodeId) -> bool:
        return (src, dst) in self._hops

    def find(self, src: NodeId, dst: NodeId, via: Homes | None = None) -> Route:
        """``via`` are gateways of two devices: their radios know no other way, but a direct one."""
        route = self._found.get((src, dst, via))
        if route is None:
            if src == dst:
                name = self._topology.nodes[src].name
                raise UserError(f"{name!r} sends to itself; a transfer needs two nodes")
            path = self._shortest(src, dst) if via is None else self._between(src, dst, via)
            latency, _, crossed = path
            rate = min(self.capacities[c] / crossed.count(c) for c in crossed)
            number = len(self._found)
            route = Route(number, src, dst, latency, crossed, rate, via)
            self._found[src, dst, via] = route
        return route

    def _between(self, src: NodeId, dst: NodeId, via: Homes) -> Path:
        up, down = self._hops[src, via[0]], self._hops[via[1], dst]
        through = _join(_join(up, self._shortest(*via)), down)
        return min(through, self._hops.get((src, dst), through))

    def _shortest(self, src: NodeId, dst: NodeId) -> Path:
        """A device's link, if it is at an end, joined to a path among the forwarding nodes.

        There always is one: a topology's gateways all reach the cloud, its devices a gateway.
        """
        if src == dst:
            return 0, 0, ()
        if not self._forwards[dst]:
            last = [n for n in self._topology.neighbours[dst] if self._forwards[n] or n == src]
            return min(_join(self._shortest(src, n), self._hops[n, dst]) for n in last)
        if not self._forwards[src]:
            first = [n for n in self._topology.neighbours[src] if self._forwards[n]]
            return min(_join(self._hops[src, n], self._shortest(n, dst)) for n in first)
        tree = self._trees.get(src)
        if tree is None:
            tree = self._trees[src] = Tree({}, [((0, 0, ()), src)])
        while dst not in tree.paths:
            self._grow(tree)
        return tree.paths[dst]

    def _grow(self, tree: Tree) -> None:
        """A step of Dijkstra's algorithm: the nearest node that is not in the tree joins it."""
        path, node = heappop(tree.queue)
        if node not in tree.paths:
            tree.paths[node] = path
            for end in self._inner[node]:
                if end not in tree.paths:
                    heappush(tree.queue, (_join(path, self._hops[node, end]), end))


def _join(a: Path, b: Path) -> Path:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]
