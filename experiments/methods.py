"""What a run compares: the learned topology and what it should beat, each as a topology that answers questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.messages import Question, derive_seed
from experiments.errors import UserError
from topologies.graphs import as_wirings, complete, random
from topologies.pruned import M3Prune, split
from topologies.single import Single
from topologies.topology import Topology, Wired, Wiring

METHODS = ("closed_book", "single", "full", "random", "m3prune")
# The paired tests of a run: of each pair, the first minus the second.
PAIRS = (("m3prune", "full"), ("m3prune", "random"), ("m3prune", "single"))


def check_methods(methods: Sequence[str]) -> None:
    """Raises UserError for a method that does not exist, none at all, or one named twice."""
    for method in methods:
        if method not in METHODS:
            raise UserError(f"unknown method {method!r}: choose methods from {', '.join(METHODS)}")
    if not methods or len(set(methods)) < len(methods):
        raise UserError(f"methods={list(methods)}: name at least one, and each once")


def make_method(name: str, agents: Sequence[str], rounds: int, seed: int, learned: M3Prune) -> Topology:
    """The topology behind a method's name; `learned` must be frozen."""
    match name:
        case "closed_book":
            return Single(name, closed_book=True)
        case "single":
            return Single(name)
        case "full":
            [wiring] = split(as_wirings(complete(len(agents)), rounds))
            return Wired(name, agents, wiring)
        case "random":
            return Wired(name, agents, random_like(learned.wiring, rounds, seed))
        case _:
            return learned


def random_like(wiring: Wiring, rounds: int, seed: int) -> Callable[[Question], Wiring]:
    """As many spatial and temporal edges as `wiring` has, drawn anew for every question.

    One fixed random graph would be one draw of a very noisy baseline; this is its average.
    """
    agents = wiring.spatial.shape[-1]
    spatial, temporal = int(wiring.spatial[-1].sum()), int(wiring.temporal[-1].sum())

    def wire(question: Question) -> Wiring:
        edges = random(agents, spatial, temporal, derive_seed(seed, "random graph", question.id))
        return split(as_wirings(edges, rounds, decision=wiring.decision))[0]

    return wire
