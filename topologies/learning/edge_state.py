"""What a learner knows of every edge: whether it is left, its logit, and when it was cut."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from topologies.learning.blocks import KINDS, Block
from topologies.wiring import Floats, gumbel_probability, prune_mask

BETA_1, BETA_2 = 0.9, 0.999


class EdgeState:
    """By kind of edge, all [sender, receiver]:

    mask: bool; the edges that are left.
    logits: float [rounds or 1, sender, receiver]; zero is a probability of one half.
    cut: float; 0 while an edge is left, else tick + p at the moment it was pruned.
    mean, square, steps: Adam's moments of the gradient, of the logits' shape, and how many steps they are of; none
        where it is not used.
    """

    def __init__(self, masks: Mapping[str, Tensor], copies: Mapping[str, int], adam: bool = False) -> None:
        """`masks`: the edges at the start; `copies`: how many rounds have logits of their own; `adam`: keep moments."""
        self.mask = {kind: mask.clone() for kind, mask in masks.items()}
        self.logits = {kind: torch.zeros(copies[kind], *mask.shape) for kind, mask in masks.items()}
        self.cut = {kind: torch.zeros(mask.shape, dtype=torch.float64) for kind, mask in masks.items()}
        self.adam = adam
        self._moments: dict[str, dict[str, Tensor]] = {}
        if adam:
            self._forget_gradients()

    def probability(self, kind: str, round: int | None = None) -> Tensor:
        """Sigmoid of the logits [sender, receiver]; round t's temporal edges are those into round t."""
        p = self.logits[kind].sigmoid()
        if round is None or len(p) == 1:
            return p.mean(0)
        return p[max(0, round - 1 - (kind == "temporal"))]

    def climb(self, kind: str, gradient: Tensor, learning_rate: float) -> None:
        """One step along a gradient [rounds or 1, sender, receiver]: plain, or Adam's (Kingma and Ba 2015, Alg. 1)."""
        if not self.adam:
            self.logits[kind] += learning_rate * gradient
            return
        mean, square, steps = (self._moments[name][kind] for name in ("mean", "square", "steps"))
        steps += 1
        mean += (1 - BETA_1) * (gradient - mean)
        square += (1 - BETA_2) * (gradient**2 - square)
        unbiased = mean / (1 - BETA_1**steps), square / (1 - BETA_2**steps)
        self.logits[kind] += learning_rate * unbiased[0] / (unbiased[1].sqrt() + 1e-8)

    def start_afresh(self) -> None:
        """All probabilities at one half again, and no gradient seen; masks stay."""
        for theta in self.logits.values():
            theta.zero_()
        if self.adam:
            self._forget_gradients()

    def _forget_gradients(self) -> None:
        zeros = {kind: torch.zeros_like(theta) for kind, theta in self.logits.items()}
        self._moments = {
            "mean": {kind: zero.clone() for kind, zero in zeros.items()},
            "square": zeros,
            "steps": {kind: torch.zeros(()) for kind in self.logits},
        }

    def start_from_noise(self, block: Block, start: Mapping[str, Tensor], tau: float, generator: Generator) -> None:
        """Eq. 4 as printed, for one matrix of the edges that there are at the start."""
        exists, theta = block.of(start[block.kind]), self.logits[block.kind]
        p = gumbel_probability(exists.expand(len(theta), *exists.shape), tau, generator)
        theta[(..., *block.cells)] = p.clamp(1e-3, 1 - 1e-3).logit()

    def prune(self, block: Block, rate: float, tick: int, generator: Generator) -> None:
        """Eqs. 13 and 14 for one matrix: keep its largest (1 - rate) share."""
        p, present = block.of(self.probability(block.kind)), block.of(self.mask[block.kind])
        kept = self.mask[block.kind].clone()
        kept[block.cells] = prune_mask(p, present, rate, generator)
        self.keep(block.kind, kept, tick)

    def keep(self, kind: str, kept: Tensor, tick: int) -> None:
        """Cut the edges that are not kept; bool [sender, receiver]."""
        gone = self.mask[kind] & ~kept
        self.mask[kind] = self.mask[kind] & kept
        self.cut[kind] += (tick + self.probability(kind).double()) * gone

    def rank_anew(self, kind: str) -> None:
        """Let the edges that were cut rank by what p is now, not by when they were cut."""
        cut = self.cut[kind]
        self.cut[kind] = (1 + self.probability(kind).double()).where(cut > 0, cut)

    def score(self, kind: str) -> Floats:
        """p where an edge is left, below 0 where it was pruned (the lower the earlier), -inf where none ever was."""
        # tick + p grows with the tick of pruning, then with p; -1 / (tick + p) puts that order below 0.
        cut = self.cut[kind]
        pruned = torch.where(cut > 0, -1 / cut, -torch.inf)
        scores: Floats = torch.where(self.mask[kind], self.probability(kind).double(), pruned).numpy()
        return scores

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all of it, by `<what>.<kind>`."""
        return {f"{what}.{kind}": values[kind].clone() for what, values in self._parts().items() for kind in KINDS}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        for what, values in self._parts().items():
            values.update({kind: tensors[f"{what}.{kind}"].clone() for kind in KINDS})

    def _parts(self) -> dict[str, dict[str, Tensor]]:
        return {"mask": self.mask, "logits": self.logits, "cut": self.cut, **self._moments}
