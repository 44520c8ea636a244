"""Stages of learning, and the matrices whose edges each stage learns (section 3.1 of M3Prune)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from topologies.learning.spec import LearnerSpec
from topologies.learning.ties import Ties
from topologies.wiring import KINDS


@dataclass(frozen=True)
class Block:
    """Edges that are learned and pruned on their own: a matrix in one kind's mask.

    cells: its index in the mask, behind any dimension of rounds.
    intra: whether they stay inside one modality.
    """

    name: str
    kind: str
    cells: tuple[Any, ...]
    intra: bool = False

    def of(self, values: Tensor) -> Tensor:
        """Cuts the block out of [..., sender, receiver]; it may share the memory."""
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
        return KINDS if bool(self.start["decision"].any()) else KINDS[:2]


def stages_of(spec: LearnerSpec, ties: Ties) -> dict[int, Stage]:
    """Stages of a learner by number from 1: edges inside modalities, then between them; all in each unless a variant is
    staged."""
    exists = {kind: ties.count(kind) > 0 for kind in KINDS}
    exists["temporal"] &= spec.rounds > 1 and spec.variant.temporal
    exists["decision"] &= not spec.reads_everyone
    of_agents = torch.tensor([str(modality) == "visual" for modality in spec.modalities])
    visual = ties.gathered("decision", of_agents[:, None].long())[:, 0] > 0
    same = visual[:, None] == visual
    starts = {
        number: {
            "spatial": exists["spatial"] & (same == (number == 1)),
            "temporal": exists["temporal"] & (same == (number == 1)),
            "decision": exists["decision"] & (number == spec.stages),
        }
        for number in range(1, spec.stages + 1)
    }
    if not spec.variant.staged:
        together = {kind: torch.stack([start[kind] for start in starts.values()]).any(0) for kind in KINDS}
        starts = dict.fromkeys(starts, together)
    units = torch.arange(len(visual))
    groups = {"agents": units} if spec.whole else {"text": units[~visual], "visual": units[visual]}
    blocks = [
        Block(f"{sender}>{receiver} {kind}", kind, cells_of(groups[sender], groups[receiver]), sender == receiver)
        for kind in KINDS[:2]
        for sender in groups
        for receiver in groups
    ]
    blocks.append(Block("agents>decision", "decision", cells_of(units, units[:1])))
    return {
        number: Stage(
            number,
            start,
            [block for block in blocks if bool(block.of(start[block.kind]).any())],
            spec.variant.staged or number == spec.stages,
        )
        for number, start in starts.items()
    }
