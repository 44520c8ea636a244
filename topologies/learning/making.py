"""Makes learners from their specifications, and the graphs among whose edges they choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from topologies import graphs
from topologies.learning.learner_settings import Graph
from topologies.learning.spec import LearnerSpec
from topologies.wiring import Edges, Ints

if TYPE_CHECKING:
    from topologies.learning.learner import Learner


def make_learner(spec: LearnerSpec) -> Learner:
    """Makes a learner in the calling process, which imports PyTorch only now. Raises UserError on bad settings."""
    from topologies.learning.learner import Learner
    from topologies.learning.sparse_learner import SparseLearner

    return (Learner if spec.candidates is None else SparseLearner)(**vars(spec))


def graph_of(graph: Graph, agents: int, seed: int) -> Edges[Ints]:
    """Makes a graph of so many agents; `seed` is for random ones."""
    make: Callable[..., Edges[Ints]] = getattr(graphs, graph)
    return make(agents, seed=seed) if graph in (Graph.REGULAR, Graph.SMALL_WORLD) else make(agents)


def candidates_along(graph: Edges[Ints]) -> Edges[Ints]:
    """Candidate edges along a graph: each spatial edge in either direction, and its temporal ones."""
    both_ways = np.concatenate([graph.spatial, graph.spatial[:, ::-1]])
    return Edges(np.unique(both_ways, axis=0), np.unique(graph.temporal, axis=0))
