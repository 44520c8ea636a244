"""Fixed communication graphs, and a learner's wirings of one graph.

A graph is two lists of pairs (sender, receiver), int [edges, 2]. Its spatial edges form a DAG. Along its temporal edges
every agent hears, from the previous round, itself and its neighbours by spatial edges in either direction (except in
`debate`).
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import networkx as nx
import numpy as np

from actors.messages import derive_seed
from topologies.wiring import Bools, Edges, Floats, Ints, Wirings

NEIGHBOURS = 4  # of each agent, in graphs of few neighbours; even, as no graph has an odd sum of degrees
REWIRED = 0.1  # share of a small world's edges that lead elsewhere


def complete(agents: int) -> Edges[Ints]:
    """Each agent hears all before it in the round, and all in the previous round."""
    return _both_kinds(agents, np.column_stack(np.triu_indices(agents, 1)))


def chain(agents: int) -> Edges[Ints]:
    """Each agent hears the one before it."""
    order = np.arange(agents)
    return _both_kinds(agents, np.column_stack([order[:-1], order[1:]]))


def star(agents: int) -> Edges[Ints]:
    """Agent 0 speaks last and hears all the others."""
    senders = np.arange(1, agents)
    return _both_kinds(agents, np.column_stack([senders, np.zeros_like(senders)]))


def tree(agents: int) -> Edges[Ints]:
    """Binary tree: children report to their parent, (i - 1) // 2; agent 0, the root, speaks last."""
    children = np.arange(1, agents)
    return _both_kinds(agents, np.column_stack([children, (children - 1) // 2]))


def layered(agents: int) -> Edges[Ints]:
    """Two layers, the first of half the agents, rounded up: each agent of the second hears all of the first."""
    second = np.arange(agents) >= (agents + 1) // 2
    return _both_kinds(agents, np.argwhere(np.outer(~second, second)))


def debate(agents: int) -> Edges[Ints]:
    """Multi-agent debate (Du et al. 2023): all hear all of the previous round, and none inside a round."""
    return Edges(_NO_PAIRS, np.argwhere(np.ones((agents, agents))))


def ring(agents: int) -> Edges[Ints]:
    """Chain whose ends are joined: the last agent and the first hear each other's previous round."""
    edges = chain(agents)
    ends = np.array([[0, agents - 1], [agents - 1, 0]]) if agents > 2 else _NO_PAIRS
    return Edges(edges.spatial, np.unique(np.concatenate([edges.temporal, ends]), axis=0))


def regular(agents: int, seed: int = 0) -> Edges[Ints]:
    """Random graph with `NEIGHBOURS` for each agent; of two, the later hears the earlier."""
    return _drawn(agents, "regular graph", seed, lambda drawn: nx.random_regular_graph(NEIGHBOURS, agents, drawn))


def small_world(agents: int, seed: int = 0) -> Edges[Ints]:
    """Ring of `NEIGHBOURS` nearest agents with a share of edges led elsewhere (Watts and Strogatz 1998)."""
    ring = partial(nx.watts_strogatz_graph, agents, NEIGHBOURS, REWIRED)
    return _drawn(agents, "small world", seed, ring)


DRAWN = (regular, small_world)  # graphs that depend on a seed


def random(agents: int, spatial_edges: int, temporal_edges: int, seed: int) -> Edges[Ints]:
    """Draws spatial edges along a uniform random order, and temporal edges, all equally likely."""
    draw = np.random.default_rng(derive_seed(seed, "random graph", agents, spatial_edges, temporal_edges))
    order = draw.permutation(agents)
    # Positions in the random order, the earlier first: whatever is chosen of these pairs, no cycle can close.
    senders, receivers = np.triu_indices(agents, 1)
    drawn_pairs = draw.permutation(len(senders))[:spatial_edges]
    spatial = np.column_stack([order[senders[drawn_pairs]], order[receivers[drawn_pairs]]])
    temporal = draw.permutation(agents**2)[:temporal_edges]
    return Edges(spatial, np.column_stack(np.divmod(temporal, max(agents, 1))))


def candidates_along(graph: Edges[Ints]) -> Edges[Ints]:
    """Candidate edges along a graph: each spatial edge in either direction, and its temporal ones."""
    both_ways = np.concatenate([graph.spatial, graph.spatial[:, ::-1]])
    return Edges(np.unique(both_ways, axis=0), np.unique(graph.temporal, axis=0))


def acyclic(present: Bools, scores: Floats) -> Bools:
    """Adds the present edges in descending score unless they close a cycle, bool [sender, receiver].

    Deterministic: equal scores go by sender, then receiver.
    """
    edges = np.argwhere(present)
    # Stable, so that equal scores stay in the order of `argwhere`: by sender, then receiver.
    ranked = edges[np.argsort(-scores[present], kind="stable")]

    # reaches[i, j]: a path of added edges leads from i to j. Every agent reaches itself, which rules out self-loops.
    reaches = np.eye(len(present), dtype=bool)
    graph = np.zeros_like(present)
    for sender, receiver in ranked:
        if reaches[receiver, sender]:
            continue  # the edge would close a cycle
        graph[sender, receiver] = True
        if not reaches[sender, receiver]:
            # All that reached the sender now also reach what the receiver does: no search for a path is needed.
            reaches[np.flatnonzero(reaches[:, sender])] |= reaches[receiver]
    return graph


def speaking_order(spatial: Bools) -> Ints:
    """Orders the agents of a DAG, int [agents], agents of the smallest depth and index first.

    Raises ValueError when there is a cycle.
    """
    layers = nx.topological_generations(nx.from_numpy_array(spatial, create_using=nx.DiGraph))
    try:
        return np.array(list(itertools.chain.from_iterable(map(sorted, layers))), dtype=np.int64)
    except nx.NetworkXUnfeasible as error:
        raise ValueError("the spatial edges close a cycle: no agent could speak first") from error


def as_wirings(
    edges: Edges[Bools], rounds: int, k: int = 1, decision: Bools | None = None, speaks: Bools | None = None
) -> Wirings:
    """Repeats a wiring `k` times; the decision agent reads `decision` [agents] or all.

    edges: bool [sender, receiver], the same in every round, or [rounds, sender, receiver].
    speaks: bool [rounds, agents], the agents that take part in each round (all if None).
    Raises ValueError when the spatial edges close a cycle.
    """
    spatial = np.asarray(edges.spatial, dtype=bool)
    agents = spatial.shape[-1]
    shape = (k, rounds, agents, agents)
    orders = np.stack([speaking_order(matrix) for matrix in spatial.reshape(-1, agents, agents)])

    # Copies: a broadcast array is read-only, and all its rows are the same memory.
    spatial = np.broadcast_to(spatial, shape).copy()
    temporal = np.broadcast_to(np.asarray(edges.temporal, dtype=bool), shape).copy()
    # No round comes before the first.
    temporal[:, :1] = False
    if decision is None:
        decision = np.ones(agents, dtype=bool)
    readers = np.broadcast_to(decision, (k, agents)).copy()
    if speaks is not None:
        speaks = np.broadcast_to(speaks, (k, rounds, agents)).copy()
    return Wirings(
        spatial,
        temporal,
        allowed=Edges(spatial, temporal),
        order=np.broadcast_to(orders, (k, rounds, agents)).copy(),
        decision=readers,
        decision_allowed=readers,
        speaks=speaks,
    )


def joined(wirings: Sequence[Wirings]) -> Wirings:
    """Puts batches of wirings, drawn with the same chances, one after another."""
    speaks = [batch.speaks for batch in wirings if batch.speaks is not None]
    return Wirings(
        spatial=np.concatenate([batch.spatial for batch in wirings]),
        temporal=np.concatenate([batch.temporal for batch in wirings]),
        allowed=Edges(
            np.concatenate([batch.allowed.spatial for batch in wirings]),
            np.concatenate([batch.allowed.temporal for batch in wirings]),
        ),
        order=np.concatenate([batch.order for batch in wirings]),
        decision=np.concatenate([batch.decision for batch in wirings]),
        decision_allowed=np.concatenate([batch.decision_allowed for batch in wirings]),
        chances=wirings[0].chances,
        speaks=np.concatenate(speaks) if speaks else None,
    )


_NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


def _both_kinds(agents: int, spatial: Ints) -> Edges[Ints]:
    """Adds the temporal edges of a graph: of every agent to itself, and of neighbours in either direction."""
    loops = np.column_stack([np.arange(agents)] * 2)
    return Edges(spatial, np.unique(np.concatenate([spatial, spatial[:, ::-1], loops]), axis=0))


def _drawn(agents: int, name: str, seed: int, draw: Callable[[int], nx.Graph]) -> Edges[Ints]:
    """Draws an undirected graph: of two neighbours, the later hears the earlier. A small team is complete."""
    if agents <= NEIGHBOURS + 1:
        return complete(agents)
    graph = draw(derive_seed(seed, name, agents) % 2**32)
    pairs = np.sort(np.array(graph.edges, dtype=np.int64).reshape(-1, 2), axis=1)
    return _both_kinds(agents, np.unique(pairs, axis=0))
