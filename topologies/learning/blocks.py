"""Which edges exist, and the matrices that each stage learns and prunes on their own (section 3.1 of M3Prune)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

KINDS = ("spatial", "temporal", "decision")


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

    @property
    def cells(self) -> tuple[Tensor, Tensor]:
        return self.rows[:, None], self.columns

    def of(self, matrix: Tensor) -> Tensor:
        return matrix[(..., *self.cells)]


def starting_masks(visual: Tensor, stage: int, rounds: int, learned_decision: bool) -> dict[str, Tensor]:
    """The edges that a stage learns, before any is pruned: inside modalities (stage 1) or between them (stage 2).

    visual: bool [agents]. No agent hears itself within a round, and one round has no temporal edges. `decision` is the
    column [agents, 1] of edges to the decision agent.
    """
    n = len(visual)
    same = visual[:, None] == visual
    own = same if stage == 1 else ~same
    return {
        "spatial": own & ~torch.eye(n, dtype=torch.bool),
        "temporal": own & torch.full((n, n), rounds > 1),
        "decision": torch.full((n, 1), learned_decision),
    }


def stage_masks(
    visual: Tensor, stages: int, rounds: int, learned_decision: bool, in_stages: bool
) -> dict[int, dict[str, Tensor]]:
    """The edges that each stage learns, before any is pruned, by kind; all stages learn all unless `in_stages`."""
    own = {
        stage: starting_masks(visual, stage, rounds, learned_decision and stage == stages)
        for stage in range(1, stages + 1)
    }
    if in_stages:
        return own
    together = {kind: torch.stack([start[kind] for start in own.values()]).any(0) for kind in KINDS}
    return dict.fromkeys(own, together)


def listened_to(had: dict[str, Tensor], has: dict[str, Tensor]) -> Tensor:
    """Agents with an edge to another one left, or that never had any, bool [agents]; edges by kind, bool."""
    others = ~torch.eye(len(had["spatial"]), dtype=torch.bool)
    before, now = ((edges["spatial"] | edges["temporal"]) & others for edges in (had, has))
    return now.any(1) | ~before.any(1)


def blocks_of(start: dict[str, Tensor], groups: dict[str, Tensor]) -> list[Block]:
    """The matrices of a stage that have any edge: by the groups of sender and receiver (`by_modality`, or all in one),
    and by kind."""
    blocks = [
        Block(f"{sender}>{receiver} {kind}", kind, groups[sender], groups[receiver], sender == receiver)
        for kind in ("spatial", "temporal")
        for sender in groups
        for receiver in groups
    ]
    agents = torch.arange(len(start["decision"]))
    blocks.append(Block("agents>decision", "decision", agents, torch.tensor([0])))
    return [block for block in blocks if bool(block.of(start[block.kind]).any())]


def by_modality(visual: Tensor) -> dict[str, Tensor]:
    """The agents of each modality, int indices; visual: bool [agents]."""
    return {"text": (~visual).nonzero().squeeze(1), "visual": visual.nonzero().squeeze(1)}
