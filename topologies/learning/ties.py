"""Edges between agents among which a learner chooses, and which of them share a logit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from topologies.learning.spec import LearnerSpec


@dataclass(frozen=True)
class Ties:
    """Each edge has a logit, or all edges between the same two roles have one (`topology.tied`).

    A learner's matrices are [unit, unit], a unit being an agent or a role; `decision` is a column [unit, 1].

    edges: by kind, the edges between agents, bool [agent, agent]; `decision`: [agent, 1].
    unit: int [agents], the role of each agent; None where agents are units.
    """

    edges: Mapping[str, Tensor]
    unit: Tensor | None

    @classmethod
    def of(cls, spec: LearnerSpec) -> Ties:
        """The edges of a learner, all pairs of agents or its candidates. No agent hears itself within a round."""
        n = len(spec.modalities)
        edges = {"spatial": ~torch.eye(n, dtype=torch.bool), "temporal": torch.ones(n, n, dtype=torch.bool)}
        for kind, pairs in ({} if spec.candidates is None else spec.candidates._asdict()).items():
            listed = torch.zeros(n, n, dtype=torch.bool)
            listed[tuple(torch.from_numpy(pairs).T)] = True
            edges[kind] &= listed
        unit = None if spec.roles is None else torch.from_numpy(np.unique(spec.roles, return_inverse=True)[1])
        return cls({**edges, "decision": torch.ones(n, 1, dtype=torch.bool)}, unit)

    def spread(self, kind: str, values: Tensor) -> Tensor:
        """Gives every edge between agents the value of its logit; values: [..., unit, unit]."""
        if self.unit is None:
            return values
        of_senders = values[..., self.unit, :]
        return of_senders if kind == "decision" else of_senders[..., self.unit]

    def gathered(self, kind: str, values: Tensor) -> Tensor:
        """Sums values of edges between agents [..., agent, agent] over the edges of each logit."""
        if self.unit is None:
            return values
        units = int(self.unit.max()) + 1
        total = values.new_zeros(*values.shape[:-2], units, values.shape[-1]).index_add_(-2, self.unit, values)
        if kind == "decision":
            return total
        return total.new_zeros(*total.shape[:-1], units).index_add_(-1, self.unit, total)

    def count(self, kind: str) -> Tensor:
        """Number of edges of each logit, int [unit, unit]."""
        return self.gathered(kind, self.edges[kind].long())
