"""Estimators `competence` and `removal`: grades of agents by their own answers, or by utility without them."""

import numpy as np
import torch
from scipy.special import stdtrit  # not scipy.stats, which is slow to import
from torch import Tensor

from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import among_peers, bounded_logits
from topologies.learning.estimator import EdgeEstimator, ScoredDiscussions
from topologies.learning.objective import Terms, terms_of
from topologies.learning.spec import LearnerSpec
from topologies.learning.stages import Stage
from topologies.wiring import Wirings


class Competence(EdgeEstimator):
    """Grades agents, not edges: by their own answers, each question's mean against that of their modality.

    An edge's logit is 1 plus its sender's grade over the critical value: p < 1/2 if and only if the sender is
    significantly worse. state, [agents] each: sums over questions of differences and their squares, and their number.
    """

    prefix = "graded."
    chance = 0.5
    """Chance of each edge."""

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        super().__init__(spec, edges)
        self.visual = torch.tensor(spec.visual)
        zeros = torch.zeros(len(self.visual), dtype=torch.float64)
        self.state = {name: zeros.clone() for name in ("total", "squares", "number")}

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        return self.constant_chances(stage, self.chance)

    def lookahead(self, steps_left: int) -> int:
        return steps_left  # nothing is cut before the end

    def learn(self, stage: Stage, discussions: ScoredDiscussions) -> tuple[dict[str, Tensor], Terms]:
        terms = terms_of(stage, self.edges.mask, self.edges.logits, self.settings)
        for question in discussions.questions:
            difference = self.differences(discussions, discussions.question == question)
            self.state["number"] += ~difference.isnan()
            self.state["total"] += difference.nan_to_num()
            self.state["squares"] += difference.nan_to_num() ** 2

        sender_logits = bounded_logits(1 + relative_grades(**self.state, error_rate=self.settings.error_rate))

        change = {}
        for kind, logits in self.edges.logits.items():
            change[kind] = (sender_logits[:, None] - logits) * stage.start[kind]
            logits += change[kind]
        return change, terms

    def begin(self, stage: Stage) -> None:
        """Goes on: grades are of all stages."""

    def differences(self, discussions: ScoredDiscussions, of_question: Tensor) -> Tensor:
        """Differences that one question's discussions show, double [agents], NaN where none; of_question: bool [k]."""
        return among_peers(discussions.turn_scores[of_question].mean((0, 1)), self.visual)


class Removal(Competence):
    """Grades agents by utility with all heard, minus utility without one agent or turn."""

    chance = 1.0

    def differences(self, discussions: ScoredDiscussions, of_question: Tensor) -> Tensor:
        utility = discussions.utility[of_question].double()
        is_heard = heard_turns(discussions.wirings)[of_question]
        # Means over none are NaN: without the sample that hears all there is nothing to compare.
        utility_of_all = utility[is_heard.all(2).all(1)].mean()
        return torch.stack([utility_of_all - utility[removed].mean() for removed in ~is_heard.all(1).T])


def relative_grades(total: Tensor, squares: Tensor, number: Tensor, error_rate: float) -> Tensor:
    """Student's t of mean differences [agents], from their sums and number (one or of each), over its critical value.

    Below -1 an agent is worse, at `error_rate` for all agents together. Of fewer than two differences, t is the mean.
    """
    mean = total / number.clamp(min=1)
    degrees = (number - 1).clamp(min=1)
    variance = (squares / number.clamp(min=1) - mean**2).clamp(min=1e-6) / degrees
    grades = torch.where(number > 1, mean / variance.sqrt(), mean)
    return grades / torch.as_tensor(-stdtrit(degrees.numpy(), error_rate / len(mean)))


def heard_turns(wirings: Wirings) -> Tensor:
    """Turns that any agent, or the decision agent, hears, bool [k, rounds, agents]."""
    heard_later = np.concatenate([wirings.temporal[:, 1:].any(3), wirings.decision[:, None]], axis=1)
    return torch.from_numpy(wirings.spatial.any(3) | heard_later)
