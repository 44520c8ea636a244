"""State of a learner's edges: whether each is left, its logit, and when it was cut."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from topologies.graphs import acyclic
from topologies.learning.stages import Block, LogitSharing
from topologies.wiring import KINDS, Bools, Edges, Floats

BETA_1, BETA_2 = 0.9, 0.999  # as recommended for Adam (Kingma and Ba 2015)
PARTS = ("mask", "logits", "cut", "mean", "square", "steps")


class EdgeState:
    """Masks and logits, by kind of edge, all [rounds or 1, unit, unit]: rounds share one matrix or have one each.

    mask: bool, the edges that are left.
    logits: float; zero is a probability of one half.
    cut: float; 0 while an edge is left, else tick + p at the moment it was pruned, or -1 where a simple graph lacks it.
    mean, square, steps: Adam's moments of the gradient, of the logits' shape, and their number of steps.
    """

    def __init__(self, masks: Mapping[str, Tensor], sharing: LogitSharing, rounds: int | None = None) -> None:
        """`masks`: edges at the start, bool [unit, unit]; `rounds`: their number, if each has its own matrix."""
        self.sharing = sharing
        self.by_round = rounds is not None
        copies = {"spatial": rounds, "temporal": max(1, rounds - 1)} if rounds else {}
        self.mask = {kind: mask.expand(copies.get(kind, 1), *mask.shape).clone() for kind, mask in masks.items()}
        self.logits = {kind: torch.zeros(mask.shape) for kind, mask in self.mask.items()}
        self.cut = {kind: torch.zeros(mask.shape, dtype=torch.float64) for kind, mask in self.mask.items()}
        self.forget_gradients()

    def probability(self, kind: str) -> Tensor:
        """Sigmoid of the logits."""
        return self.logits[kind].sigmoid()

    def mean_over_rounds(self, kind: str, values: Tensor) -> Tensor:
        """Mean over rounds of values [rounds or 1, unit, unit], 0 where no edge is left, float64 [agent, agent]."""
        return self._to_agents(kind, (values * self.mask[kind]).mean(0))

    def reading(self, values: Mapping[str, Tensor], rounds: int) -> Edges[Floats]:
        """Spatial and temporal values, 0 where no edge is left, [sender, receiver], or [rounds, ...] where rounds have
        masks of their own."""
        spatial = self._to_agents("spatial", values["spatial"] * self.mask["spatial"])
        temporal = self._to_agents("temporal", values["temporal"] * self.mask["temporal"])
        if not self.by_round:
            return Edges(spatial[0].numpy(), temporal[0].numpy())
        # Nothing is heard along temporal edges into the first round: any values will do.
        temporal = torch.cat([temporal[:1], temporal])[:rounds]
        return Edges(spatial.numpy(), temporal.numpy())

    def _to_agents(self, kind: str, values: Tensor) -> Tensor:
        """Values [..., unit, unit] of edges between agents, else 0, float64 [..., agent, agent]."""
        return self.sharing.to_agents(kind, values).double() * self.sharing.edges[kind]

    def between_agents(self, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Edges between agents that masks [..., unit, unit] leave, by kind."""
        return {kind: self.sharing.to_agents(kind, mask) & self.sharing.edges[kind] for kind, mask in masks.items()}

    def acyclic(self, edges: Mapping[str, Tensor]) -> Edges[Bools]:
        """Opens cycles among edges, bool [rounds or 1, sender, receiver] by kind: the least probable spatial ones go.

        Returns bool [sender, receiver], or [rounds, sender, receiver] where rounds have masks of their own.
        """
        p = self.sharing.to_agents("spatial", self.probability("spatial")).double().numpy()
        rounds = zip(edges["spatial"].numpy(), p, strict=True)
        spatial = np.stack([acyclic(of_round, probability) for of_round, probability in rounds])
        temporal = edges["temporal"].numpy()
        if not self.by_round:
            return Edges(spatial[0], temporal[0])
        # No edge leads into the first round.
        into_each_round = np.zeros_like(spatial)
        into_each_round[1:] = temporal
        return Edges(spatial, into_each_round)

    def counts(self, blocks: Iterable[Block]) -> dict[str, int]:
        """Counts the present edges of matrices, by name. Where rounds have separate masks, it ends with ", round t"."""
        counts = {}
        for block in blocks:
            numbers_left = self.mask[block.kind] * self.sharing.edges_per_logit(block.kind)
            numbers = block.of(numbers_left).sum((1, 2)).tolist()
            if not self.by_round:
                [counts[block.name]] = numbers
                continue
            # Temporal edges are named by the round that they lead into, and none leads into the first.
            first_round = 2 if block.kind == "temporal" else 1
            for round, number in enumerate(numbers, first_round):
                counts[f"{block.name}, round {round}"] = number
        return counts

    def climb(self, kind: str, gradient: Tensor, learning_rate: float, trained: Tensor) -> None:
        """Takes one step of Adam (2015, Alg. 1) along a gradient.

        trained: bool; the edges that move. Momentum would go on moving others.
        """
        gradient = gradient * trained
        self.steps[kind] += 1
        self.mean[kind] += (1 - BETA_1) * (gradient - self.mean[kind])
        self.square[kind] += (1 - BETA_2) * (gradient**2 - self.square[kind])
        unbiased_mean = self.mean[kind] / (1 - BETA_1 ** self.steps[kind])
        unbiased_square = self.square[kind] / (1 - BETA_2 ** self.steps[kind])
        self.logits[kind] += learning_rate * unbiased_mean / (unbiased_square.sqrt() + 1e-8) * trained

    def forget_gradients(self) -> None:
        """Starts the optimiser anew."""
        self.mean = {kind: torch.zeros_like(logits) for kind, logits in self.logits.items()}
        self.square = {kind: torch.zeros_like(logits) for kind, logits in self.logits.items()}
        self.steps = {kind: torch.zeros(()) for kind in self.logits}

    def cut_others(self, kind: str, remaining: Tensor, tick: int) -> None:
        """Cuts all edges but those in `remaining`, bool."""
        cut = self.mask[kind] & ~remaining
        self.mask[kind] = self.mask[kind] & remaining
        self.cut[kind] += (tick + self.probability(kind).double()) * cut

    def replace(self, kind: str, edges: Tensor) -> None:
        """Leaves exactly the edges in `edges`, bool; edges that were cut come back.

        All edges are ranked by p from now on, since no estimate chose these.
        """
        existing = self.mask[kind] | (self.cut[kind] > 0)
        self.mask[kind] = edges.expand_as(existing).clone()
        self.cut[kind] = -(existing & ~edges).double()

    def rank_anew(self, kind: str, lowest: Tensor) -> None:
        """Ranks cut edges by their present p instead of their time; those in `lowest`, bool [unit, unit], come last."""
        cut = self.cut[kind]
        self.cut[kind] = (~lowest + self.probability(kind).double()).where(cut > 0, cut)

    def score(self, kind: str) -> Tensor:
        """Ranks edges: p where an edge is left, below 0 where it was pruned (the lower the earlier), -inf for no edge.

        Where rounds have masks of their own it is the mean over rounds, p counting as 0 in rounds from which an edge
        that others have left was pruned. Float64 [agent, agent].
        """
        # tick + p grows with the tick of pruning, then with p; -1 / (tick + p) puts that order below 0.
        cut = self.cut[kind]
        rank = self.probability(kind).double().where(cut < 0, torch.where(cut > 0, -1 / cut, -torch.inf))
        rank = self.sharing.to_agents(kind, rank.mean(0))
        remains = self.sharing.to_agents(kind, self.mask[kind].any(0))
        scores = self.mean_over_rounds(kind, self.probability(kind)).where(remains, rank)
        return scores.where(self.sharing.edges[kind], -torch.inf)

    def tensors(self) -> dict[str, Tensor]:
        """Copies the state, by `<part>.<kind>`; masks and cuts that rounds share have no dimension of rounds."""
        tensors = {}
        for part in PARTS:
            for kind, values in getattr(self, part).items():
                shared = part in ("mask", "cut") and not self.by_round
                tensors[f"{part}.{kind}"] = (values[0] if shared else values).clone()
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores a state from `tensors`."""
        for part in PARTS:
            values = getattr(self, part)
            for kind in KINDS:
                values[kind] = tensors[f"{part}.{kind}"].view_as(values[kind]).clone()
