"""The estimators: how the scores of sampled wirings become the edges' logits.

To add one, write a class with the same attributes and methods as `Reinforce` and name it in `ESTIMATORS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from topologies.learning.blocks import KINDS, Stage
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate, edge_moments, posterior_by_kind, raw_effects
from topologies.learning.objective import Terms, credited, leave_one_out, log_probability, terms_of
from topologies.learning.settings import Decision, Estimator, LearnerSettings
from topologies.wiring import Wirings, drawn

MOST = 8.0  # logits of `effects` stay within this: p is .9997 there


class Reinforce:
    """Gradient ascent on the objective (Eqs. 7, 8, 11): the paper's estimator.

    decision, staged: what the settings of these names stand for where they are None.
    has_alignment: whether the alignment term has a say.
    each_step: whether its probabilities may be pruned by after each step; else when a stage ends.
    """

    decision = Decision.ALL
    staged = True
    has_alignment = True
    each_step = True

    def __init__(self, settings: LearnerSettings, edges: EdgeState, rounds: int) -> None:
        self.settings, self.edges = settings, edges

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        """The probability that an allowed edge is sampled with, [rounds or 1, sender, receiver], by kind drawn."""
        return {kind: self.edges.logits[kind].sigmoid() for kind in stage.drawn}

    def foresight(self, steps_left: int) -> int:
        """The number of later steps of a stage that can be sampled before the next one is learned from."""
        return 0

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        """Changes the logits by one step; returns the change (here the gradient) by kind, and the terms before it.

        turn_scores: [k, rounds, agents]; utility: [k]; group: int [k], the question of each sample.
        """
        logits = {kind: theta.clone().requires_grad_() for kind, theta in self.edges.logits.items()}
        surrogate = (self.credit(utility, group) * self._log_probability(logits, wirings)).mean()
        terms = terms_of(stage, self.edges.mask, logits, self.settings)
        ascent = torch.autograd.grad(surrogate + terms.weighted(self.settings), [logits[kind] for kind in KINDS])
        trained = {kind: stage.start[kind] & self.edges.mask[kind] for kind in KINDS}
        gradient = {kind: slope * trained[kind] for kind, slope in zip(KINDS, ascent, strict=True)}
        for kind in KINDS:
            self.edges.climb(kind, gradient[kind], self.settings.learning_rate, trained[kind])
        return gradient, terms

    def credit(self, utility: Tensor, group: Tensor) -> Tensor:
        """The weight of each wiring's log-probability, [k]."""
        return utility

    def _log_probability(self, logits: Mapping[str, Tensor], wirings: Wirings) -> Tensor:
        """log P of each wiring [k], over all kinds of edges, those frozen or always present included."""
        total = torch.zeros(len(wirings.spatial))
        for kind, (allowed, taken) in drawn_tensors(wirings).items():
            total = total + log_probability(logits[kind], allowed, taken, self.settings.likelihood)
        return total

    def begin(self, stage: Stage) -> None:
        """Starts a later stage than the first."""

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all that changes while learning, beside the edges."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores what `tensors` gave; other names are ignored."""


class Rloo(Reinforce):
    """Eq. 8 with a leave-one-out baseline: what all samples of a question share moves no logit."""

    def credit(self, utility: Tensor, group: Tensor) -> Tensor:
        return leave_one_out(utility, group)


class Effects:
    """Each edge's effect on its receiver, as effects.py estimates it: a logit is effect / standard deviation.

    The objective's other terms are reported, but have no say. `sums` are over all samples so far, in double precision:
    products, squares: by kind, [rounds or 1, sender, receiver] (`edge_moments`).
    spread: by kind, [2]; squared credit, and the number of credits.
    scores: [rounds, agents], of agents' own answers; utility: [1], of final answers; samples: [1], their number.
    """

    decision = Decision.LEARNED
    staged = False
    has_alignment = False
    each_step = False  # after a few steps nearly all effects are noise

    def __init__(self, settings: LearnerSettings, edges: EdgeState, rounds: int) -> None:
        self.settings, self.edges = settings, edges
        shapes = {f"{name}.{kind}": p.shape for name in ("products", "squares") for kind, p in edges.logits.items()}
        shapes |= {f"spread.{kind}": torch.Size([2]) for kind in KINDS}
        shapes |= {"scores": torch.Size([rounds, len(edges.mask["decision"])])}
        shapes |= {"utility": torch.Size([1]), "samples": torch.Size([1])}
        self.sums = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        # A fair coin tells most about an edge, and following p was not better.
        return {kind: torch.full_like(self.edges.logits[kind], 0.5) for kind in stage.drawn}

    def foresight(self, steps_left: int) -> int:
        return steps_left  # nothing that is learned in a stage changes how it samples

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        """Adds one step's samples to the sums, and sets the logits anew; returns their change, by kind.

        An edge is credited with its receiver's own score in the round it leads to, one to the decision agent with the
        utility of the final answer, both apart from what other samples of the question scored.
        """
        terms = terms_of(stage, self.edges.mask, self.edges.logits, self.settings)
        final, count = utility.double(), float(self.sums["samples"])
        own = credited(turn_scores, group, self.sums["scores"], count)
        of_answer = credited(final[:, None, None], group, self.sums["utility"], count)
        credits = {"spatial": own, "temporal": own[:, 1:], "decision": of_answer}
        edges = drawn_tensors(wirings)
        for kind, probability in self.chances(stage).items():
            allowed, taken = edges[kind]
            self._add(kind, edge_moments(taken, allowed, probability, credits[kind]), credits[kind])
        self.sums["scores"] += turn_scores.sum(0)
        self.sums["utility"] += final.sum()
        self.sums["samples"] += len(final)
        return self._update(stage), terms

    def _add(self, kind: str, moments: tuple[Tensor, Tensor], credit: Tensor) -> None:
        for name, moment in zip(("products", "squares"), moments, strict=True):
            total = self.sums[f"{name}.{kind}"]
            total += moment.sum(0, keepdim=True) if len(total) == 1 else moment
        squared = float((credit**2).sum())
        self.sums[f"spread.{kind}"] += torch.tensor([squared, float(credit.numel())], dtype=torch.float64)

    def begin(self, stage: Stage) -> None:
        self._update(stage)  # a sender's edges of the first stage say what to expect of its new ones

    def _update(self, stage: Stage) -> dict[str, Tensor]:
        """Sets the stage's logits to what the sums say; the change, by kind."""
        scores = self.sums["scores"].mean(0) / self.sums["samples"].clamp(min=1)
        change = {}
        for kind, effect in posterior_by_kind({kind: self._raw(kind) for kind in KINDS}, scores).items():
            theta = (effect.mean / effect.variance.sqrt()).clamp(-MOST, MOST).float()
            change[kind] = (theta - self.edges.logits[kind]) * stage.start[kind]
            self.edges.logits[kind] += change[kind]
            self.edges.rank_anew(kind)
        return change

    def _raw(self, kind: str) -> Estimate:
        squared, count = self.sums[f"spread.{kind}"]
        # While all samples of a question score the same, nothing is known, not even that an edge does nothing.
        spread = (squared / count.clamp(min=1)).where(squared > 0, torch.inf)
        return raw_effects(self.sums[f"products.{kind}"], self.sums[f"squares.{kind}"], spread)

    def tensors(self) -> dict[str, Tensor]:
        return {f"seen.{name}": total.clone() for name, total in self.sums.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.sums = {name: tensors[f"seen.{name}"].clone() for name in self.sums}


def drawn_tensors(wirings: Wirings) -> dict[str, tuple[Tensor, Tensor]]:
    """`drawn` as tensors, copied: arrays that crossed a process are read-only."""
    return {kind: (torch.tensor(allowed), torch.tensor(taken)) for kind, (allowed, taken) in drawn(wirings).items()}


ESTIMATORS: dict[Estimator, type[Reinforce] | type[Effects]] = {
    Estimator.REINFORCE: Reinforce,
    Estimator.RLOO: Rloo,
    Estimator.EFFECTS: Effects,
}


def resolved(settings: LearnerSettings) -> LearnerSettings:
    """The settings with the estimator's own choice in place of None."""
    own = ESTIMATORS[settings.estimator]
    staged = own.staged if settings.staged is None else settings.staged
    return replace(settings, decision=settings.decision or own.decision, staged=staged)
