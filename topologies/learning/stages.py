"""Stages of learning, and the matrices whose edges each stage learns (section 3.1 of M3Prune)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from topologies.learning.learner_settings import Decision
from topologies.learning.spec import LearnerSpec
from topologies.wiring import KINDS


@dataclass(frozen=True)
class Block:
    """Edges that are learned and pruned on their own: a matrix in one kind's mask, or places in a list.

    cells: their index in the mask, behind any dimension of rounds.
    intra: whether they stay inside one modality.
    """

    name: str
    kind: str
    cells: tuple[Any, ...]
    intra: bool = False

    def of(self, values: Tensor) -> Tensor:
        """Cuts the block out of [..., sender, receiver], or of a list [..., logits]; it may share the memory."""
        return values[(..., *self.cells)]


def cells_of(rows: Tensor, columns: Tensor) -> tuple[slice, slice] | tuple[Tensor, Tensor]:
    """Index of some rows and columns of a matrix, int indices."""
    # Slices where agents of a modality are consecutive, as in a run: gathering single cells takes ten times as long,
    # and their gradients longer still.
    across, down = _consecutive(rows), _consecutive(columns)
    return (across, down) if across and down else (rows[:, None], columns)


def _consecutive(indices: Tensor) -> slice | None:
    first, number = int(indices[0]) if len(indices) else 0, len(indices)
    return slice(first, first + number) if torch.equal(indices, torch.arange(first, first + number)) else None


@dataclass(frozen=True)
class Stage:
    """One stage of learning.

    start: by kind, the edges that it learns, before any is pruned, bool [sender, receiver]; `decision` is the column
        [agents, 1] of edges to the decision agent.
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
        return KINDS if bool(self.start["decision"].any()) else KINDS[:2]


def stages_of(spec: LearnerSpec, visual: Tensor) -> dict[int, Stage]:
    """Stages of a learner among all pairs of agents, by number from 1; visual: bool [agents]."""
    agents = torch.arange(len(visual))
    groups = {"agents": agents} if spec.whole else {"text": agents[~visual], "visual": agents[visual]}
    blocks = [
        Block(f"{sender}>{receiver} {kind}", kind, cells_of(groups[sender], groups[receiver]), sender == receiver)
        for kind in KINDS[:2]
        for sender in groups
        for receiver in groups
    ]
    blocks.append(Block("agents>decision", "decision", cells_of(agents, agents[:1])))
    same = visual[:, None] == visual
    ends = {"spatial": same, "temporal": same, "decision": torch.ones(len(agents), 1, dtype=torch.bool)}
    return stages_from(spec, ends, blocks, others=~torch.eye(len(agents), dtype=torch.bool))


def stages_from(
    spec: LearnerSpec, same: Mapping[str, Tensor], blocks: Sequence[Block], others: Tensor | bool = True
) -> dict[int, Stage]:
    """Stages by number from 1: edges inside modalities, then between them; all in each unless a variant is staged.

    same: by kind, whether both ends are of one modality, bool of the mask's shape.
    blocks: all matrices; a stage has those with an edge to learn.
    others: spatial edges that may exist, for no agent hears itself within a round.
    """
    staged, temporal = spec.variant.staged, spec.rounds > 1 and spec.variant.temporal
    starts = {
        number: {
            "spatial": (same["spatial"] == (number == 1)) & others,
            "temporal": (same["temporal"] == (number == 1)) & temporal,
            "decision": torch.full_like(
                same["decision"], spec.decision is Decision.LEARNED and number == spec.stages, dtype=torch.bool
            ),
        }
        for number in range(1, spec.stages + 1)
    }
    if not staged:
        together = {kind: torch.stack([start[kind] for start in starts.values()]).any(0) for kind in KINDS}
        starts = dict.fromkeys(starts, together)
    return {
        number: Stage(
            number,
            start,
            [block for block in blocks if bool(block.of(start[block.kind]).any())],
            staged or number == spec.stages,
        )
        for number, start in starts.items()
    }
