"""Estimators of the policy gradient: how scores of sampled wirings become the edges' logits (Eq. 8).

To add one, write a class with the members of `Reinforce`, name it in `ESTIMATORS` and in `Estimator` (variants.py).
"""

import torch
from scipy.stats import t
from torch import Tensor

from topologies.learning.early_stopping import end_of_climb, end_of_estimate
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate, among_peers
from topologies.learning.grades import grades, heard
from topologies.learning.objective import Terms, credited_slope, leave_one_out, terms_of
from topologies.learning.question_model import EffectsByQuestion
from topologies.learning.randomised import Effects
from topologies.learning.sampling import drawn
from topologies.learning.spec import LearnerSpec
from topologies.learning.stages import Stage
from topologies.learning.variants import Estimator
from topologies.wiring import KINDS, Wirings


class Reinforce:
    """Gradient ascent on the objective (Eqs. 7, 8, 11): the paper's estimator.

    state: sums of the stage's gradients and of their squares, by kind, for early stopping; part of the learner's state.
    """

    prefix = "climbed."

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        self.spec, self.settings, self.edges = spec, spec.settings, edges
        self.state: dict[str, Tensor] = {}
        self.begin()

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        """Probability that an allowed edge is sampled with, [rounds or 1, sender, receiver], by kind drawn."""
        return {kind: self.edges.logits[kind].sigmoid() for kind in stage.drawn}

    def lookahead(self, steps_left: int) -> int:
        """Number of later steps of a stage that can be sampled before the next is learned."""
        return 0

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        """Changes the logits by one step. Returns the change (here the gradient) by kind, and the terms before it.

        turn_scores: [k, rounds, agents]; utility: [k]; group: int [k], the question of each sample.
        """
        terms, others = self._terms(stage)
        # The gradient of expected utility (Eq. 8), over all edges, frozen ones included.
        credit, expected, ties = self.credit(utility, group), {}, self.edges.ties
        own = self.credit(turn_scores, group) if self.settings.reward == "own" else credit
        for kind, (allowed, taken) in drawn(wirings).items():
            theta, earned = ties.spread(kind, self.edges.logits[kind]), credit if kind == "decision" else own
            expected[kind] = ties.gathered(kind, credited_slope(theta, allowed, taken, earned))
        trained = {kind: stage.start[kind] & self.edges.mask[kind] for kind in KINDS}
        gradient = {kind: (expected[kind] + others[kind]) * trained[kind] for kind in KINDS}
        for kind in KINDS:
            self.edges.climb(kind, gradient[kind], self.settings.learning_rate, trained[kind])
            if self.state:
                self.state[f"total.{kind}"] += gradient[kind]
                self.state[f"squares.{kind}"] += gradient[kind].double() ** 2
        return gradient, terms

    def outlook(self, steps: int, left: int) -> dict[str, Estimate]:
        """Forecasts the logits, by kind, at the end of a stage. `steps` are done, and some left."""
        rate = self.settings.learning_rate
        return {
            kind: end_of_climb(theta, self.state[f"total.{kind}"], self.state[f"squares.{kind}"], steps, left, rate)
            for kind, theta in self.edges.logits.items()
        }

    def begin(self, stage: Stage | None = None) -> None:
        """Starts a stage."""
        if self.spec.early_stop is not None:
            for kind, theta in self.edges.logits.items():
                zeros = torch.zeros_like(theta, dtype=torch.float64)
                self.state |= {f"total.{kind}": zeros, f"squares.{kind}": zeros.clone()}

    def credit(self, values: Tensor, group: Tensor) -> Tensor:
        """Weight of each wiring's log-probability, of the shape of `values`: utilities [k], or turn scores."""
        return values

    def _terms(self, stage: Stage) -> tuple[Terms, dict[str, Tensor]]:
        """Computes the objective's other terms, and their gradient by kind."""
        logits = {kind: theta.clone().requires_grad_() for kind, theta in self.edges.logits.items()}
        terms = terms_of(stage, self.edges.mask, logits, self.settings)
        weighted = terms.weighted(self.settings, self.spec.variant, stage.number)
        if not weighted.requires_grad:  # a stage without any edge has no such terms
            return terms, {kind: torch.zeros(()) for kind in KINDS}
        slopes = torch.autograd.grad(weighted, [logits[kind] for kind in KINDS], materialize_grads=True)
        return terms, dict(zip(KINDS, slopes, strict=True))

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        """Edges that are certain to harm by now, bool [sender, receiver] by kind. None with gradients."""
        return {}

    def certain_harm(self) -> dict[str, Tensor]:
        """Edges that `harmful` has named so far, by kind."""
        return {}

    def surrogate(self) -> None:
        """None: no answers stand for others."""

    def evidence(self) -> float | None:
        """Returns the chance of scores like these if no edge had an effect. None where that is unknown."""
        return None


class Rloo(Reinforce):
    """Eq. 8 with a leave-one-out baseline: a utility that all samples of a question share moves no logit."""

    def credit(self, values: Tensor, group: Tensor) -> Tensor:
        return leave_one_out(values, group)


class Competence(Reinforce):
    """Grades agents, not edges: by their own answers, each question's mean against that of their modality.

    An edge's logit is 1 plus its sender's grade over the critical value: p < 1/2 if and only if the sender is
    significantly worse. state, [agents] each: sums over questions of differences and their squares, and their number.
    """

    prefix = "graded."
    drawn = 0.5  # the chance of each edge

    def begin(self, stage: Stage | None = None) -> None:
        zeros = torch.zeros(len(self.spec.modalities), dtype=torch.float64)
        self.state = self.state or {name: zeros.clone() for name in ("total", "squares", "number")}

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        return {kind: torch.full_like(self.edges.logits[kind], self.drawn) for kind in stage.drawn}

    def lookahead(self, steps_left: int) -> int:
        return steps_left  # nothing is cut before the end

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        terms, change, state = terms_of(stage, self.edges.mask, self.edges.logits, self.settings), {}, self.state
        for question in range(int(group.max()) + 1):
            at = group == question
            difference = self.differences(turn_scores[at].double(), utility[at].double(), heard(wirings)[at])
            state["number"] += ~difference.isnan()
            state["total"] += difference.nan_to_num()
            state["squares"] += difference.nan_to_num() ** 2
        degrees = (state["number"] - 1).clamp(min=1).numpy()
        theta = 1 + grades(**state) / torch.from_numpy(t.isf(self.settings.error_rate / len(degrees), degrees))
        for kind, logits in self.edges.logits.items():
            change[kind] = (theta.clamp(-8, 8).float()[:, None] - logits) * stage.start[kind]
            logits += change[kind]
        return change, terms

    def outlook(self, steps: int, left: int) -> dict[str, Estimate]:
        return {kind: end_of_estimate(theta, steps, left) for kind, theta in self.edges.logits.items()}

    def differences(self, scores: Tensor, utility: Tensor, heard: Tensor) -> Tensor:
        """Differences that one question shows, float [agents]; NaN where none."""
        visual = torch.tensor([str(modality) == "visual" for modality in self.spec.modalities])
        return among_peers(scores.mean((0, 1)), visual)


class Removal(Competence):
    """Grades agents by utility with all heard, minus utility without one agent or turn."""

    drawn = 1.0

    def differences(self, scores: Tensor, utility: Tensor, heard: Tensor) -> Tensor:
        # Means over none are NaN: without the sample that hears all there is nothing to compare.
        whole = utility[heard.all(2).all(1)].mean()
        return torch.stack([whole - utility[removed].mean() for removed in ~heard.all(1).T])


ESTIMATORS: dict[Estimator, type[Reinforce] | type[Effects]] = {
    "reinforce": Reinforce,
    "rloo": Rloo,
    "effects": Effects,
    "effects_by_question": EffectsByQuestion,
    "competence": Competence,
    "removal": Removal,
}
