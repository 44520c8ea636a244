"""Stages of learning, and the matrices whose edges each stage learns (section 3.1 of M3Prune)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from topologies.learning.learner_settings import Decision
from topologies.learning.spec import LearnerSpec
from topologies.wiring import KINDS


@dataclass(frozen=True)
class Block:
    """One matrix that is learned and pruned on its own: these rows and columns of one kind's mask.

    intra: whether its edges stay inside one modality.
    """

    name: str
    kind: str
    rows: Tensor
    columns: Tensor
    intra: bool = False

    @cached_property
    def cells(self) -> tuple[slice, slice] | tuple[Tensor, Tensor]:
        # Slices where agents of a modality are consecutive, as in a run: gathering single cells takes ten times as
        # long, and their gradients longer still.
        rows, columns = _consecutive(self.rows), _consecutive(self.columns)
        return (rows, columns) if rows and columns else (self.rows[:, None], self.columns)

    def of(self, matrix: Tensor) -> Tensor:
        """Cuts the block out of [..., sender, receiver]; it may share the matrix's memory."""
        return matrix[(..., *self.cells)]


@dataclass(frozen=True)
class ListedBlock:
    """Logits at some places of a list, as a block of them."""

    name: str
    kind: str
    places: Tensor
    intra: bool = False

    @property
    def cells(self) -> tuple[Tensor]:
        return (self.places,)

    def of(self, values: Tensor) -> Tensor:
        """Cuts the block out of [..., logits]."""
        return values[..., self.places]


AnyBlock = Block | ListedBlock


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
    blocks: Sequence[AnyBlock]
    final: bool

    @property
    def drawn(self) -> tuple[str, ...]:
        """Kinds of edges that are sampled: all, without the decision column where this stage does not learn it."""
        return KINDS if bool(self.start["decision"].any()) else KINDS[:2]


def stages_of(spec: LearnerSpec, visual: Tensor) -> dict[int, Stage]:
    """All stages of a learner among all pairs of agents, by number from 1; visual: bool [agents]."""
    temporal, learned = spec.rounds > 1 and spec.variant.temporal, spec.decision is Decision.LEARNED
    numbers = range(1, spec.stages + 1)
    starts = {n: starting_masks(visual, n, temporal, learned and n == spec.stages) for n in numbers}
    groups = {"agents": torch.arange(len(visual))} if spec.whole else by_modality(visual)
    return stages_from(spec, starts, lambda start: blocks_of(start, groups))


def stages_from(
    spec: LearnerSpec,
    starts: Mapping[int, Mapping[str, Tensor]],
    blocks: Callable[[Mapping[str, Tensor]], Sequence[AnyBlock]],
) -> dict[int, Stage]:
    """Stages with these starting edges, or with those of all stages in every one unless a variant is staged."""
    staged = spec.variant.staged
    if not staged:
        together = {kind: torch.stack([start[kind] for start in starts.values()]).any(0) for kind in KINDS}
        starts = dict.fromkeys(starts, together)
    return {n: Stage(n, start, blocks(start), staged or n == spec.stages) for n, start in starts.items()}


def starting_masks(visual: Tensor, stage: int, temporal: bool, learned_decision: bool) -> dict[str, Tensor]:
    """Edges of a staged learner before any is pruned: inside modalities (stage 1) or between them (stage 2).

    visual: bool [agents]. No agent hears itself within a round.
    """
    n = len(visual)
    same = visual[:, None] == visual
    own = same if stage == 1 else ~same
    return {
        "spatial": own & ~torch.eye(n, dtype=torch.bool),
        "temporal": own & torch.full((n, n), temporal),
        "decision": torch.full((n, 1), learned_decision),
    }


def blocks_of(start: Mapping[str, Tensor], groups: Mapping[str, Tensor]) -> list[Block]:
    """Matrices of a stage that have any edge, by kind and by the groups of sender and receiver."""
    blocks = [
        Block(f"{sender}>{receiver} {kind}", kind, groups[sender], groups[receiver], sender == receiver)
        for kind in ("spatial", "temporal")
        for sender in groups
        for receiver in groups
    ]
    agents = torch.arange(len(start["decision"]))
    blocks.append(Block("agents>decision", "decision", agents, torch.tensor([0])))
    return [block for block in blocks if bool(block.of(start[block.kind]).any())]


def _consecutive(indices: Tensor) -> slice | None:
    first, number = int(indices[0]) if len(indices) else 0, len(indices)
    return slice(first, first + number) if torch.equal(indices, torch.arange(first, first + number)) else None


def by_modality(visual: Tensor) -> dict[str, Tensor]:
    """Agents of each modality, int indices; visual: bool [agents]."""
    return {"text": (~visual).nonzero().squeeze(1), "visual": visual.nonzero().squeeze(1)}
