"""Wirings, the edges of discussions: one as lists of edges, a batch as matrices.

Every matrix is `[sender, receiver]`, as a networkx adjacency is. Edges are *spatial* (inside a round, where they form
a DAG) or *temporal* (from one round to the next). A row of a list is (round, sender, receiver), rounds from 0, and rows
ascend. Lists hold ten thousand agents with a few senders each; matrices are for a learner of up to a thousand agents.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

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


def check_shape(name: str, array: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    """Raises ValueError for an array of another shape."""
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")


def check_shapes(wirings: Wirings, rounds: int, agents: int) -> None:
    """Raises ValueError unless these are wirings, at least one, of so many agents over so many rounds."""
    k = max(1, len(wirings.spatial))
    square = (k, rounds, agents, agents)
    check_shape("wirings.spatial", wirings.spatial, square)
    check_shape("wirings.temporal", wirings.temporal, square)
    check_shape("wirings.allowed.spatial", wirings.allowed.spatial, square)
    check_shape("wirings.allowed.temporal", wirings.allowed.temporal, square)
    check_shape("wirings.decision", wirings.decision, (k, agents))
    check_shape("wirings.decision_allowed", wirings.decision_allowed, (k, agents))
    for kind, chances in wirings.chances.items():
        receivers = 1 if kind == "decision" else agents
        # One matrix, or one for each round.
        check_shape(f"wirings.chances[{kind}]", chances, (len(chances), agents, receivers))


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
        if self.speaks is not None:
            return True
        for edges, first_round in ((self.spatial, 0), (self.temporal, 1)):
            in_last = edges[edges[:, 0] == self.rounds - 1, 1:]
            if not np.array_equal(edges, in_rounds(in_last, range(first_round, self.rounds))):
                return True
        return False

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
        spatial_p = temporal_p = allowed_spatial = allowed_temporal = None
        if probabilities is not None:
            # A mask picks values in the order of `argwhere`.
            spatial_p = np.broadcast_to(probabilities.spatial, spatial.shape)[spatial]
            temporal_p = np.broadcast_to(probabilities.temporal, temporal.shape)[temporal]
        if allowed is not None:
            allowed_spatial = np.argwhere(allowed.spatial)
            allowed_temporal = np.argwhere(allowed.temporal)

        return cls(
            len(spatial),
            np.argwhere(spatial),
            np.argwhere(temporal),
            decision=decision,
            spatial_p=spatial_p,
            temporal_p=temporal_p,
            allowed_spatial=allowed_spatial,
            allowed_temporal=allowed_temporal,
            speaks=speaks,
        )


def in_rounds(pairs: Ints, rounds: Iterable[int]) -> Ints:
    """Repeats pairs (sender, receiver) as the edges of some rounds."""
    edges = [np.column_stack([np.full(len(pairs), round), pairs]) for round in rounds]
    return np.concatenate([np.zeros((0, 3), dtype=np.int64), *edges])


def into(turns: Bools, edges: Ints) -> Bools:
    """Returns the edges that lead to some turns, bool [edges]; turns: bool [T, N]."""
    lead_there: Bools = turns[edges[:, 0], edges[:, 2]]
    return lead_there


def needed_turns(wiring: Wiring) -> Bools:
    """Finds turns with a path of messages and memories to the decision agent, bool [T, N]."""
    spatial = weighed_senders(wiring.spatial, None, wiring.agents)
    temporal = weighed_senders(wiring.temporal, None, wiring.agents)
    is_needed = np.zeros((wiring.rounds, wiring.agents), dtype=bool)

    waiting = [(wiring.rounds - 1, reader) for reader in np.flatnonzero(wiring.decision).tolist()]
    while waiting:
        round, agent = waiting.pop()
        if is_needed[round, agent]:
            continue
        is_needed[round, agent] = True
        waiting += [(round, sender) for sender in spatial.get((round, agent), ())]
        if round:
            waiting += [(round - 1, sender) for sender in temporal.get((round, agent), ())]
            # An agent whose turn is needed remembers its turns of the rounds before.
            waiting.append((round - 1, agent))
    return is_needed & wiring.taking_part


def weighed_senders(edges: Ints, probabilities: Floats | None, agents: int) -> dict[tuple[int, int], dict[int, float]]:
    """Maps the senders of each turn (round, receiver) that has any, ascending, to their reading weights."""
    weights = reading_weights(edges, probabilities, agents).tolist()
    senders: dict[tuple[int, int], dict[int, float]] = {}
    for (round, sender, receiver), weight in zip(edges.tolist(), weights, strict=True):
        senders.setdefault((round, receiver), {})[sender] = weight
    return senders


def reading_weights(edges: Ints, probabilities: Floats | None, agents: int) -> Floats:
    """Softmax of p [edges] over the senders that each turn hears (Eqs. 6, 10), float [edges]; None: all alike."""
    if not len(edges):
        return np.zeros(0)
    if probabilities is None:
        probabilities = np.ones(len(edges))
    # No shift by the maximum: probabilities are at most 1, so exp cannot overflow.
    exponentials = np.exp(probabilities)
    turns = edges[:, 0] * agents + edges[:, 2]
    weights: Floats = exponentials / np.bincount(turns, weights=exponentials)[turns]
    return weights
