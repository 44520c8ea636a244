"""Scores the discussions of a training step, for a learner."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from actors.messages import Status, Trace
from experiments.datasets.item import Dataset, Item
from experiments.planning.plan import Plan


@dataclass(frozen=True)
class StepScores:
    """Scores of one step's discussions: arguments of `Learner.learn`.

    turns: [k, rounds, agents]; utilities: [k]; groups: int [k], the question of each; tokens: of all discussions.
    A discussion with a failed turn tells nothing: it has the mean scores of the others of its question.
    """

    turns: np.ndarray
    utilities: np.ndarray
    groups: np.ndarray
    tokens: int


def score_step(plan: Plan, dataset: Dataset, items: Sequence[Item], traces: Sequence[Trace]) -> StepScores:
    """Scores the discussions of a step's questions, `training.samples` consecutive ones for each."""
    k = plan.config.training.samples
    utilities, turn_scores, tokens = [], [], 0

    # Few of the answers to a question differ, and between two steps nothing else goes on.
    @cache
    def utility(question: int, answer: str | None) -> float:
        return dataset.score(items[question], answer).utility

    for number, trace in enumerate(traces):
        of_question = partial(utility, number // k)
        utilities.append(of_question(trace.answer))
        turn_scores.append(_turn_scores(plan, of_question, trace))
        tokens += sum(turn.prompt_tokens + turn.completion_tokens for turn in trace.turns)
    # Learners know no missing score: 0 in every discussion alike tells nothing about any edge.
    scores = StepScores(
        turns=np.nan_to_num(np.array(turn_scores)),
        utilities=np.array(utilities),
        # The question of each discussion, so that the learner can compare answers to the same one.
        groups=np.arange(len(utilities)) // k,
        tokens=tokens,
    )
    failed = np.array([any(turn.status is Status.FAILED for turn in trace.turns) for trace in traces])
    for question in np.unique(scores.groups[failed]):
        lost, kept = (side & (scores.groups == question) for side in (failed, ~failed))
        for values in (scores.turns, scores.utilities):
            values[lost] = values[kept].mean(0) if kept.any() else 0.0
    return scores


def _turn_scores(plan: Plan, utility: Callable[[str | None], float], trace: Trace) -> list[list[float]]:
    """The score of each agent's own answer, [rounds, agents]; NaN for an agent whose form has no answer."""
    silent = {role.name for role in plan.roles.team if not role.answers}
    scores = {turn.id: math.nan if turn.agent in silent else utility(turn.answer) for turn in trace.turns}
    rounds = range(1, plan.config.topology.rounds + 1)
    # In training only an agent that takes no part in the round has no turn.
    return [[scores.get(f"{number}/{agent}", math.nan) for agent in trace.agents] for number in rounds]
