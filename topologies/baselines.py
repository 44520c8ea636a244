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
        self.method = method
        self.agent = agent
        self._closed_book = closed_book

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        # Removed from the question, so that the trace lists no evidence either.
        question_shown = replace(question, evidence=()) if self._closed_book else question
        discussion = Discussion(self.method, question_shown, seed, sample)
        message = await ask(discussion.turn(self.agent, 1))
        return discussion.trace((self.agent,), [message])


def best_single(context: MethodContext) -> Single:
    """Makes one turn of the agent whose answers alone were graded best in training; of equal ones, of the first.

    Grades come from the training discussions of the run's first learner: turns of round 1 that heard no other agent.
    """
    scores = context.known.graded
    return Single(context.method, agent=max(context.agents, key=lambda agent: scores.get(agent, -1.0)))


def constant_wiring(edges: Edges[Ints], agents: int, rounds: int, decision: Bools | None = None) -> Wiring:
    """Repeats pairs of each kind in every round. The decision agent reads `decision`, bool [agents], or all.

    Raises ValueError when the spatial edges close a cycle.
    """
    # Sorted, and each once.
    spatial = np.unique(edges.spatial.reshape(-1, 2), axis=0)
    temporal = np.unique(edges.temporal.reshape(-1, 2), axis=0)
    if not nx.is_directed_acyclic_graph(nx.DiGraph(spatial.tolist())):
        raise ValueError("the spatial edges close a cycle: no agent could speak first")
    readers = np.ones(agents, dtype=bool) if decision is None else decision
    # No round comes before the first.
    return Wiring(rounds, in_rounds(spatial, range(rounds)), in_rounds(temporal, range(1, rounds)), readers)


def complete_wiring(agents: int, rounds: int) -> Wiring:
    """Wires each agent to all that speak before it, and to everyone's previous round."""
    return constant_wiring(graphs.complete(agents), agents, rounds)


def random_like(wiring: Wiring, seed: int) -> Callable[[Question], Wiring]:
    """Draws, for every question, as many edges and agents to read as `wiring` has.

    One fixed random graph would be one draw of a very noisy baseline. Rounds that differ are drawn one by one.
    """
    if wiring.by_round:
        return lambda question: _random_by_round(wiring, derive_seed(seed, "random graph", question.id))
    # Counted in the last round, as no temporal edge leads into the first.
    last_round = wiring.rounds - 1
    spatial = int((wiring.spatial[:, 0] == last_round).sum())
    temporal = int((wiring.temporal[:, 0] == last_round).sum())
    readers = int(wiring.decision.sum())

    def wire(question: Question) -> Wiring:
        # By the question's id: neither order nor concurrency changes the graph of a question.
        question_seed = derive_seed(seed, "random graph", question.id)

        decision = np.zeros(wiring.agents, dtype=bool)
        decision[np.random.default_rng(question_seed).permutation(wiring.agents)[:readers]] = True
        graph = graphs.random(wiring.agents, spatial, temporal, question_seed)
        return constant_wiring(graph, wiring.agents, wiring.rounds, decision)

    return wire


def _random_by_round(wiring: Wiring, seed: int) -> Wiring:
    """Draws as many agents, edges and readers as `wiring` has, round by round."""
    draw = np.random.default_rng(seed)
    speaks = np.zeros((wiring.rounds, wiring.agents), dtype=bool)
    spatial_numbers = np.bincount(wiring.spatial[:, 0], minlength=wiring.rounds)
    temporal_numbers = np.bincount(wiring.temporal[:, 0], minlength=wiring.rounds)

    spatial = np.zeros((wiring.rounds, wiring.agents, wiring.agents), dtype=bool)
    temporal = np.zeros_like(spatial)
    for round, number in enumerate(wiring.taking_part.sum(axis=1).tolist()):
        speakers = draw.permutation(wiring.agents)[:number]
        speaks[round, speakers] = True
        # In the drawn order, an edge leads from the earlier of two agents to the later: no cycle can close.
        pairs = np.stack(np.triu_indices(number, 1), axis=1)
        drawn_pairs = speakers[draw.permutation(pairs)[: spatial_numbers[round]]]
        spatial[round, drawn_pairs[:, 0], drawn_pairs[:, 1]] = True
        if round:
            pairs = np.argwhere(np.outer(speaks[round - 1], speaks[round]))
            drawn_pairs = draw.permutation(pairs)[: temporal_numbers[round]]
            temporal[round, drawn_pairs[:, 0], drawn_pairs[:, 1]] = True

    decision = np.zeros(wiring.agents, dtype=bool)
    decision[draw.permutation(np.flatnonzero(speaks[-1]))[: int(wiring.decision.sum())]] = True
    return Wiring.of_matrices(spatial, temporal, decision, speaks=speaks)


def wired(context: MethodContext, graph: Callable[[int], Edges[Ints]] = graphs.complete) -> Wired:
    """Puts the team on a fixed graph, made for its number of agents: pairs (sender, receiver) of each kind."""
    agents = len(context.agents)
    return Wired(context.method, context.agents, constant_wiring(graph(agents), agents, context.rounds))


def _on(graph: Callable[..., Edges[Ints]], description: str) -> Method:
    """Makes the method of one of `graphs`."""

    def make(context: MethodContext) -> Wired:
        if graph in graphs.DRAWN:
            return wired(context, partial(graph, seed=context.seed))
        return wired(context, graph)

    return Method(graph.__name__, description, make)


def random_graphs(context: MethodContext) -> Wired:
    # With `needs_graph`, learning is over when the topology is made.
    assert context.learned is not None
    return Wired(context.method, context.agents, random_like(context.learned.common, context.seed))


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
    _on(graphs.regular, "a random graph of four neighbours each, the same for all questions"),
    _on(
        graphs.small_world,
        "a ring of four nearest neighbours with a tenth of the edges rewired, the same for all questions",
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
