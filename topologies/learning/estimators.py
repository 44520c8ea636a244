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
from topologies.learning.observations import Observations
from topologies.learning.settings import Decision, Estimator, LearnerSettings
from topologies.wiring import Wirings, drawn


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
        """The probability that each allowed edge is sampled with, [rounds or 1, sender, receiver], by kind drawn."""
        return {kind: self.edges.logits[kind].sigmoid() for kind in stage.drawn}

    def foresight(self, steps_left: int) -> int:
        """How many of a stage's later steps can be sampled before the next one is learned from."""
        return 0

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        """Change the logits by one step; returns by what (here the gradient), by kind, and the terms before it.

        turn_scores: [k, rounds, agents]; utility: [k]; group: int [k], the question of each sample.
        """
        logits = {kind: theta.clone().requires_grad_() for kind, theta in self.edges.logits.items()}
        surrogate = (self.credit(utility, group) * self._log_probability(logits, wirings)).mean()
        terms = terms_of(stage, self.edges.mask, logits, self.settings.epsilon)
        ascent = torch.autograd.grad(surrogate + terms.weighted(self.settings), [logits[kind] for kind in KINDS])
        trained = {kind: stage.start[kind] & self.edges.mask[kind] for kind in KINDS}
        gradient = {kind: slope * trained[kind] for kind, slope in zip(KINDS, ascent, strict=True)}
        for kind in KINDS:
            self.edges.climb(kind, gradient[kind], self.settings.learning_rate)
        return gradient, terms

    def credit(self, utility: Tensor, group: Tensor) -> Tensor:
        """What the log-probability of each wiring is weighted with, [k]."""
        return utility

    def _log_probability(self, logits: Mapping[str, Tensor], wirings: Wirings) -> Tensor:
        """log P of each wiring [k], over all kinds of edges, those frozen or always present included."""
        total = torch.zeros(len(wirings.spatial))
        for kind, (allowed, taken) in drawn(wirings).items():
            pair = torch.tensor(allowed), torch.tensor(taken)  # copies: arrays that crossed a process are read-only
            total = total + log_probability(logits[kind], *pair, self.settings.likelihood)
        return total

    def begin(self, stage: Stage) -> None:
        """Start a later stage than the first."""

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all that changes while learning, beside the edges."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave; other names are ignored."""


class Rloo(Reinforce):
    """Eq. 8 with a leave-one-out baseline: what all samples of a question share moves no logit."""

    def credit(self, utility: Tensor, group: Tensor) -> Tensor:
        return leave_one_out(utility, group)


class Effects:
    """The effect that each edge has on its receiver: logits are effect / standard deviation (effects.py).

    The objective's other terms are reported, but have no say.
    """

    decision = Decision.LEARNED
    staged = False
    has_alignment = False
    each_step = False  # within the first steps nearly all effects are noise

    def __init__(self, settings: LearnerSettings, edges: EdgeState, rounds: int) -> None:
        self.settings, self.edges = settings, edges
        self.observations = Observations(edges.logits, rounds)

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        # A fair coin tells most about an edge, and following p was not better.
        return {kind: torch.full_like(self.edges.logits[kind], 0.5) for kind in stage.drawn}

    def foresight(self, steps_left: int) -> int:
        return steps_left  # nothing that is learned in a stage changes how it samples

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        terms = terms_of(stage, self.edges.mask, self.edges.logits, self.settings.epsilon)
        self.observations.add(wirings, turn_scores, utility, group, self.chances(stage))
        return self._update(stage), terms

    def begin(self, stage: Stage) -> None:
        self._update(stage)  # senders that are known from edges of the first stage lend it to those of this one

    def _update(self, stage: Stage) -> dict[str, Tensor]:
        """Set the stage's logits to what the observations say; the change by kind."""
        change = {}
        for kind, theta in self.observations.logits().items():
            change[kind] = (theta - self.edges.logits[kind]) * stage.start[kind]
            self.edges.logits[kind] += change[kind]
            self.edges.rank_anew(kind)
        return change

    def tensors(self) -> dict[str, Tensor]:
        return {f"seen.{name}": value for name, value in self.observations.tensors().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.observations.restore({name.removeprefix("seen."): value for name, value in tensors.items()})


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
