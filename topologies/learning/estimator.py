"""Contract of estimators: how scores of sampled wirings become logits of edges."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from topologies.learning.early_stopping import end_of_estimate
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import Estimate
from topologies.learning.objective import Terms
from topologies.learning.spec import LearnerSpec, Surrogate
from topologies.learning.stages import Stage
from topologies.wiring import Floats, Wirings


class ScoredDiscussions(NamedTuple):
    """Scored discussions of one step.

    turn_scores: double [k, rounds, agents], of agents' own answers.
    utility: [k], of final answers.
    question: int [k], the question of each discussion, from 0.
    """

    wirings: Wirings
    turn_scores: Tensor
    utility: Tensor
    question: Tensor

    @property
    def questions(self) -> range:
        """Numbers of the questions."""
        return range(int(self.question.max()) + 1)


class EdgeEstimator(ABC):
    """Learns logits of edges from scored discussions.

    prefix: begins the names of `state` in a saved learner.
    state: all that changes while learning, besides the edges; part of the learner's state.
    """

    prefix: str

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        self.spec = spec
        self.settings = spec.settings
        self.edges = edges
        self.state: dict[str, Tensor] = {}

    @abstractmethod
    def chances(self, stage: Stage) -> dict[str, Tensor]:
        """Probability that an allowed edge is sampled with, [rounds or 1, sender, receiver], by kind drawn."""

    @abstractmethod
    def learn(self, stage: Stage, discussions: ScoredDiscussions) -> tuple[dict[str, Tensor], Terms]:
        """Changes the logits by one step. Returns the change, or the gradient, by kind, and the terms before it."""

    def constant_chances(self, stage: Stage, p: float) -> dict[str, Tensor]:
        """The same chance of every edge, by kind drawn."""
        return {kind: torch.full_like(self.edges.logits[kind], p) for kind in stage.drawn}

    def forecast(self, steps: int, steps_left: int) -> dict[str, Estimate]:
        """Forecasts the logits, by kind, at the end of a stage of which `steps` are done. Logits are estimates, in
        units of their standard deviation."""
        return {kind: end_of_estimate(logits, steps, steps_left) for kind, logits in self.edges.logits.items()}

    @abstractmethod
    def begin(self, stage: Stage) -> None:
        """Starts a later stage than the first."""

    def lookahead(self, steps_left: int) -> int:
        """Number of later steps, of those left, that can be sampled before the next is learned."""
        return 0

    def by_question(self) -> bool:
        """True if the graph depends on the question."""
        return False

    def logits_of(self, features: Floats) -> Mapping[str, Tensor]:
        """Logits of the graph for a question with features [d], by kind."""
        return self.edges.logits

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        """Edges that are certain to harm by now, bool [sender, receiver] by kind; empty where none can be."""
        return {}

    def certain_harm(self) -> dict[str, Tensor]:
        """Edges that `harmful` has named so far, bool [sender, receiver] by kind."""
        return {}

    def worse_agents(self) -> Tensor:
        """Agents whose own answers are surely worse than their modality's, bool [sender, 1]; none where unknown."""
        return torch.zeros_like(self.edges.mask["decision"][0])

    def evidence(self) -> float | None:
        """Chance of scores like these if no edge had an effect; None where that is unknown."""
        return None

    def surrogate(self) -> Surrogate | None:
        """Check whether effects on own answers stand for effects on the final one; None where none is estimated."""
        return None
