"""Learning in a planted world, step by step."""

from collections.abc import AsyncIterator, Sequence
from functools import cache
from typing import NamedTuple

import torch

from actors.runtime.inline import Local
from experiments.studies.planted.measures import different_turns, of_columns
from experiments.studies.planted.opinion_model import OpinionQuestions
from experiments.studies.planted.opinions import OpinionTeam
from topologies.learning.course import Course, StepScores, TrainingStep
from topologies.learning.learner import Learner
from topologies.wiring import Floats


class PlantedStep(NamedTuple):
    """Cost and scores of one training step.

    used: questions until now. tokens: mean of a discussion. turns, different: numbers of turns and of different ones.
    computed: cost of the different ones. scores: of the step (`of_columns`).
    """

    used: int
    tokens: float
    turns: int
    different: int
    computed: int
    scores: Floats


async def learn(
    learner: Learner, team: OpinionTeam, samples: int, others: Sequence[Learner] = ()
) -> AsyncIterator[PlantedStep]:
    """Learns all stages, one question a step, until all stop early. `others` learn from the same discussions, and then
    confirm their graphs with separate ones."""
    used = 0
    measured: list[PlantedStep] = []

    @cache
    def questions(stage: int) -> OpinionQuestions:
        return team.questions(learner.pruning.steps, "learning", stage)

    async def features(stage: int, number: int) -> Floats:
        of_step: Floats = questions(stage).features[[number - 1]].numpy()
        return of_step

    async def discuss(step: TrainingStep) -> StepScores:
        index = torch.full((step.samples,), step.number - 1)
        scores, utilities = team.discuss(questions(step.stage), index, step.wirings, step.chances)
        measured.append(measure(used + 1, team, step, scores, utilities))
        return StepScores(scores.numpy(), utilities.numpy())

    course = Course(Local(learner), [Local(other) for other in others], samples, features=features)
    async for _ in course.train(discuss):
        used += 1
        yield measured.pop()

    for other in others:
        async for _ in learn(other, team, samples):
            pass


def measure(
    used: int, team: OpinionTeam, step: TrainingStep, scores: torch.Tensor, utilities: torch.Tensor
) -> PlantedStep:
    """Counts the turns and messages of a step's discussions."""
    wirings = step.wirings
    if wirings.speaks is None:
        turns = step.samples * team.agents * team.model.rounds
    else:
        turns = int(wirings.speaks.sum())
    edges = sum(int(taken.sum()) for taken in (wirings.spatial, wirings.temporal, wirings.decision))
    different, readings = different_turns(wirings)
    return PlantedStep(
        used=used,
        tokens=(edges + turns) / step.samples,
        # The decision agent has a turn in each discussion.
        turns=turns + step.samples,
        different=different,
        computed=different + readings,
        scores=of_columns(scores, utilities, wirings.speaks),
    )
