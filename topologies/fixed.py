"""Methods in which the team discusses along a graph that nobody learns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from actors.messages import Question, derive_seed
from topologies import graphs
from topologies.graphs import as_wirings
from topologies.method import Method, MethodContext
from topologies.topology import Wired, Wiring
from topologies.wiring import Bools, Edges


def constant_wiring(edges: Edges[Bools], rounds: int, decision: Bools | None = None) -> Wiring:
    """The same edges in every round; the decision agent reads `decision`, bool [agents], or everyone."""
    wirings = as_wirings(edges, rounds, decision=decision)
    # `as_wirings` makes a batch; a discussion takes its only element.
    return Wiring(
        spatial=wirings.spatial[0],
        temporal=wirings.temporal[0],
        decision=wirings.decision[0],
        allowed_spatial=wirings.allowed.spatial[0],
        allowed_temporal=wirings.allowed.temporal[0],
    )


def random_like(wiring: Wiring, rounds: int, seed: int) -> Callable[[Question], Wiring]:
    """As many spatial and temporal edges and as many agents read as in `wiring`, drawn anew for every question.

    One fixed random graph would be one draw of a very noisy baseline; this is its average.
    """
    agents = wiring.spatial.shape[-1]
    # Counted in the last round, as no temporal edge leads into the first.
    spatial, temporal = int(wiring.spatial[-1].sum()), int(wiring.temporal[-1].sum())
    readers = int(wiring.decision.sum())

    def wire(question: Question) -> Wiring:
        # By the question's id: neither order nor concurrency changes the graph of a question.
        drawn = derive_seed(seed, "random graph", question.id)
        read = np.zeros(agents, dtype=bool)
        read[np.random.default_rng(drawn).permutation(agents)[:readers]] = True
        return constant_wiring(graphs.random(agents, spatial, temporal, drawn), rounds, decision=read)

    return wire


def wired(context: MethodContext, graph: Callable[[int], Edges[Bools]] = graphs.complete) -> Wired:
    """The team on a fixed graph, which is made for its number of agents."""
    return Wired(context.method, context.agents, constant_wiring(graph(len(context.agents)), context.rounds))


def _random(context: MethodContext) -> Wired:
    # With `needs_graph`, learning is over when the topology is made.
    assert context.learned is not None
    return Wired(context.method, context.agents, random_like(context.learned.wiring, context.rounds, context.seed))


METHODS = (
    Method("full", "complete graph: everybody hears all that speak before, and everybody's previous round", wired),
    Method("chain", "each agent hears the one before it", partial(wired, graph=graphs.chain)),
    Method("star", "the first agent hears all the others", partial(wired, graph=graphs.star)),
    Method(
        "tree",
        "a binary tree: two agents report to each one above them, up to the first",
        partial(wired, graph=graphs.tree),
    ),
    Method(
        "layered", "two layers: each agent of the second hears all of the first", partial(wired, graph=graphs.layered)
    ),
    Method(
        "debate",
        "nobody hears anybody inside a round, everybody everyone's previous round",
        partial(wired, graph=graphs.debate),
    ),
    Method(
        "random",
        "as many edges and agents read as the learned graph has left, drawn anew for every question",
        _random,
        needs_graph=True,
    ),
)
