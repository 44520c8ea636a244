"""The edges that a learner may choose among, as lists, and the logits that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from topologies.edge_lists import ListedWirings
from topologies.learning.draws import sample_permutations
from topologies.wiring import KINDS, Edges, Floats, Ints


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
