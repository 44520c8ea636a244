"""Gradient ascent on M3Prune's objective over the edges that one stage learns (Eqs. 7, 8, 11)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from topologies.learning.blocks import KINDS, Block
from topologies.learning.edge_state import EdgeState
from topologies.learning.objective import alignment, leave_one_out, log_probability, nuclear_norm, root_mean_square
from topologies.learning.settings import Estimator, LearnerSettings
from topologies.wiring import Wirings, drawn


@dataclass(frozen=True)
class Ascent:
    """`start`: the edges that the stage began with, by kind; `blocks`: its matrices."""

    settings: LearnerSettings
    start: dict[str, Tensor]
    blocks: list[Block]

    def terms(self, mask: dict[str, Tensor], logits: dict[str, Tensor]) -> dict[str, Tensor]:
        """Rank, noise and alignment of the stage's matrices, without their weights."""
        weighted = {kind: theta.sigmoid() * mask[kind] for kind, theta in logits.items()}
        matrices = {block.name: block.of(weighted[block.kind]) for block in self.blocks}
        rms = root_mean_square([self.start[kind] for kind in KINDS], [weighted[kind] for kind in KINDS])
        aligned = [
            alignment(matrices[f"text>visual {kind}"], matrices[f"visual>text {kind}"])
            for kind in ("spatial", "temporal")
            if f"text>visual {kind}" in matrices
        ]
        return {
            "rank": torch.stack([nuclear_norm(m) for m in matrices.values()]).sum() if matrices else torch.zeros(()),
            "noise": (rms - self.settings.epsilon).relu(),
            "alignment": torch.stack(aligned).sum() if aligned else torch.zeros(()),
        }

    def regular(self, terms: dict[str, Tensor]) -> Tensor:
        """What the objective adds to utility (Eqs. 7, 11)."""
        return (
            self.settings.align_weight * terms["alignment"]
            - self.settings.rank_weight * terms["rank"]
            - self.settings.noise_weight * terms["noise"]
        )

    def step(
        self, edges: EdgeState, wirings: Wirings, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """One step with `settings.rate`: the gradient by kind, zero for logits that the stage does not train, and the
        `terms` before it."""
        credit = utility if self.settings.estimator == Estimator.REINFORCE else leave_one_out(utility, group)
        logits = {kind: theta.clone().requires_grad_() for kind, theta in edges.logits.items()}
        surrogate = (credit * self._log_probability(logits, wirings)).mean()
        terms = self.terms(edges.mask, logits)
        objective = surrogate + self.regular(terms)
        ascent = torch.autograd.grad(objective, [logits[kind] for kind in KINDS])
        gradient = {kind: g * (self.start[kind] & edges.mask[kind]) for kind, g in zip(KINDS, ascent, strict=True)}
        for kind in KINDS:
            edges.climb(kind, gradient[kind], self.settings.rate)
        return gradient, {name: term.detach() for name, term in terms.items()}

    def _log_probability(self, logits: dict[str, Tensor], wirings: Wirings) -> Tensor:
        """log P of each wiring [k], over all kinds of edges, those frozen or always present included."""
        total = torch.zeros(len(wirings.spatial))
        for kind, (allowed, taken) in drawn(wirings).items():
            pair = torch.tensor(allowed), torch.tensor(taken)  # copies: arrays that crossed a process are read-only
            total = total + log_probability(logits[kind], *pair, self.settings.likelihood)
        return total
