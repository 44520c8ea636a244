"""Edges of a graph, one kind after another, and the graph without some of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from topologies.topology import DECISION_AGENT
from topologies.wiring import KINDS, Wiring


class Edge(NamedTuple):
    """One edge, in all rounds that have it. Agents are indices; the decision agent's is the number of others."""

    kind: str
    sender: int
    receiver: int

    def name(self, agents: Sequence[str]) -> str:
        """Names the edge, in characters that a method's name may have."""
        # The decision agent comes after the others, so its index finds its name.
        return ".".join((self.kind, agents[self.sender], (*agents, DECISION_AGENT)[self.receiver]))


def edges_of(wiring: Wiring) -> tuple[Edge, ...]:
    """Lists spatial, temporal and decision edges of any round. Each kind is by sender, then receiver."""
    edges = []
    for kind, present in (("spatial", wiring.spatial), ("temporal", wiring.temporal)):
        edges += [Edge(kind, *ends) for ends in np.unique(present[:, 1:], axis=0).tolist()]
    readers = np.flatnonzero(wiring.decision).tolist()
    return (*edges, *(Edge("decision", sender, len(wiring.decision)) for sender in readers))


def without(wiring: Wiring, edges: Iterable[Edge]) -> Wiring:
    """Removes edges from a graph, in every round. Only the remaining edges could have been drawn."""
    # A copy: the full graph is used again for every other edge.
    present = {"spatial": wiring.spatial, "temporal": wiring.temporal}
    decision = wiring.decision.copy()
    for edge in edges:
        if edge.kind == "decision":
            decision[edge.sender] = False
        else:
            ends = present[edge.kind][:, 1:]
            present[edge.kind] = present[edge.kind][(ends != (edge.sender, edge.receiver)).any(axis=1)]
    # None as candidates: exactly the edges present could have been drawn.
    return Wiring(wiring.rounds, present["spatial"], present["temporal"], decision, speaks=wiring.speaks)


def by_kind(edges: Sequence[Edge]) -> dict[str, list[int]]:
    """Maps each kind to the positions of its edges, after `all`. Kinds without edges are left out."""
    positions = {"all": list(range(len(edges)))}
    for kind in KINDS:
        of_kind = [position for position, edge in enumerate(edges) if edge.kind == kind]
        if of_kind:
            positions[kind] = of_kind
    return positions
