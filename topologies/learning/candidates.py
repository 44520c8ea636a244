"""The edges that a learner may choose among, as lists, and the logits that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from topologies import graphs
from topologies.edge_lists import Wiring
from topologies.learning.blocks import KINDS
from topologies.learning.settings import Graph
from topologies.wiring import Bools, Edges, Floats, Ints, sample_permutations


def edges_of(graph: Graph, agents: int, seed: int) -> Edges[Ints]:
    """A graph of so many agents; `seed` is that of a random one."""
    if graph is Graph.REGULAR:
        return graphs.regular(agents, seed=seed)
    if graph is Graph.SMALL_WORLD:
        return graphs.small_world(agents, seed=seed)
    make: Callable[[int], Edges[Ints]] = getattr(graphs, graph)
    return make(agents)


def around(graph: Edges[Ints]) -> Edges[Ints]:
    """What a learner may choose along a graph: each spatial edge in either direction, and its temporal ones."""
    return Edges(*(np.unique(np.concatenate(pairs), axis=0) for pairs in _both_ways(graph)))


def _both_ways(graph: Edges[Ints]) -> tuple[list[Ints], list[Ints]]:
    return [graph.spatial, graph.spatial[:, ::-1]], [graph.temporal]


@dataclass(frozen=True)
class Candidates:
    """Candidate edges by kind, and the logit of each.

    agents: their number. pairs: int [edges, 2], (sender, receiver), ascending; of `decision` (sender, 0).
    logit: int [edges], the place of each edge's logit. visual: bool [logits, 2], the modality at both ends.
    """

    agents: int
    pairs: Mapping[str, Ints]
    logit: Mapping[str, Tensor]
    visual: Mapping[str, Tensor]

    @classmethod
    def of(cls, edges: Edges[Ints], visual: Sequence[bool], roles: Sequence[str] | None = None) -> Candidates:
        """Candidates with a logit each, or with one for each pair of roles; visual, roles: of the agents."""
        n = len(visual)
        pairs = {**edges._asdict(), "decision": np.column_stack([np.arange(n), np.zeros(n, dtype=np.int64)])}
        # A logit for each pair of groups; an agent by itself is a group of one.
        group = np.arange(n) if roles is None else np.unique(roles, return_inverse=True)[1]
        ends, logit, of_ends = np.array(visual), {}, {}
        for kind, listed in pairs.items():
            senders, receivers = listed.T
            heard_by = np.zeros_like(receivers) if kind == "decision" else group[receivers]
            _, first, place = np.unique(group[senders] * n + heard_by, return_index=True, return_inverse=True)
            logit[kind] = torch.from_numpy(place)
            of_ends[kind] = torch.from_numpy(np.column_stack([ends[senders], ends[receivers]])[first])
        return cls(n, pairs, logit, of_ends)

    def counts(self, kind: str) -> Tensor:
        """The number of edges of each logit, int [logits]."""
        return torch.bincount(self.logit[kind], minlength=len(self.visual[kind]))

    def matrix(self, kind: str, values: Tensor, absent: float) -> Floats:
        """Values [logits] as a matrix [sender, receiver], `absent` where there is no candidate."""
        filled = np.full((self.agents, 1 if kind == "decision" else self.agents), absent)
        filled[tuple(self.pairs[kind].T)] = values[self.logit[kind]].double().numpy()
        return filled

    def sample(
        self,
        k: int,
        rounds: int,
        mask: Mapping[str, Tensor],
        chances: Mapping[str, Tensor],
        generator: Generator,
        orders: Tensor | None = None,
    ) -> ListedWirings:
        """Draws `k` wirings, of orders in which every spatial edge leads forwards.

        mask: bool [logits] by kind; chances: [rounds or 1, logits] by kind, all of which are drawn. orders: int
        [k, rounds], the sample whose order each takes (None: its own).
        """
        place = sample_permutations(k, rounds, self.agents, generator).argsort(dim=-1)
        if orders is not None:
            place = place[orders, torch.arange(rounds)]
        left = {kind: mask[kind][self.logit[kind]] for kind in KINDS}
        senders, receivers = torch.from_numpy(self.pairs["spatial"]).T
        spatial_allowed = (place[..., senders] < place[..., receivers]) & left["spatial"]
        temporal_allowed = left["temporal"].expand(k, rounds, -1).clone()
        temporal_allowed[:, :1] = False
        spatial = self._draw("spatial", chances, spatial_allowed, generator)
        temporal = torch.zeros_like(temporal_allowed)
        temporal[:, 1:] = self._draw("temporal", chances, temporal_allowed[:, 1:], generator)
        readable = left["decision"].expand(k, 1, -1)
        read = self._draw("decision", chances, readable, generator) if "decision" in chances else readable
        return ListedWirings(
            Edges(self.pairs["spatial"], self.pairs["temporal"]),
            spatial.numpy(),
            temporal.numpy(),
            Edges(spatial_allowed.numpy(), temporal_allowed.numpy()),
            read[:, 0].numpy().copy(),
            readable[:, 0].numpy().copy(),
        )

    def _draw(self, kind: str, chances: Mapping[str, Tensor], allowed: Tensor, generator: Generator) -> Tensor:
        drawn: Tensor = torch.rand(allowed.shape, generator=generator) < chances[kind][:, self.logit[kind]]
        return drawn & allowed


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
