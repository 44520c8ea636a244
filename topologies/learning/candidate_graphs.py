"""The graphs along which a learner may choose its edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topologies import graphs
from topologies.learning.settings import Graph
from topologies.wiring import Edges, Ints


def graph_of(graph: Graph, agents: int, seed: int) -> Edges[Ints]:
    """A graph of so many agents; `seed` is that of a random one."""
    if graph is Graph.REGULAR:
        return graphs.regular(agents, seed=seed)
    if graph is Graph.SMALL_WORLD:
        return graphs.small_world(agents, seed=seed)
    make: Callable[[int], Edges[Ints]] = getattr(graphs, graph)
    return make(agents)


def around(graph: Edges[Ints]) -> Edges[Ints]:
    """What a learner may choose along a graph: each spatial edge in either direction, and its temporal ones."""
    return Edges(*(np.unique(np.concatenate(pairs), axis=0) for pairs in _both_ways(graph)))


def _both_ways(graph: Edges[Ints]) -> tuple[list[Ints], list[Ints]]:
    return [graph.spatial, graph.spatial[:, ::-1]], [graph.temporal]
