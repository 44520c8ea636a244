"""State of a learner's edges: whether each is left, its logit, and when it was cut."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from topologies.wiring import KINDS, Floats

BETA_1, BETA_2 = 0.9, 0.999  # as recommended for Adam (Kingma and Ba 2015)


class EdgeState:
    """Masks and logits, by kind of edge, all [sender, receiver].

    mask: bool, the edges that are left; rounds share it, or have one each, [rounds, sender, receiver].
    logits: float [rounds or 1, sender, receiver]; zero is a probability of one half.
    cut: float, of the mask's shape; 0 while an edge is left, else tick + p at the moment it was pruned.
    """

    def __init__(self, masks: Mapping[str, Tensor], rounds: int | None = None) -> None:
        """`masks`: edges at the start; `rounds`: their number, if each has its own masks and logits."""
        copies = {"spatial": rounds, "temporal": max(1, rounds - 1)} if rounds else {}
        self.by_round = rounds is not None
        self.logits = {kind: torch.zeros(copies.get(kind, 1), *mask.shape) for kind, mask in masks.items()}
        shape = {kind: theta.shape if self.by_round else theta.shape[1:] for kind, theta in self.logits.items()}
        self.mask = {kind: mask.expand(shape[kind]).clone() for kind, mask in masks.items()}
        self.cut = {kind: torch.zeros(shape[kind], dtype=torch.float64) for kind in masks}
        # Adam's moments of the gradient, of the logits' shape, and their number of steps.
        self._moments: dict[str, dict[str, Tensor]] = {}
        self.forget_gradients()

    def probability(self, kind: str) -> Tensor:
        """Sigmoid of the logits, of the mask's shape."""
        p = self.logits[kind].sigmoid()
        return p if self.by_round else p[0]

    def present(self, kind: str, p: Tensor, round: int | None = None) -> Tensor:
        """p [rounds or 1, sender, receiver] where edges are left, else 0, [sender, receiver]: of one round (from 1; of
        temporal edges those into it), or the mean over rounds."""
        if round is not None and len(p) > 1:
            p = p[[row(kind, round)]]
        return (p * self.left(kind, round)).mean(0)

    def left(self, kind: str, round: int | None = None) -> Tensor:
        """Returns the mask, bool [rounds or 1, sender, receiver]; of one round alone where it is named."""
        mask = self.mask[kind] if self.by_round else self.mask[kind][None]
        return mask[[row(kind, round)]] if round is not None and len(mask) > 1 else mask

    def climb(self, kind: str, gradient: Tensor, learning_rate: float, trained: Tensor) -> None:
        """Takes one step of Adam (2015, Alg. 1) along a gradient [rounds or 1, sender, receiver].

        trained: bool, of the mask's shape; the edges that move. Momentum would go on moving others.
        """
        gradient = gradient * trained
        mean, square, steps = (self._moments[name][kind] for name in ("mean", "square", "steps"))
        steps += 1
        mean += (1 - BETA_1) * (gradient - mean)
        square += (1 - BETA_2) * (gradient**2 - square)
        unbiased = mean / (1 - BETA_1**steps), square / (1 - BETA_2**steps)
        self.logits[kind] += learning_rate * unbiased[0] / (unbiased[1].sqrt() + 1e-8) * trained

    def forget_gradients(self) -> None:
        """Starts the optimiser anew."""
        zeros = {kind: torch.zeros_like(theta) for kind, theta in self.logits.items()}
        self._moments = {
            "mean": {kind: zero.clone() for kind, zero in zeros.items()},
            "square": zeros,
            "steps": {kind: torch.zeros(()) for kind in self.logits},
        }

    def keep(self, kind: str, kept: Tensor, tick: int) -> None:
        """Cuts all edges but those in `kept`, bool, of the mask's shape."""
        gone = self.mask[kind] & ~kept
        self.mask[kind] = self.mask[kind] & kept
        self.cut[kind] += (tick + self.probability(kind).double()) * gone

    def rank_anew(self, kind: str, last: Tensor) -> None:
        """Ranks cut edges by their present p instead of their time; edges in `last`, bool [sender, receiver], below all
        others."""
        cut = self.cut[kind]
        self.cut[kind] = (~last + self.probability(kind).double()).where(cut > 0, cut)

    def score(self, kind: str) -> Floats:
        """Ranks edges: p where an edge is left, below 0 where it was pruned (the lower the earlier), -inf for no edge.

        Where rounds have masks of their own it is the mean over rounds, p counting as 0 in rounds from which an edge
        that others have left was pruned. Float [sender, receiver].
        """
        # tick + p grows with the tick of pruning, then with p; -1 / (tick + p) puts that order below 0.
        cut = self.cut[kind] if self.by_round else self.cut[kind][None]
        pruned = torch.where(cut > 0, -1 / cut, -torch.inf).mean(0)
        p = self.present(kind, self.logits[kind].sigmoid()).double()
        scores: Floats = torch.where(self.left(kind).any(0), p, pruned).numpy()
        return scores

    def tensors(self) -> dict[str, Tensor]:
        """Copies the state, by `<part>.<kind>`."""
        return {f"{part}.{kind}": values[kind].clone() for part, values in self._parts().items() for kind in KINDS}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores a state from `tensors`."""
        for part, values in self._parts().items():
            values.update({kind: tensors[f"{part}.{kind}"].clone() for kind in KINDS})

    def _parts(self) -> dict[str, dict[str, Tensor]]:
        return {"mask": self.mask, "logits": self.logits, "cut": self.cut, **self._moments}


def row(kind: str, round: int) -> int:
    """Returns the place of a round (from 1) in a tensor that has one for each; of temporal edges, those into it."""
    return max(0, round - 1 - (kind == "temporal"))
