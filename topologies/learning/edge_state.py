"""State of a learner's edges: whether each is left, its logit, and when it was cut."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from topologies.graphs import acyclic
from topologies.learning.stages import Block, Ties
from topologies.wiring import KINDS, Bools, Edges, Floats

BETA_1, BETA_2 = 0.9, 0.999  # as recommended for Adam (Kingma and Ba 2015)


class EdgeState:
    """Masks and logits, by kind of edge, all [rounds or 1, unit, unit]: rounds share one matrix or have one each.

    mask: bool, the edges that are left.
    logits: float; zero is a probability of one half.
    cut: float; 0 while an edge is left, else tick + p at the moment it was pruned, or -1 where a simple graph lacks it.
    """

    def __init__(self, masks: Mapping[str, Tensor], ties: Ties, rounds: int | None = None) -> None:
        """`masks`: edges at the start, bool [unit, unit]; `rounds`: their number, if each has its own matrix."""
        copies = {"spatial": rounds, "temporal": max(1, rounds - 1)} if rounds else {}
        self.ties, self.by_round = ties, rounds is not None
        shape = {kind: (copies.get(kind, 1), *mask.shape) for kind, mask in masks.items()}
        self.logits = {kind: torch.zeros(shape[kind]) for kind in masks}
        self.mask = {kind: mask.expand(shape[kind]).clone() for kind, mask in masks.items()}
        self.cut = {kind: torch.zeros(shape[kind], dtype=torch.float64) for kind in masks}
        # Adam's moments of the gradient, of the logits' shape, and their number of steps.
        self._moments: dict[str, dict[str, Tensor]] = {}
        self.forget_gradients()

    def probability(self, kind: str) -> Tensor:
        """Sigmoid of the logits."""
        return self.logits[kind].sigmoid()

    def present(self, kind: str, p: Tensor, round: int | None = None) -> Tensor:
        """p [rounds or 1, unit, unit] where edges between agents are left, else 0, float64 [agent, agent]: of one round
        (from 1; of temporal edges those into it), or the mean over rounds."""
        each = p * self.mask[kind]
        if round is not None and len(each) > 1:
            each = each[[max(0, round - 1 - (kind == "temporal"))]]
        return self.ties.spread(kind, each.mean(0)).double() * self.ties.edges[kind]

    def reading(self, values: Mapping[str, Tensor], rounds: int) -> Edges[Floats]:
        """`present` of spatial and temporal values, [sender, receiver], or [rounds, ...] where rounds have masks."""
        numbers: list[int | None] = list(range(1, rounds + 1)) if self.by_round else [None]
        found = (
            np.stack([self.present(kind, values[kind], each).numpy() for each in numbers]) for kind in Edges._fields
        )
        return Edges(*(matrices if self.by_round else matrices[0] for matrices in found))

    def left(self, kind: str, mask: Tensor | None = None) -> Tensor:
        """Edges between agents that are left, or that a mask [..., unit, unit] leaves."""
        return self.ties.spread(kind, self.mask[kind] if mask is None else mask) & self.ties.edges[kind]

    def along(self, left: Mapping[str, Tensor]) -> Edges[Bools]:
        """Opens cycles among edges, bool [rounds or 1, sender, receiver] by kind: the least probable spatial ones go.

        Returns bool [sender, receiver], or [rounds, sender, receiver] where rounds have masks of their own.
        """
        kept = {kind: edges.numpy() for kind, edges in left.items()}
        p = self.ties.spread("spatial", self.probability("spatial")).double().numpy()
        if not self.by_round:
            return Edges(acyclic(kept["spatial"][0], p[0]), kept["temporal"][0])
        spatial = np.stack([acyclic(*each) for each in zip(kept["spatial"], p, strict=True)])
        temporal = np.zeros_like(spatial)
        temporal[1:] = kept["temporal"]
        return Edges(spatial, temporal)

    def counts(self, blocks: Iterable[Block]) -> dict[str, int]:
        """Counts the present edges of matrices, by name. Where rounds have separate masks, it ends with ", round t"."""
        left = {kind: mask * self.ties.count(kind) for kind, mask in self.mask.items()}
        found = {}
        for block in blocks:
            # Temporal edges are named by the round that they lead into, and none leads into the first.
            first = 1 + (block.kind == "temporal")
            for number, edges in enumerate(block.of(left[block.kind]).sum((1, 2)).tolist(), first):
                found[f"{block.name}, round {number}" if self.by_round else block.name] = edges
        return found

    def climb(self, kind: str, gradient: Tensor, learning_rate: float, trained: Tensor) -> None:
        """Takes one step of Adam (2015, Alg. 1) along a gradient.

        trained: bool; the edges that move. Momentum would go on moving others.
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
        for name in ("mean", "square"):
            self._moments[name] = {kind: torch.zeros_like(theta) for kind, theta in self.logits.items()}
        self._moments["steps"] = {kind: torch.zeros(()) for kind in self.logits}

    def keep(self, kind: str, kept: Tensor, tick: int) -> None:
        """Cuts all edges but those in `kept`, bool."""
        gone = self.mask[kind] & ~kept
        self.mask[kind] = self.mask[kind] & kept
        self.cut[kind] += (tick + self.probability(kind).double()) * gone

    def leave(self, kind: str, left: Tensor) -> None:
        """Leaves exactly the edges in `left`, bool; edges that were cut come back.

        All edges are ranked by p from now on, since no estimate chose these.
        """
        known = self.mask[kind] | (self.cut[kind] > 0)
        self.mask[kind] = left.expand_as(known).clone()
        self.cut[kind] = -(known & ~left).double()

    def rank_anew(self, kind: str, last: Tensor) -> None:
        """Ranks cut edges by their present p instead of their time; those in `last`, bool [unit, unit], come last."""
        cut = self.cut[kind]
        self.cut[kind] = (~last + self.probability(kind).double()).where(cut > 0, cut)

    def score(self, kind: str) -> Tensor:
        """Ranks edges: p where an edge is left, below 0 where it was pruned (the lower the earlier), -inf for no edge.

        Where rounds have masks of their own it is the mean over rounds, p counting as 0 in rounds from which an edge
        that others have left was pruned. Float64 [agent, agent].
        """
        # tick + p grows with the tick of pruning, then with p; -1 / (tick + p) puts that order below 0.
        cut = self.cut[kind]
        rank = self.probability(kind).double().where(cut < 0, torch.where(cut > 0, -1 / cut, -torch.inf))
        pruned = self.ties.spread(kind, rank.mean(0))
        ranked = self.present(kind, self.probability(kind)).where(self.left(kind).any(0), pruned)
        return ranked.where(self.ties.edges[kind], -torch.inf)

    def tensors(self) -> dict[str, Tensor]:
        """Copies the state, by `<part>.<kind>`; masks and cuts that rounds share have no dimension of rounds."""
        flat = () if self.by_round else ("mask", "cut")
        return {
            f"{part}.{kind}": (values[kind][0] if part in flat else values[kind]).clone()
            for part, values in self._parts().items()
            for kind in KINDS
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores a state from `tensors`."""
        for part, values in self._parts().items():
            values.update({kind: tensors[f"{part}.{kind}"].view_as(values[kind]).clone() for kind in KINDS})

    def _parts(self) -> dict[str, dict[str, Tensor]]:
        return {"mask": self.mask, "logits": self.logits, "cut": self.cut, **self._moments}
