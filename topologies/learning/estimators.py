"""Estimators of the policy gradient: how scores of sampled wirings become the edges' logits (Eq. 8).

To add one, derive a class from `EdgeEstimator`, and describe it as an `Estimator` in variants.py.
"""

import torch
from torch import Tensor

from topologies.learning.early_stopping import end_of_climb
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate
from topologies.learning.estimator import EdgeEstimator, ScoredDiscussions
from topologies.learning.objective import Terms, credited_slope, leave_one_out, terms_of
from topologies.learning.sampling import draws_of
from topologies.learning.spec import LearnerSpec
from topologies.learning.stages import Stage
from topologies.wiring import KINDS


class Reinforce(EdgeEstimator):
    """Gradient ascent on the objective (Eqs. 7, 8, 11): the paper's estimator.

    state: sums of the stage's gradients and of their squares, by kind, where the stage may end early.
    """

    prefix = "climbed."

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        super().__init__(spec, edges)
        self.forecasts = spec.early_stop is not None
        self._clear_sums()

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        return {kind: self.edges.probability(kind) for kind in stage.drawn}

    def learn(self, stage: Stage, discussions: ScoredDiscussions) -> tuple[dict[str, Tensor], Terms]:
        terms, slopes = self._terms(stage)
        credit = self.credit(discussions.utility, discussions.question)
        receiver_credit = credit
        if self.settings.reward == "own":
            receiver_credit = self.credit(discussions.turn_scores, discussions.question)
        gradient = {}
        for kind, draws in draws_of(discussions.wirings).items():
            # The gradient of expected utility (Eq. 8), over all edges, frozen ones included.
            slope = credited_slope(
                self.edges.sharing.to_agents(kind, self.edges.logits[kind]),
                draws.allowed_edges,
                draws.drawn_edges,
                credit=credit if kind == "decision" else receiver_credit,
            )
            trained = stage.start[kind] & self.edges.mask[kind]
            gradient[kind] = (self.edges.sharing.sum_by_logit(kind, slope) + slopes[kind]) * trained
            self.edges.climb(kind, gradient[kind], self.settings.learning_rate, trained)
            if self.forecasts:
                self.state[f"total.{kind}"] += gradient[kind]
                self.state[f"squares.{kind}"] += gradient[kind].double() ** 2
        return gradient, terms

    def forecast(self, steps: int, steps_left: int) -> dict[str, Estimate]:
        return {
            kind: end_of_climb(
                logits,
                self.state[f"total.{kind}"],
                self.state[f"squares.{kind}"],
                steps,
                steps_left,
                learning_rate=self.settings.learning_rate,
            )
            for kind, logits in self.edges.logits.items()
        }

    def begin(self, stage: Stage) -> None:
        self._clear_sums()

    def credit(self, values: Tensor, question: Tensor) -> Tensor:
        """Weight of each wiring's log-probability, of the shape of `values`: utilities [k], or turn scores."""
        return values

    def _clear_sums(self) -> None:
        if self.forecasts:
            for kind, logits in self.edges.logits.items():
                self.state[f"total.{kind}"] = torch.zeros_like(logits, dtype=torch.float64)
                self.state[f"squares.{kind}"] = torch.zeros_like(logits, dtype=torch.float64)

    def _terms(self, stage: Stage) -> tuple[Terms, dict[str, Tensor]]:
        """Computes the objective's other terms, and their gradient by kind."""
        logits = {kind: values.clone().requires_grad_() for kind, values in self.edges.logits.items()}
        terms = terms_of(stage, self.edges.mask, logits, self.settings)
        weighted = terms.weighted(self.settings, self.spec.variant, stage.number)
        if not weighted.requires_grad:  # a stage without any edge has no such terms
            return terms, {kind: torch.zeros(()) for kind in KINDS}
        slopes = torch.autograd.grad(weighted, [logits[kind] for kind in KINDS], materialize_grads=True)
        return terms, dict(zip(KINDS, slopes, strict=True))


class Rloo(Reinforce):
    """Eq. 8 with a leave-one-out baseline: a utility that all samples of a question share moves no logit."""

    def credit(self, values: Tensor, question: Tensor) -> Tensor:
        return leave_one_out(values, question)
