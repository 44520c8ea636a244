"""Stages of learning: their edges, logits and pruned matrices (section 3.1 of M3Prune)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from topologies.learning.spec import LearnerSpec
from topologies.wiring import KINDS


@dataclass(frozen=True)
class LogitSharing:
    """Each edge has a logit, or all edges between the same two roles have one (`topology.tied`).

    A learner's matrices are [unit, unit], a unit being an agent or a role; `decision` is a column [unit, 1].

    edges: by kind, the edges between agents, bool [agent, agent]; `decision`: [agent, 1].
    unit: int [agents], the role of each agent; None where agents are units.
    """

    edges: Mapping[str, Tensor]
    unit: Tensor | None

    @classmethod
    def of(cls, spec: LearnerSpec) -> LogitSharing:
        """The edges of a learner, all pairs of agents or its candidates. No agent hears itself within a round."""
        n = len(spec.modalities)
        edges = {
            "spatial": ~torch.eye(n, dtype=torch.bool),
            "temporal": torch.ones(n, n, dtype=torch.bool),
            "decision": torch.ones(n, 1, dtype=torch.bool),
        }
        if spec.candidates is not None:
            for kind, pairs in spec.candidates._asdict().items():
                candidates = torch.zeros(n, n, dtype=torch.bool)
                candidates[tuple(torch.from_numpy(pairs).T)] = True
                edges[kind] &= candidates
        unit = None
        if spec.roles is not None:
            unit = torch.from_numpy(np.unique(spec.roles, return_inverse=True)[1])
        return cls(edges, unit)

    def to_agents(self, kind: str, values: Tensor) -> Tensor:
        """Gives every edge between agents the value of its logit; values: [..., unit, unit]."""
        if self.unit is None:
            return values
        by_sender = values[..., self.unit, :]
        return by_sender if kind == "decision" else by_sender[..., self.unit]

    def sum_by_logit(self, kind: str, values: Tensor) -> Tensor:
        """Sums values of edges between agents [..., agent, agent] over the edges of each logit."""
        if self.unit is None:
            return values
        units = int(self.unit.max()) + 1
        sums = values.new_zeros(*values.shape[:-2], units, values.shape[-1]).index_add_(-2, self.unit, values)
        if kind == "decision":
            return sums
        return sums.new_zeros(*sums.shape[:-1], units).index_add_(-1, self.unit, sums)

    def edges_per_logit(self, kind: str) -> Tensor:
        """Number of edges of each logit, int [unit, unit]."""
        return self.sum_by_logit(kind, self.edges[kind].long())


@dataclass(frozen=True)
class Block:
    """Edges that are learned and pruned on their own: a matrix in one kind's mask.

    cells: its rows and columns in the mask, int indices, behind any dimension of rounds.
    intra: whether they stay inside one modality.
    """

    name: str
    kind: str
    cells: tuple[Tensor, Tensor]
    intra: bool = False

    def of(self, values: Tensor) -> Tensor:
        """Cuts the block out of [..., sender, receiver]; it may share the memory."""
        return values[(..., *self.cells)]

    def put(self, values: Tensor, part: Tensor) -> None:
        """Writes the block into [..., sender, receiver]."""
        values[(..., *self.cells)] = part


@dataclass(frozen=True)
class Stage:
    """One stage of learning.

    start: by kind, the edges that it learns, before any is pruned, bool [sender, receiver] (of agents, or of roles
        whose edges share logits); `decision` is the column [sender, 1] of edges to the decision agent.
    blocks: their matrices.
    final: whether no later stage learns these edges again.
    """

    number: int
    start: Mapping[str, Tensor]
    blocks: Sequence[Block]
    final: bool

    @property
    def drawn(self) -> tuple[str, ...]:
        """Kinds of edges that are sampled: all, without the decision column where this stage does not learn it."""
        return KINDS if self.start["decision"].any() else KINDS[:2]


def stages_of(spec: LearnerSpec, sharing: LogitSharing) -> dict[int, Stage]:
    """Stages of a learner, from 1. Staged: edges inside modalities, then between them. Else each learns all."""
    exists = {kind: sharing.edges_per_logit(kind) > 0 for kind in KINDS}
    exists["temporal"] &= spec.rounds > 1 and spec.variant.temporal
    exists["decision"] &= not spec.reads_everyone
    # A role has one modality, that of its agents.
    visual = sharing.sum_by_logit("decision", torch.tensor(spec.visual)[:, None].long())[:, 0] > 0
    same_modality = visual[:, None] == visual
    units = torch.arange(len(visual))
    groups = {"agents": units}
    if spec.variant.rule.by_modality:
        groups = {"text": units[~visual], "visual": units[visual]}
    blocks = []
    for kind, sender, receiver in product(KINDS[:2], groups, groups):
        cells = (groups[sender][:, None], groups[receiver])
        blocks.append(Block(f"{sender}>{receiver} {kind}", kind, cells, intra=sender == receiver))
    blocks.append(Block("agents>decision", "decision", (units[:, None], units[:1])))

    stages = {}
    for number in range(1, spec.stages + 1):
        is_last = number == spec.stages
        if spec.variant.staged:
            learned_pairs = same_modality if number == 1 else ~same_modality
        else:
            learned_pairs = same_modality | spec.variant.inter
        start = {kind: exists[kind] & learned_pairs for kind in KINDS[:2]}
        start["decision"] = exists["decision"] & (is_last or not spec.variant.staged)
        present = [block for block in blocks if block.of(start[block.kind]).any()]
        stages[number] = Stage(number, start, present, final=spec.variant.staged or is_last)
    return stages
