"""Wirings, who hears whom in a batch of discussions.

Every matrix is `[sender, receiver]`, as a networkx adjacency is. Edges are *spatial* (inside a round, where they form
a DAG) or *temporal* (from one round to the next).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
T = TypeVar("T")

KINDS = ("spatial", "temporal", "decision")
"""Of edges: those of `Edges`, and whom the decision agent reads."""


class Edges(NamedTuple, Generic[T]):
    """One matrix for each kind of edge."""

    spatial: T
    temporal: T


@dataclass(frozen=True)
class Wirings:
    """The communication graphs of `k` discussions among `n` agents.

    spatial, temporal: edges taken, bool [k, rounds, sender, receiver]; `temporal[:, t]` are the edges from round t - 1
        to round t, so `temporal[:, 0]` is empty. `spatial[a, t]` is acyclic.
    allowed: edges that could have been drawn, the same shapes.
    order: int [k, rounds, n], agents in an order that every spatial edge follows; agents that do not wait for each
        other may speak at once.
    decision: bool [k, n], whom the decision agent reads after the last round.
    decision_allowed: bool [k, n], whom it could have read.
    chances: by kind of edge that was drawn, the probability of each one that could be, [rounds or 1, sender, receiver];
        empty for wirings that are not drawn.
    speaks: bool [k, rounds, n], who takes part in each round (everybody if None); whoever does not has no edges in it.
    draws: int [k, rounds], the first sample with the very draws that a sample has for its edges of (and into) a round;
        None where every sample was drawn by itself.
    """

    spatial: Bools
    temporal: Bools
    allowed: Edges[Bools]
    order: Ints
    decision: Bools
    decision_allowed: Bools
    chances: Mapping[str, Floats] = field(default_factory=dict)
    speaks: Bools | None = None
    draws: Ints | None = None


def drawn(wirings: Wirings) -> dict[str, tuple[Bools, Bools]]:
    """By kind, the edges that could be drawn and those that were, [k, rounds, sender, receiver]; one receiver for the
    decision agent."""
    return {
        "spatial": (wirings.allowed.spatial, wirings.spatial),
        # Nothing leads into the first round, so there was nothing to draw.
        "temporal": (wirings.allowed.temporal[:, 1:], wirings.temporal[:, 1:]),
        "decision": (wirings.decision_allowed[:, None, :, None], wirings.decision[:, None, :, None]),
    }


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
