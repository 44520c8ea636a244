"""The edges of one discussion as lists: ten thousand agents with a few senders each take no more room than these.

A row of a list is (round, sender, receiver), rounds from 0, and rows ascend. Matrices are for what is dense by nature:
a learner's probabilities among up to a thousand agents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from topologies.wiring import Bools, Edges, Floats, Ints


@dataclass(frozen=True, slots=True)
class Wiring:
    """The edges of one discussion of N agents over T rounds.

    spatial: int [edges, 3]; acyclic in every round.
    temporal: int [edges, 3]; those of round t lead from round t - 1 to round t, so there are none of round 0.
    decision: bool [N]; the agents that the decision agent reads after the last round.
    spatial_p, temporal_p: float [edges]; probabilities, from which reading weights come (equal ones if None).
    allowed_spatial, allowed_temporal: int [edges, 3]; the edges that could have been drawn (those drawn if None).
    speaks: bool [T, N]; who takes part in each round (everybody if None). Whoever does not has no edges in it and takes
        no turn, and remembers in later rounds only the turns that it took.
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

    def __post_init__(self) -> None:
        """Raises ValueError where somebody hears an agent, or is to be heard by one, that does not take part."""
        if self.speaks is None:
            return
        ends = ((self.spatial, 0), (self.temporal, 1))  # with the rounds that a sender speaks before the receiver
        if (self.decision & ~self.speaks[-1]).any() or not all(
            self.speaks[edges[:, 0] - earlier, edges[:, 1]].all() and into(self.speaks, edges).all()
            for edges, earlier in ends
        ):
            raise ValueError("a wiring has an edge of an agent in a round in which that agent does not take part")

    @property
    def agents(self) -> int:
        return len(self.decision)

    @property
    def taking_part(self) -> Bools:
        """Who takes part in each round, bool [T, N]."""
        return np.ones((self.rounds, self.agents), dtype=bool) if self.speaks is None else self.speaks.copy()

    @property
    def by_round(self) -> bool:
        """Whether rounds differ, in their edges or in who takes part. No temporal edge leads into the first."""
        kinds = ((self.spatial, range(self.rounds)), (self.temporal, range(1, self.rounds)))
        return self.speaks is not None or any(
            not np.array_equal(edges, in_rounds(of_round(edges, self.rounds - 1), rounds)) for edges, rounds in kinds
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
    ) -> Wiring:
        """The wiring of bool matrices [T, sender, receiver]; probabilities: as for `of_edges`."""
        taken = Edges(listed(spatial), listed(temporal))
        return cls(
            len(spatial),
            *taken,
            decision,
            spatial_p=None if probabilities is None else of_edges(probabilities.spatial, taken.spatial),
            temporal_p=None if probabilities is None else of_edges(probabilities.temporal, taken.temporal),
            allowed_spatial=None if allowed is None else listed(allowed.spatial),
            allowed_temporal=None if allowed is None else listed(allowed.temporal),
            speaks=speaks,
        )


def listed(matrices: Bools) -> Ints:
    """The edges of bool matrices [T, sender, receiver]."""
    return np.argwhere(matrices)


def of_edges(matrix: Floats, edges: Ints) -> Floats:
    """A matrix's values at the edges of a list: [sender, receiver], of all rounds, or [T, sender, receiver]."""
    values: Floats = matrix[edges[:, 1], edges[:, 2]] if matrix.ndim == 2 else matrix[tuple(edges.T)]
    return values


def of_round(edges: Ints, number: int) -> Ints:
    """The pairs (sender, receiver) of one round's edges."""
    pairs: Ints = edges[edges[:, 0] == number, 1:]
    return pairs


def in_rounds(pairs: Ints, rounds: Iterable[int]) -> Ints:
    """Pairs (sender, receiver) as the edges of some rounds."""
    each = [np.column_stack([np.full(len(pairs), number), pairs]) for number in rounds]
    return np.concatenate([np.zeros((0, 3), dtype=np.int64), *each])


def into(turns: Bools, edges: Ints) -> Bools:
    """The edges that lead to some turns, bool [edges]; turns: bool [T, N]."""
    found: Bools = turns[edges[:, 0], edges[:, 2]]
    return found


def needed_turns(wiring: Wiring) -> Bools:
    """The turns with a path to the decision agent, on which the answer depends, bool [T, N].

    An agent's own last turn counts as heard, because it remembers it. All that a needed turn hears is needed.
    """
    needed = wiring.taking_part
    after = np.array(wiring.decision, dtype=bool)
    # Everyone's last turn is needed, and through their own memories all earlier turns with it.
    if after.all():
        return needed
    spatial, temporal = senders(wiring.spatial), senders(wiring.temporal)
    for t in reversed(range(wiring.rounds)):
        found = set(np.flatnonzero(after).tolist())
        waiting = list(found)
        while waiting:  # within a round a path may have several edges
            new = [j for j in spatial.get((t, waiting.pop()), ()) if j not in found]
            found.update(new)
            waiting += new
        after[list(found)] = True
        needed[t] &= after
        # All of them stay part of it: an agent whose turn is needed remembers its turns of the rounds before.
        after[[j for i in found for j in temporal.get((t, i), ())]] = True
    return needed


def senders(edges: Ints) -> dict[tuple[int, int], list[int]]:
    """The senders of each turn (round, receiver) that has any, ascending."""
    heard: dict[tuple[int, int], list[int]] = {}
    for t, j, i in edges.tolist():
        heard.setdefault((t, i), []).append(j)
    return heard


def weighed_senders(edges: Ints, probabilities: Floats | None, agents: int) -> dict[tuple[int, int], dict[int, float]]:
    """The senders of each turn (round, receiver) that has any, with their reading weights."""
    weights = reading_weights(edges, probabilities, agents).tolist()
    heard: dict[tuple[int, int], dict[int, float]] = {}
    for (t, j, i), weight in zip(edges.tolist(), weights, strict=True):
        heard.setdefault((t, i), {})[j] = weight
    return heard


def reading_weights(edges: Ints, probabilities: Floats | None, agents: int) -> Floats:
    """Softmax of p over the senders that each turn hears (Eqs. 6, 10), float [edges]; they sum to 1.

    probabilities: float [edges]; None: all alike.
    """
    # No shift by the maximum: probabilities are at most 1, so exp cannot overflow.
    each = np.exp(np.ones(len(edges)) if probabilities is None else probabilities)
    turns = edges[:, 0] * agents + edges[:, 2]
    shares: Floats = each / np.bincount(turns, weights=each)[turns] if len(edges) else each
    return shares


@dataclass(frozen=True)
class ListedWirings:
    """The wirings of `k` discussions along candidate edges: `Wirings` without matrices of all pairs.

    pairs: int [edges, 2] of each kind. spatial, temporal: edges taken, bool [k, rounds, edges]; allowed: those that
    could have been drawn. decision, decision_allowed: bool [k, agents].
    """

    pairs: Edges[Ints]
    spatial: Bools
    temporal: Bools
    allowed: Edges[Bools]
    decision: Bools
    decision_allowed: Bools

    def drawn(self) -> dict[str, tuple[Bools, Bools]]:
        """By kind, the edges that could be drawn and those that were, [k, rounds, edges]."""
        return {
            "spatial": (self.allowed.spatial, self.spatial),
            # Nothing leads into the first round, so there was nothing to draw.
            "temporal": (self.allowed.temporal[:, 1:], self.temporal[:, 1:]),
            "decision": (self.decision_allowed[:, None], self.decision[:, None]),
        }

    def split(self, probabilities: Edges[Floats] | None = None) -> list[Wiring]:
        """The wirings one by one, with the probabilities [edges] that reading weights come from."""
        return [self._one(k, probabilities) for k in range(len(self.spatial))]

    def _one(self, k: int, probabilities: Edges[Floats] | None) -> Wiring:
        rounds, (spatial, p_spatial), (temporal, p_temporal) = (
            self.spatial.shape[1],
            *(self._listed(kind, getattr(self, kind)[k], probabilities) for kind in Edges._fields),
        )
        could = Edges(*(self._listed(kind, getattr(self.allowed, kind)[k], None)[0] for kind in Edges._fields))
        return Wiring(rounds, spatial, temporal, self.decision[k], p_spatial, p_temporal, could.spatial, could.temporal)

    def _listed(self, kind: str, taken: Bools, probabilities: Edges[Floats] | None) -> tuple[Ints, Floats | None]:
        rounds, edges = np.nonzero(taken)
        rows = np.column_stack([rounds, getattr(self.pairs, kind)[edges]])
        if probabilities is None:
            return rows, None
        p: Floats = getattr(probabilities, kind)
        return rows, p[edges]
