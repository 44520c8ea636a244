"""Fixed communication graphs, wirings made of them, and their export.

In a fixed graph the spatial edges form a DAG; along the temporal ones every agent hears, from the round before, itself
and all that it shares a spatial edge with, in either direction (except in `debate`).
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np

from actors.messages import derive_seed
from topologies.wiring import Bools, Edges, Floats, Ints, Wirings


def complete(agents: int) -> Edges[Bools]:
    """Each agent hears all that come before it, and everyone's previous round."""
    return _both_kinds(np.triu(np.ones((agents, agents), dtype=bool), 1))


def chain(agents: int) -> Edges[Bools]:
    """Each agent hears the one before it."""
    return _both_kinds(np.eye(agents, k=1, dtype=bool))


def star(agents: int) -> Edges[Bools]:
    """Agent 0 speaks last and hears all the others."""
    # A tree in which all are children of the root. A team of one has none, and `tree` asks for a branching of 1.
    return tree(agents, branching=max(1, agents - 1))


def tree(agents: int, branching: int = 2) -> Edges[Bools]:
    """Children report to their parent, (i - 1) // branching; agent 0, the root, speaks last."""
    _at_least_one("branching", branching)
    spatial = np.zeros((agents, agents), dtype=bool)
    children = np.arange(1, agents)
    spatial[children, (children - 1) // branching] = True
    return _both_kinds(spatial)


def layered(agents: int, layers: int = 2) -> Edges[Bools]:
    """The agents in `layers` consecutive groups of nearly one size; each group hears the whole group before it."""
    _at_least_one("layers", layers)
    # Integer division spreads a remainder over the layers; `max` allows a team of nobody.
    layer = np.arange(agents) * layers // max(agents, 1)
    return _both_kinds(layer[:, None] + 1 == layer[None, :])


def debate(agents: int) -> Edges[Bools]:
    """Nobody hears anybody inside a round, everybody everyone's previous round: all-to-all multi-agent debate (Du et
    al. 2023, "Improving factuality and reasoning in language models through multiagent debate")."""
    return Edges(np.zeros((agents, agents), dtype=bool), np.ones((agents, agents), dtype=bool))


def random(agents: int, spatial_edges: int, temporal_edges: int, seed: int) -> Edges[Bools]:
    """That many spatial edges along a uniform random order and that many temporal ones, all equally likely.

    Raises ValueError when a matrix cannot hold so many: agents (agents - 1) / 2 spatial, agents ** 2 temporal.
    """
    pairs = agents * (agents - 1) // 2
    if not 0 <= spatial_edges <= pairs or not 0 <= temporal_edges <= agents**2:
        raise ValueError(
            f"{agents} agents hold up to {pairs} spatial and {agents**2} temporal edges, "
            f"not {spatial_edges} and {temporal_edges}"
        )
    draw = np.random.default_rng(derive_seed(seed, "random graph", agents, spatial_edges, temporal_edges))
    order = draw.permutation(agents)
    # Positions in the random order, the earlier first: whatever is chosen of these pairs, no cycle can close.
    senders, receivers = np.triu_indices(agents, 1)
    chosen = draw.permutation(pairs)[:spatial_edges]
    spatial = np.zeros((agents, agents), dtype=bool)
    spatial[order[senders[chosen]], order[receivers[chosen]]] = True
    temporal = np.zeros(agents**2, dtype=bool)
    temporal[draw.permutation(agents**2)[:temporal_edges]] = True
    return Edges(spatial, temporal.reshape(agents, agents))


def acyclic(present: Bools, scores: Floats) -> Bools:
    """The present edges in descending score, each added unless it closes a cycle, bool [sender, receiver].

    Deterministic: equal scores go by sender, then receiver.
    """
    senders, receivers = np.nonzero(present)
    # Stable, so that equal scores stay in the order of `nonzero`: by sender, then receiver.
    ranked = np.argsort(-scores[senders, receivers], kind="stable")
    # reaches[i, j]: a path of kept edges leads from i to j. Everybody reaches itself, which rules out self-loops.
    reaches = np.eye(len(present), dtype=bool)
    kept = np.zeros_like(present)
    for sender, receiver in zip(senders[ranked], receivers[ranked], strict=True):
        if reaches[receiver, sender]:
            continue  # the edge would close a cycle
        kept[sender, receiver] = True
        if not reaches[sender, receiver]:
            # All that reached the sender now also reach what the receiver does: no search for a path is needed.
            reaches[np.flatnonzero(reaches[:, sender])] |= reaches[receiver]
    return kept


def speaking_order(spatial: Bools) -> Ints:
    """A topological order of a DAG, int [agents], agents of the smallest depth and index first.

    Raises ValueError when there is a cycle.
    """
    order = np.zeros(0, dtype=np.int64)
    waiting = np.ones(len(spatial), dtype=bool)
    while waiting.any():
        # Ready: hears nobody who is still waiting.
        ready = waiting & ~spatial[waiting].any(axis=0)
        if not ready.any():
            raise ValueError("the spatial edges close a cycle: no agent could speak first")
        order = np.concatenate([order, np.flatnonzero(ready)])
        waiting &= ~ready
    return order


def as_wirings(edges: Edges[Bools], rounds: int, k: int = 1, decision: Bools | None = None) -> Wirings:
    """The same wiring `k` times and in every round; the decision agent reads `decision` [agents] or everyone.

    Raises ValueError when the spatial edges close a cycle or the matrices are not square and of one size.
    """
    spatial, temporal = np.asarray(edges.spatial, dtype=bool), np.asarray(edges.temporal, dtype=bool)
    agents = len(spatial)
    if spatial.shape != (agents, agents) or temporal.shape != (agents, agents):
        raise ValueError(f"edges need two square matrices of one size, got {spatial.shape} and {temporal.shape}")
    # Copies: a broadcast array is read-only, and all its rows are the same memory.
    each_round = np.broadcast_to(spatial, (k, rounds, agents, agents)).copy()
    between = np.broadcast_to(temporal, (k, rounds, agents, agents)).copy()
    # No round comes before the first.
    between[:, :1] = False
    order = np.broadcast_to(speaking_order(spatial), (k, rounds, agents)).copy()
    readers = np.broadcast_to(np.ones(agents, dtype=bool) if decision is None else decision, (k, agents)).copy()
    return Wirings(each_round, between, Edges(each_round, between), order, readers, readers)


def to_networkx(
    edges: Edges[Bools], names: Sequence[str], probabilities: Edges[Floats] | None = None
) -> nx.MultiDiGraph:
    """A graph that GraphML can hold: a node per agent, and edges with `kind` and, where given, `probability`."""
    if len(names) != len(edges.spatial) or len(set(names)) != len(names):
        raise ValueError(f"{len(edges.spatial)} agents need as many different names, got {list(names)}")
    # A multigraph: one pair may have a spatial and a temporal edge.
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(names)
    for kind in Edges._fields:
        for sender, receiver in np.argwhere(getattr(edges, kind)):
            attributes: dict[str, str | float] = {"kind": kind}
            if probabilities is not None:
                attributes["probability"] = float(getattr(probabilities, kind)[sender, receiver])
            graph.add_edge(names[sender], names[receiver], key=kind, **attributes)
    return graph


def _both_kinds(spatial: Bools) -> Edges[Bools]:
    return Edges(spatial, spatial | spatial.T | np.eye(len(spatial), dtype=bool))


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
