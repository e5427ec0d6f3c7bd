"""In which order a ring goes through its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from simulator.kernel import Simulation
from simulator.rng import Stream
from simulator.units import NodeId

Way = Literal["fixed", "shuffled", "shortest"]


def shortest_tour(
    start: NodeId, members: Sequence[NodeId], cost: Callable[[NodeId, NodeId], float]
) -> list[NodeId]:
    """The members in an order in which it is not far from ``start`` through all and back to it.

    The best of the nearest-neighbour tours from every node; cost may differ by direction.
    """
    import networkx as nx
    from networkx.algorithms.approximation import greedy_tsp

    nodes = [start, *(member for member in members if member != start)]
    if len(nodes) < 3:
        return list(members)
    graph = nx.DiGraph()
    graph.add_weighted_edges_from((a, b, cost(a, b)) for a in nodes for b in nodes if a != b)
    tours = [greedy_tsp(graph, source=node)[:-1] for node in nodes]
    lengths = [sum(graph.edges[hop]["weight"] for hop in pairwise([*t, t[0]])) for t in tours]
    best: list[NodeId] = tours[lengths.index(min(lengths))]
    first = best.index(start)
    turned = best[first:] + best[:first]
    return turned if start in members else turned[1:]


@dataclass
class RingOrder:
    """Of one tier's rings."""

    way: Way
    tours: dict[NodeId, list[NodeId]] = field(default_factory=dict)
    """By where a ring begins: the shortest one that was found last."""

    def of(self, sim: Simulation, start: NodeId, members: list[NodeId]) -> list[NodeId]:
        """``start`` is where the model is before and after; it may be a member."""
        if self.way == "fixed":
            return list(members)
        if self.way == "shuffled":
            return [int(node) for node in sim.rng(Stream.ORDER, start).permutation(members)]
        known = self.tours.get(start, [])
        if sorted(known) != sorted(members):
            known = self.tours[start] = shortest_tour(start, members, sim.estimate)
        return list(known)
