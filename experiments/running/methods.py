"""What a run compares: the learned topology and what it should beat, each as a topology that answers questions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

import numpy as np

from actors.errors import UserError
from actors.messages import Question, Trace, derive_seed
from experiments.running.systems import SYSTEMS
from topologies import graphs
from topologies.defences.agreement import disagreement
from topologies.defences.anomaly import anomaly
from topologies.defences.challenger import Challenger
from topologies.defences.inspector import Inspector
from topologies.defences.majority import Majority
from topologies.defences.silenced import silenced
from topologies.graphs import as_wirings
from topologies.learning.peers import Peer
from topologies.learning.pruned import M3Prune, split
from topologies.single import Single
from topologies.topology import Topology, Wired, Wiring
from topologies.wiring import Bools, Edges

METHODS = {
    "closed_book": "one agent alone, without evidence",
    "single": "one agent alone, with all evidence",
    "full": "complete graph: everybody hears all that speak before, and everybody's previous round",
    "chain": "each agent hears the one before it",
    "star": "the first agent hears all the others",
    "tree": "a binary tree: two agents report to each one above them, up to the first",
    "layered": "two layers: each agent of the second hears all of the first",
    "debate": "nobody hears anybody inside a round, everybody everyone's previous round",
    "random": "as many edges and agents read as the learned graph has left, drawn anew for every question",
    "challenger": "complete graph in which all are told to challenge what they hear",
    "inspector": "complete graph in which an additional agent corrects every message before it is delivered",
    "majority": "all answer once by themselves and the most frequent answer wins",
    "agreement": "complete graph without those that agreed least in unlabelled discussions",
    "anomaly": "complete graph without those that behaved least like the others in unlabelled discussions",
    "agentprune": "the graph as AgentPrune learns it: policy gradient, low rank, one cut at the end",
    "gptswarm": "the graph as GPTSwarm learns it: policy gradient, edges likelier than not",
    "agentdropout": "the graph as AgentDropout learns it: first agents go, then edges",
    "m3prune": "the learned and pruned graph",
}
LEARNED = (*Peer, "random")  # those that need the learned graph
CALIBRATED = ("agreement", "anomaly")  # those that watch unlabelled discussions first
ALONE = ("closed_book", "single")  # those of one agent

_GRAPHS: dict[str, Callable[[int], Edges[Bools]]] = {
    "full": graphs.complete,
    "chain": graphs.chain,
    "star": graphs.star,
    "tree": graphs.tree,
    "layered": graphs.layered,
    "debate": graphs.debate,
    "challenger": graphs.complete,
    "inspector": graphs.complete,
}


def check_methods(methods: Sequence[str]) -> None:
    """Raises UserError for a method that does not exist, none at all, or one named twice."""
    known = (*METHODS, *SYSTEMS)
    for method in methods:
        if method not in known:
            near = difflib.get_close_matches(method, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UserError(f"unknown method {method!r}.{hint} Choose methods from {', '.join(known)}")
    if len(peers := [method for method in methods if method in tuple(Peer)]) > 1:
        raise UserError(f"methods: a run learns one graph, not {' and '.join(peers)}; use sweep.axes.methods")
    if not methods or len(set(methods)) < len(methods):
        raise UserError(f"methods={list(methods)}: name at least one, and each once")


def pairs(methods: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The paired tests of a run, of each pair the first minus the second: the learned graph, or else what is named
    last, against every other."""
    learned = learner_of(methods)
    ours = str(learned) if learned in methods else methods[-1]
    return tuple((ours, rival) for rival in methods if rival not in (ours, "closed_book"))


def learner_of(methods: Sequence[str]) -> Peer:
    """Who learns a graph in a run of these methods."""
    return next((Peer(method) for method in methods if method in tuple(Peer)), Peer.M3PRUNE)


def needs_team(methods: Sequence[str]) -> bool:
    """Whether any of them is a discussion of the team that the configuration names."""
    return any(method not in ALONE and method not in SYSTEMS for method in methods)


def make_method(
    name: str,
    agents: Sequence[str],
    rounds: int,
    seed: int,
    learned: M3Prune,
    watched: Sequence[Trace] = (),
    dropped: int = 1,
) -> Topology:
    """The topology behind a method's name.

    Args:
        learned: frozen, for those that need it.
        watched: unlabelled discussions of the complete graph, from which some methods find `dropped` agents to silence.
    """
    match name:
        case "closed_book":
            return Single(name, closed_book=True)
        case "single":
            return Single(name)
        case "random":
            return Wired(name, agents, random_like(learned.wiring, rounds, seed))
        case "majority":
            return Majority(name, agents)
        case "agreement" | "anomaly":
            suspicion = disagreement if name == "agreement" else anomaly
            return silenced(name, agents, rounds, suspicion, watched, dropped)
        case "m3prune" | "agentprune" | "gptswarm" | "agentdropout":
            return learned
    [wiring] = split(as_wirings(_GRAPHS[name](len(agents)), rounds))
    walk = Wired(name, agents, wiring)
    if name == "challenger":
        return Challenger(name, walk)
    return Inspector(name, walk, agents) if name == "inspector" else walk


def random_like(wiring: Wiring, rounds: int, seed: int) -> Callable[[Question], Wiring]:
    """As many spatial and temporal edges and as many agents read as in `wiring`, drawn anew for every question.

    One fixed random graph would be one draw of a very noisy baseline; this is its average.
    """
    agents = wiring.spatial.shape[-1]
    spatial, temporal = int(wiring.spatial[-1].sum()), int(wiring.temporal[-1].sum())
    readers = int(wiring.decision.sum())

    def wire(question: Question) -> Wiring:
        drawn = derive_seed(seed, "random graph", question.id)
        read = np.zeros(agents, dtype=bool)
        read[np.random.default_rng(drawn).permutation(agents)[:readers]] = True
        return split(as_wirings(graphs.random(agents, spatial, temporal, drawn), rounds, decision=read))[0]

    return wire
