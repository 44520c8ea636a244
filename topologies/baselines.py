"""Baselines: one agent that answers alone, and teams along a fixed graph."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import networkx as nx
import numpy as np

from actors.messages import Question, Trace, derive_seed
from topologies import graphs
from topologies.method import Method, MethodContext
from topologies.topology import SINGLE_AGENT, Ask, Discussion, Wired
from topologies.wiring import Bools, Edges, Ints, Wiring, in_rounds


class Single:
    """One turn of one agent, without evidence if `closed_book` (standard prompting)."""

    def __init__(self, method: str, closed_book: bool = False, agent: str = SINGLE_AGENT) -> None:
        self.method, self.agent = method, agent
        self._closed_book = closed_book

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        # Removed from the question, so that the trace lists no evidence either.
        shown = replace(question, evidence=()) if self._closed_book else question
        held = Discussion(self.method, shown, seed, sample)
        return held.trace((self.agent,), [await ask(held.turn(self.agent, 1))])


def best_single(context: MethodContext) -> Single:
    """Makes one turn of the agent whose answers alone were graded best in training; of equal ones, of the first.

    Grades come from the training discussions of the run's first learner: turns of round 1 that heard no other agent.
    """
    graded = context.known.graded
    return Single(context.method, agent=max(context.agents, key=lambda agent: graded.get(agent, -1.0)))


def constant_wiring(edges: Edges[Ints], agents: int, rounds: int, decision: Bools | None = None) -> Wiring:
    """Repeats pairs of each kind in every round. The decision agent reads `decision`, bool [agents], or all.

    Raises ValueError when the spatial edges close a cycle.
    """
    # Sorted, and each once.
    spatial, temporal = (np.unique(pairs.reshape(-1, 2), axis=0) for pairs in edges)
    if not nx.is_directed_acyclic_graph(nx.DiGraph(spatial.tolist())):
        raise ValueError("the spatial edges close a cycle: no agent could speak first")
    readers = np.ones(agents, dtype=bool) if decision is None else decision
    # No round comes before the first.
    return Wiring(rounds, in_rounds(spatial, range(rounds)), in_rounds(temporal, range(1, rounds)), readers)


def complete_wiring(agents: int, rounds: int) -> Wiring:
    """Wires each agent to all that speak before it, and to everyone's previous round."""
    return constant_wiring(graphs.complete(agents), agents, rounds)


def random_like(wiring: Wiring, rounds: int, seed: int) -> Callable[[Question], Wiring]:
    """Draws, for every question, as many edges and agents to read as `wiring` has.

    One fixed random graph would be one draw of a very noisy baseline. Rounds that differ are drawn one by one.
    """
    if wiring.by_round:
        return lambda question: _random_by_round(wiring, derive_seed(seed, "random graph", question.id))
    agents = wiring.agents
    # Counted in the last round, as no temporal edge leads into the first.
    spatial, temporal = (int((edges[:, 0] == wiring.rounds - 1).sum()) for edges in (wiring.spatial, wiring.temporal))
    readers = int(wiring.decision.sum())

    def wire(question: Question) -> Wiring:
        # By the question's id: neither order nor concurrency changes the graph of a question.
        drawn = derive_seed(seed, "random graph", question.id)
        read = np.zeros(agents, dtype=bool)
        read[np.random.default_rng(drawn).permutation(agents)[:readers]] = True
        return constant_wiring(graphs.random(agents, spatial, temporal, drawn), agents, rounds, decision=read)

    return wire


def _random_by_round(like: Wiring, seed: int) -> Wiring:
    """Draws as many agents, edges and readers as `like` has, round by round."""
    draw, agents = np.random.default_rng(seed), like.agents
    speaks = np.zeros((like.rounds, agents), dtype=bool)
    spatial, temporal = (np.bincount(edges[:, 0], minlength=like.rounds) for edges in (like.spatial, like.temporal))
    drawn: Edges[list[list[int]]] = Edges([], [])
    for t, number in enumerate(like.taking_part.sum(axis=1).tolist()):
        here = draw.permutation(agents)[:number]
        speaks[t, here] = True
        # In the drawn order, an edge leads from the earlier of two agents to the later: no cycle can close.
        pairs = np.stack(np.triu_indices(number, 1), axis=1)
        drawn.spatial.extend(in_rounds(here[draw.permutation(pairs)[: spatial[t]]], [t]).tolist())
        if t:
            pairs = np.argwhere(np.outer(speaks[t - 1], speaks[t]))
            drawn.temporal.extend(in_rounds(draw.permutation(pairs)[: temporal[t]], [t]).tolist())
    read = np.zeros(agents, dtype=bool)
    read[draw.permutation(np.flatnonzero(speaks[-1]))[: int(like.decision.sum())]] = True
    rows = Edges(*(np.array(sorted(kind), dtype=np.int64).reshape(-1, 3) for kind in drawn))
    return Wiring(like.rounds, rows.spatial, rows.temporal, read, speaks=speaks)


def wired(context: MethodContext, graph: Callable[[int], Edges[Ints]] = graphs.complete) -> Wired:
    """Puts the team on a fixed graph, made for its number of agents: pairs (sender, receiver) of each kind."""
    agents = len(context.agents)
    return Wired(context.method, context.agents, constant_wiring(graph(agents), agents, context.rounds))


def _on(graph: Callable[..., Edges[Ints]], description: str, drawn: bool = False) -> Method:
    """Makes the method of one of `graphs`; a `drawn` graph takes the run's seed."""

    def make(context: MethodContext) -> Wired:
        return wired(context, partial(graph, seed=context.seed) if drawn else graph)

    return Method(graph.__name__, description, make)


def random_graphs(context: MethodContext) -> Wired:
    # With `needs_graph`, learning is over when the topology is made.
    assert context.learned is not None
    return Wired(context.method, context.agents, random_like(context.learned.common, context.rounds, context.seed))


_alone = partial(Method, asks_team=False, alone=True)
METHODS = (
    _alone("closed_book", "one agent alone, without evidence", lambda context: Single(context.method, True)),
    _alone("single", "one agent alone, with all evidence", lambda context: Single(context.method)),
    Method("full", "complete graph: each agent hears all that speak before it, and everyone's previous round", wired),
    _on(graphs.chain, "each agent hears the one before it"),
    _on(graphs.star, "the first agent hears all the others"),
    _on(graphs.tree, "a binary tree: two agents report to each one above them, up to the first"),
    _on(graphs.layered, "two layers: each agent of the second hears all of the first"),
    _on(graphs.ring, "a chain whose ends hear each other's previous round"),
    _on(graphs.regular, "a random graph of four neighbours each, the same for all questions", drawn=True),
    _on(
        graphs.small_world,
        "a ring of four nearest neighbours with a tenth of the edges rewired, the same for all questions",
        drawn=True,
    ),
    _on(graphs.debate, "no agent hears another inside a round; each hears everyone's previous round"),
    Method(
        "random",
        "a random graph with as many edges and read agents as the learned one, drawn for every question",
        random_graphs,
        needs_graph=True,
    ),
    Method(
        "best_single",
        "the agent of the team whose answers alone scored best in training",
        best_single,
        needs_graph=True,
        alone=True,
        graded=True,
        rivals=("single", "full"),
    ),
)
