"""The edges of the full graph one by one, and the graph without some of them (Definition 1, Eq. 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from topologies.graphs import as_wirings, complete
from topologies.learning.blocks import KINDS
from topologies.learning.pruned import split
from topologies.topology import DECISION_AGENT, Wiring, needed_turns


class Edge(NamedTuple):
    """One edge, in all rounds that it is in. Agents are indices; the decision agent's is the number of the others."""

    kind: str
    sender: int
    receiver: int

    def name(self, agents: Sequence[str]) -> str:
        """The edge's name, of characters that a method's name may have."""
        # The decision agent comes after the others, so its index finds its name.
        return ".".join((self.kind, agents[self.sender], (*agents, DECISION_AGENT)[self.receiver]))


def full_graph(agents: int, rounds: int) -> Wiring:
    """The graph that edges are taken from: `complete`, in the team's order, and a decision agent that reads everyone.

    The spatial edges of a round form a DAG: of i > j and j > i the complete graph has the one that follows the order.
    """
    return split(as_wirings(complete(agents), rounds))[0]


def edges_of(wiring: Wiring) -> tuple[Edge, ...]:
    """Spatial, temporal and decision edges that any round has; each by sender, then receiver."""
    agents = len(wiring.decision)
    in_rounds = [
        Edge(kind, sender, receiver)
        for kind, present in (("spatial", wiring.spatial), ("temporal", wiring.temporal))
        for sender, receiver in np.argwhere(present.any(0)).tolist()
    ]
    return (*in_rounds, *(Edge("decision", sender, agents) for sender in np.flatnonzero(wiring.decision).tolist()))


def without(wiring: Wiring, edges: Iterable[Edge]) -> Wiring:
    """The graph without these edges, in every round. Only the remaining edges could have been drawn."""
    # Copies: the full graph is used again for every other edge.
    spatial, temporal, decision = wiring.spatial.copy(), wiring.temporal.copy(), wiring.decision.copy()
    for kind, sender, receiver in edges:
        if kind == "decision":
            decision[sender] = False
        else:
            (spatial if kind == "spatial" else temporal)[:, sender, receiver] = False
    return replace(
        # None means that exactly the edges present could have been drawn.
        wiring,
        spatial=spatial,
        temporal=temporal,
        decision=decision,
        allowed_spatial=None,
        allowed_temporal=None,
    )


def matters(wiring: Wiring, edge: Edge) -> bool:
    """True if the answer can depend on an edge: a path leads from a turn that hears it to the decision agent."""
    if edge.kind == "decision":
        return True
    # By round: a receiver's turn may be needed in one round and not in another.
    present = (wiring.spatial if edge.kind == "spatial" else wiring.temporal)[:, edge.sender, edge.receiver]
    return bool((needed_turns(wiring)[:, edge.receiver] & present).any())


def by_kind(edges: Sequence[Edge]) -> dict[str, list[int]]:
    """Positions of each kind's edges, after those of `all`; kinds without edges are left out."""
    groups = {kind: [i for i, edge in enumerate(edges) if edge.kind == kind] for kind in KINDS}
    return {"all": list(range(len(edges))), **{kind: members for kind, members in groups.items() if members}}
