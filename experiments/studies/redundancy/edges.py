"""Edges of the full graph one by one, and the graph without some of them (Definition 1, Eq. 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.topology import DECISION_AGENT
from topologies.wiring import KINDS, Bools, Ints, Wiring, into, needed_turns


class Edge(NamedTuple):
    """One edge, in all rounds that have it. Agents are indices; the decision agent's is the number of the others."""

    kind: str
    sender: int
    receiver: int

    def name(self, agents: Sequence[str]) -> str:
        """The edge's name, of characters that a method's name may have."""
        # The decision agent comes after the others, so its index finds its name.
        return ".".join((self.kind, agents[self.sender], (*agents, DECISION_AGENT)[self.receiver]))


def full_graph(agents: int, rounds: int) -> Wiring:
    """Returns `complete` in the team's order, with a decision agent that reads everyone.

    The spatial edges of a round form a DAG: of i > j and j > i the complete graph has the one that follows the order.
    """
    return constant_wiring(complete(agents), agents, rounds)


def edges_of(wiring: Wiring) -> tuple[Edge, ...]:
    """Spatial, temporal and decision edges that any round has; each by sender, then receiver."""
    agents = len(wiring.decision)
    in_rounds = [
        Edge(kind, sender, receiver)
        for kind, present in (("spatial", wiring.spatial), ("temporal", wiring.temporal))
        for sender, receiver in np.unique(present[:, 1:], axis=0).tolist()
    ]
    return (*in_rounds, *(Edge("decision", sender, agents) for sender in np.flatnonzero(wiring.decision).tolist()))


def without(wiring: Wiring, edges: Iterable[Edge]) -> Wiring:
    """Removes edges from a graph, in every round. Only the remaining edges could have been drawn."""
    # A copy: the full graph is used again for every other edge.
    spatial, temporal, decision = wiring.spatial, wiring.temporal, wiring.decision.copy()
    for kind, sender, receiver in edges:
        if kind == "decision":
            decision[sender] = False
        elif kind == "spatial":
            spatial = spatial[~_of_pair(spatial, sender, receiver)]
        else:
            temporal = temporal[~_of_pair(temporal, sender, receiver)]
    # None as candidates: exactly the edges present could have been drawn.
    return replace(
        wiring, spatial=spatial, temporal=temporal, decision=decision, allowed_spatial=None, allowed_temporal=None
    )


def matters(wiring: Wiring, edge: Edge) -> bool:
    """True if a path leads from a turn that reads the edge's message to the decision agent."""
    if edge.kind == "decision":
        return True
    present = wiring.spatial if edge.kind == "spatial" else wiring.temporal
    # By round: a receiver's turn may be needed in one round and not in another.
    return bool(into(needed_turns(wiring), present[_of_pair(present, edge.sender, edge.receiver)]).any())


def _of_pair(edges: Ints, sender: int, receiver: int) -> Bools:
    of_pair: Bools = (edges[:, 1] == sender) & (edges[:, 2] == receiver)
    return of_pair


def by_kind(edges: Sequence[Edge]) -> dict[str, list[int]]:
    """Positions of each kind's edges, after those of `all`; kinds without edges are left out."""
    groups = {kind: [i for i, edge in enumerate(edges) if edge.kind == kind] for kind in KINDS}
    return {"all": list(range(len(edges))), **{kind: members for kind, members in groups.items() if members}}
