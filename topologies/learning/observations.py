"""What the samples so far say of every edge's effect (for `estimator=effects`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from topologies.learning.blocks import KINDS
from topologies.learning.effects import Estimate, edge_moments, posterior, raw_effects
from topologies.learning.objective import credited
from topologies.wiring import Wirings, drawn

MOST = 8.0  # logits stay within this: p is .9997 there


class Observations:
    """Sums over all samples so far, in double precision.

    products, squares: by kind of edge, [rounds or 1, sender, receiver] (`effects.edge_moments`).
    spread: by kind, [2]: the sum of squared credit and how much of it there was.
    scores: [rounds, agents], sums over samples of what agents' own answers scored, and utility: [1], of the final ones;
    samples: [1], how many.
    """

    def __init__(self, logits: Mapping[str, Tensor], rounds: int) -> None:
        """`logits`: an `EdgeState`'s, for their shapes: a round has an effect of its own where it has a logit."""
        self.products = {kind: torch.zeros(theta.shape, dtype=torch.float64) for kind, theta in logits.items()}
        self.squares = {kind: torch.zeros(theta.shape, dtype=torch.float64) for kind, theta in logits.items()}
        self.spread = {kind: torch.zeros(2, dtype=torch.float64) for kind in logits}
        self.scores = torch.zeros(rounds, len(logits["decision"][0]), dtype=torch.float64)
        self.utility, self.samples = torch.zeros(2, 1, dtype=torch.float64)

    def add(
        self,
        wirings: Wirings,
        turn_scores: Tensor,
        utility: Tensor,
        group: Tensor,
        chances: Mapping[str, Tensor],
    ) -> None:
        """Samples of one step: turn_scores [k, rounds, agents], utility [k], group (the question) int [k].

        chances: by kind, with what probability edges were drawn; kinds without it were not drawn at random. An edge is
        credited with its receiver's own score in the round it leads to, one to the decision agent with the utility of
        the final answer, both apart from what other samples of the question scored.
        """
        count = float(self.samples)
        own = credited(turn_scores, group, self.scores, count)
        of_answer = credited(utility.double()[:, None, None], group, self.utility, count)
        credits = {"spatial": own, "temporal": own[:, 1:], "decision": of_answer}
        edges = drawn(wirings)
        for kind, probability in chances.items():
            # Copies: arrays that crossed a process are read-only.
            allowed, taken = (torch.tensor(part) for part in edges[kind])
            self._count(kind, taken, allowed, probability, credits[kind])
        self.scores += turn_scores.sum(0)
        self.utility += utility.double().sum()
        self.samples += len(turn_scores)

    def _count(self, kind: str, taken: Tensor, allowed: Tensor, probability: Tensor, credit: Tensor) -> None:
        products, squares = edge_moments(taken, allowed, probability, credit)
        shared = len(self.products[kind]) == 1
        self.products[kind] += products.sum(0, keepdim=True) if shared else products
        self.squares[kind] += squares.sum(0, keepdim=True) if shared else squares
        self.spread[kind] += torch.tensor([float((credit**2).sum()), float(credit.numel())], dtype=torch.float64)

    def effects(self) -> dict[str, Estimate]:
        """What is believed of every edge, by kind, [rounds or 1, sender, receiver].

        All kinds are judged together, the decision agent being one more receiver: each says how far a sender can be
        trusted. Alone, the decision column holds too little evidence; noise would now and then keep the one agent that
        misleads.
        """
        raw = {kind: self._raw(kind) for kind in KINDS}
        return _posterior(raw, self.scores.mean(0) / self.samples.clamp(min=1))

    def logits(self) -> dict[str, Tensor]:
        """Effect / standard deviation, by kind, so that half is the probability of an edge whose effect may be none."""
        believed = self.effects().items()
        return {kind: (e.mean / e.variance.sqrt()).clamp(-MOST, MOST).float() for kind, e in believed}

    def _raw(self, kind: str) -> Estimate:
        squared, count = self.spread[kind]
        # While all samples of a question score the same, nothing is known, not even that an edge does nothing.
        spread = (squared / count.clamp(min=1)).where(squared > 0, torch.inf)
        return raw_effects(self.products[kind], self.squares[kind], spread)

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all of it."""
        by_kind = {"products": self.products, "squares": self.squares, "spread": self.spread}
        sums = {f"{what}.{kind}": value.clone() for what, of in by_kind.items() for kind, value in of.items()}
        return sums | {name: getattr(self, name).clone() for name in ("scores", "utility", "samples")}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        for what, of in (("products", self.products), ("squares", self.squares), ("spread", self.spread)):
            of.update({kind: tensors[f"{what}.{kind}"].clone() for kind in KINDS})
        self.scores, self.utility, self.samples = (tensors[n].clone() for n in ("scores", "utility", "samples"))


def _posterior(raw: dict[str, Estimate], scores: Tensor) -> dict[str, Estimate]:
    """`effects.posterior` of all these kinds and rounds together, a sender's edges side by side in one row."""
    columns = {kind: Estimate(*(part.transpose(0, 1).flatten(1) for part in seen)) for kind, seen in raw.items()}
    widths = [seen.mean.shape[1] for seen in columns.values()]
    together = Estimate(*(torch.cat(parts, dim=1) for parts in zip(*columns.values(), strict=True)))
    split = zip(*(torch.split(part, widths, dim=1) for part in posterior(together, scores)), strict=True)
    return {
        kind: Estimate(*(part.unflatten(1, (len(seen.mean), -1)).transpose(0, 1) for part in parts))
        for (kind, seen), parts in zip(raw.items(), split, strict=True)
    }
