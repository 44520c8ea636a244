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
from topologies.learning.objective import Terms, leave_one_out, log_probability, terms_of
from topologies.learning.randomised import Effects, drawn_tensors
from topologies.learning.settings import Decision, Estimator, LearnerSettings
from topologies.wiring import Wirings


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

    def __init__(self, settings: LearnerSettings, edges: EdgeState, rounds: int, visual: Tensor) -> None:
        """`visual`: bool [agents], those whose modality is pictures."""
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
        ascent = torch.autograd.grad(
            surrogate + terms.weighted(self.settings, stage.number), [logits[kind] for kind in KINDS]
        )
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

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        """The edges that are certain to harm by now, bool [sender, receiver] by kind; no gradient says."""
        return {}

    def certain_harm(self) -> dict[str, Tensor]:
        """The edges that `harmful` has named so far, by kind."""
        return {}

    def evidence(self) -> float | None:
        """The chance of what was seen where no edge has an effect; None where that is not known."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all that changes while learning, beside the edges."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores what `tensors` gave; other names are ignored."""


class Rloo(Reinforce):
    """Eq. 8 with a leave-one-out baseline: what all samples of a question share moves no logit."""

    def credit(self, utility: Tensor, group: Tensor) -> Tensor:
        return leave_one_out(utility, group)


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
