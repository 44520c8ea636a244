"""The edges that each stage learns, and the matrices that they form (section 3.1 of M3Prune)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from topologies.learning.settings import Decision, LearnerSettings
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
        # Slices where agents of a modality stand side by side, as in a run: to gather single cells takes ten times as
        # long, and their gradients longer still.
        rows, columns = _side_by_side(self.rows), _side_by_side(self.columns)
        return (rows, columns) if rows and columns else (self.rows[:, None], self.columns)

    def of(self, matrix: Tensor) -> Tensor:
        """Its part of [..., sender, receiver], which may share the matrix's memory."""
        return matrix[(..., *self.cells)]


@dataclass(frozen=True)
class Members:
    """A block among logits that are a list: those at these places."""

    name: str
    kind: str
    places: Tensor
    intra: bool = False

    @property
    def cells(self) -> tuple[Tensor]:
        return (self.places,)

    def of(self, values: Tensor) -> Tensor:
        """Its part of [..., logits]."""
        return values[..., self.places]


AnyBlock = Block | Members


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
        """The kinds of edges that are sampled: all, or all but a decision column that is not learned in this stage."""
        return KINDS if bool(self.start["decision"].any()) else KINDS[:2]


def stages_of(visual: Tensor, stages: int, rounds: int, settings: LearnerSettings, whole: bool) -> dict[int, Stage]:
    """All stages, by number from 1; a decision column is learned in the last one, or unless staged in all.

    visual: bool [agents]. whole: one matrix of all agents for each kind, instead of one for each pair of modalities.
    settings: with `decision` and `staged` resolved (`estimators.resolved`).
    """
    temporal, learned = rounds > 1 and settings.temporal, settings.decision == Decision.LEARNED
    starts = {n: starting_masks(visual, n, temporal, learned and n == stages) for n in range(1, stages + 1)}
    if not settings.staged:
        together = {kind: torch.stack([start[kind] for start in starts.values()]).any(0) for kind in KINDS}
        starts = dict.fromkeys(starts, together)
    groups = {"agents": torch.arange(len(visual))} if whole else by_modality(visual)
    return {
        n: Stage(n, start, blocks_of(start, groups), final=n == stages or bool(settings.staged))
        for n, start in starts.items()
    }


def starting_masks(visual: Tensor, stage: int, temporal: bool, learned_decision: bool) -> dict[str, Tensor]:
    """A staged learner's edges before any is pruned: inside modalities (stage 1) or between them (stage 2).

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


def listened_to(before: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> Tensor:
    """Agents with an edge to another one left, or that never had any, bool [agents]; edges [sender, receiver] by kind,
    bool."""
    others = ~torch.eye(len(before["spatial"]), dtype=torch.bool)
    had, has = ((edges["spatial"] | edges["temporal"]) & others for edges in (before, now))
    return has.any(1) | ~had.any(1)


def blocks_of(start: Mapping[str, Tensor], groups: Mapping[str, Tensor]) -> list[Block]:
    """The matrices of a stage that have any edge, by kind and by the groups of sender and receiver."""
    blocks = [
        Block(f"{sender}>{receiver} {kind}", kind, groups[sender], groups[receiver], sender == receiver)
        for kind in ("spatial", "temporal")
        for sender in groups
        for receiver in groups
    ]
    agents = torch.arange(len(start["decision"]))
    blocks.append(Block("agents>decision", "decision", agents, torch.tensor([0])))
    return [block for block in blocks if bool(block.of(start[block.kind]).any())]


def _side_by_side(indices: Tensor) -> slice | None:
    first, number = int(indices[0]) if len(indices) else 0, len(indices)
    return slice(first, first + number) if torch.equal(indices, torch.arange(first, first + number)) else None


def by_modality(visual: Tensor) -> dict[str, Tensor]:
    """The agents of each modality, int indices; visual: bool [agents]."""
    return {"text": (~visual).nonzero().squeeze(1), "visual": visual.nonzero().squeeze(1)}
