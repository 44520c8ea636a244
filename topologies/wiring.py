"""Wirings, the edges of discussions: one as lists of edges, a batch as matrices.

Every matrix is `[sender, receiver]`, as a networkx adjacency is. Edges are *spatial* (inside a round, where they form
a DAG) or *temporal* (from one round to the next). A row of a list is (round, sender, receiver), rounds from 0, and rows
ascend. Lists hold ten thousand agents with a few senders each; matrices are for a learner of up to a thousand agents.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
T = TypeVar("T")

KINDS = ("spatial", "temporal", "decision")  # those of `Edges`, and edges to the decision agent


class Edges(NamedTuple, Generic[T]):
    """One matrix for each kind of edge."""

    spatial: T
    temporal: T


@dataclass(frozen=True)
class Wirings:
    """Communication graphs of `k` discussions among `n` agents.

    spatial, temporal: edges taken, bool [k, rounds, sender, receiver]; `temporal[:, t]` are the edges from round t - 1
        to round t, so `temporal[:, 0]` is empty. `spatial[a, t]` is acyclic.
    allowed: edges that could have been drawn, the same shapes.
    order: int [k, rounds, n], agents in an order that every spatial edge follows; agents that do not wait for each
        other may speak at once.
    decision: bool [k, n], the agents that the decision agent reads after the last round.
    decision_allowed: bool [k, n], the agents that it could have read.
    chances: by kind of edge drawn, the probability of each, [rounds or 1, sender, receiver]; empty where none is drawn.
    speaks: bool [k, rounds, n], the agents that take part in each round (all if None); others have no edges in it.
    features: [k, d], of each wiring's question (None: not given).
    """

    spatial: Bools
    temporal: Bools
    allowed: Edges[Bools]
    order: Ints
    decision: Bools
    decision_allowed: Bools
    chances: Mapping[str, Floats] = field(default_factory=dict)
    speaks: Bools | None = None
    features: Floats | None = None


def check_shapes(wirings: Wirings, rounds: int, agents: int) -> None:
    """Raises ValueError unless these are wirings of so many agents over so many rounds."""
    k = len(wirings.spatial)
    square, column = (k, rounds, agents, agents), (k, agents)
    matrices = ("spatial", "temporal", "allowed.spatial", "allowed.temporal")
    expected = dict.fromkeys(matrices, square) | dict.fromkeys(("decision", "decision_allowed"), column)
    for name, shape in expected.items():
        array = attrgetter(name)(wirings)
        # An empty batch would pass the comparison of shapes.
        if array.shape != shape or not k:
            raise ValueError(f"wirings.{name} has shape {array.shape}, expected {shape} with at least one wiring")
    for kind, chance in wirings.chances.items():
        matrix = (agents, 1 if kind == "decision" else agents)
        if chance.ndim != 3 or chance.shape[1:] != matrix:
            raise ValueError(f"wirings.chances[{kind}] has shape {chance.shape}, expected (1 or rounds, *{matrix})")


@dataclass(frozen=True, slots=True)
class Wiring:
    """Edges of one discussion of N agents over T rounds.

    spatial: int [edges, 3]; acyclic in every round.
    temporal: int [edges, 3]; edges of round t lead from round t - 1 to round t, so there are none of round 0.
    decision: bool [N]; the agents that the decision agent reads after the last round.
    spatial_p, temporal_p: float [edges]; probabilities, which give the reading weights (equal ones if None).
    allowed_spatial, allowed_temporal: int [edges, 3]; the edges that could have been drawn (the drawn ones if None).
    speaks: bool [T, N]; the agents that take part in each round (all if None). Others have no edges and no turn in it.
    """

    rounds: int
    spatial: Ints
    temporal: Ints
    decision: Bools
    spatial_p: Floats | None = None
    temporal_p: Floats | None = None
    allowed_spatial: Ints | None = None
    allowed_temporal: Ints | None = None
    speaks: Bools | None = None

    @property
    def agents(self) -> int:
        return len(self.decision)

    @property
    def taking_part(self) -> Bools:
        """Agents that take part in each round, bool [T, N]."""
        return np.ones((self.rounds, self.agents), dtype=bool) if self.speaks is None else self.speaks.copy()

    @property
    def by_round(self) -> bool:
        """True if rounds differ in their edges or agents."""
        kinds = ((self.spatial, range(self.rounds)), (self.temporal, range(1, self.rounds)))
        return self.speaks is not None or any(
            not np.array_equal(edges, in_rounds(edges[edges[:, 0] == self.rounds - 1, 1:], rounds))
            for edges, rounds in kinds
        )

    @classmethod
    def of_matrices(
        cls,
        spatial: Bools,
        temporal: Bools,
        decision: Bools,
        probabilities: Edges[Floats] | None = None,
        allowed: Edges[Bools] | None = None,
        speaks: Bools | None = None,
    ) -> "Wiring":
        """Returns the wiring of bool matrices [T, sender, receiver]; probabilities: of those, or [sender, receiver]."""
        matrices = (spatial, temporal)
        taken = [np.argwhere(edges) for edges in matrices]
        # A mask picks values in the order of `argwhere`.
        chances = zip(matrices, probabilities or (None, None), strict=True)
        p = [None if of is None else np.broadcast_to(of, edges.shape)[edges] for edges, of in chances]
        could = [None if of is None else np.argwhere(of) for of in allowed or (None, None)]
        return cls(len(spatial), taken[0], taken[1], decision, p[0], p[1], could[0], could[1], speaks)


def in_rounds(pairs: Ints, rounds: Iterable[int]) -> Ints:
    """Repeats pairs (sender, receiver) as the edges of some rounds."""
    each = [np.column_stack([np.full(len(pairs), number), pairs]) for number in rounds]
    return np.concatenate([np.zeros((0, 3), dtype=np.int64), *each])


def into(turns: Bools, edges: Ints) -> Bools:
    """Returns the edges that lead to some turns, bool [edges]; turns: bool [T, N]."""
    found: Bools = turns[edges[:, 0], edges[:, 2]]
    return found


def needed_turns(wiring: Wiring) -> Bools:
    """Finds turns with a path of messages and memories to the decision agent, bool [T, N]."""
    needed = wiring.taking_part
    after = np.array(wiring.decision, dtype=bool)
    # All last turns are needed, and through the agents' memories all earlier turns.
    if after.all():
        return needed
    spatial, temporal = (weighed_senders(edges, None, wiring.agents) for edges in (wiring.spatial, wiring.temporal))
    for t in reversed(range(wiring.rounds)):
        found = set(np.flatnonzero(after).tolist())
        waiting = list(found)
        while waiting:  # within a round a path may have several edges
            new = [j for j in spatial.get((t, waiting.pop()), ()) if j not in found]
            found.update(new)
            waiting += new
        after[list(found)] = True
        needed[t] &= after
        # `after` only grows: an agent whose turn is needed remembers its turns of the rounds before.
        after[[j for i in found for j in temporal.get((t, i), ())]] = True
    return needed


def weighed_senders(edges: Ints, probabilities: Floats | None, agents: int) -> dict[tuple[int, int], dict[int, float]]:
    """Maps the senders of each turn (round, receiver) that has any, ascending, to their reading weights."""
    weights = reading_weights(edges, probabilities, agents).tolist()
    heard: dict[tuple[int, int], dict[int, float]] = {}
    for (t, j, i), weight in zip(edges.tolist(), weights, strict=True):
        heard.setdefault((t, i), {})[j] = weight
    return heard


def reading_weights(edges: Ints, probabilities: Floats | None, agents: int) -> Floats:
    """Softmax of p [edges] over the senders that each turn hears (Eqs. 6, 10), float [edges]; None: all alike."""
    # No shift by the maximum: probabilities are at most 1, so exp cannot overflow.
    each = np.exp(np.ones(len(edges)) if probabilities is None else probabilities)
    turns = edges[:, 0] * agents + edges[:, 2]
    shares: Floats = each / np.bincount(turns, weights=each)[turns] if len(edges) else each
    return shares
