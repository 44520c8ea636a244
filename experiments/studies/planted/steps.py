"""Learning in a planted world, step by step."""

from collections.abc import AsyncIterator, Sequence
from functools import cache
from typing import NamedTuple

import torch

from actors.runtime.inline import Local
from experiments.config.config import Config
from experiments.studies.planted.measures import different_turns, mean_scores
from experiments.studies.planted.opinion_model import OpinionQuestions
from experiments.studies.planted.opinions import OpinionTeam
from topologies.learning.course import Course, StepScores, TrainingStep
from topologies.learning.learner import Learner
from topologies.learning.spec import LearnerSpec
from topologies.learning.variants import Variant
from topologies.wiring import Floats


class PlantedStep(NamedTuple):
    """Cost and scores of one training step.

    used: questions until now. discussions: of the step. tokens: mean of a discussion. turns, different: numbers of
    turns and of different ones. computed: cost of the different ones. scores: of the step (`mean_scores`).
    """

    used: int
    discussions: int
    tokens: float
    turns: int
    different: int
    computed: int
    scores: Floats


def learner_spec(variant: Variant, team: OpinionTeam, config: Config) -> LearnerSpec:
    """Specifies a learner of the graphs of a team, by the settings of a run."""
    return LearnerSpec(
        team.modalities,
        team.model.rounds,
        team.seed,
        variant=variant,
        settings=config.learner,
        pruning=config.pruning,
        features=len(team.model.kinds) if variant.by_question else 0,
    )


async def learn(
    learner: Learner, team: OpinionTeam, samples: int, others: Sequence[Learner] = ()
) -> AsyncIterator[PlantedStep]:
    """Learns all stages, one question a step, until all stop early. `others` learn from the same discussions, and then
    confirm their graphs with separate ones."""
    used = 0
    measured_steps: list[PlantedStep] = []

    @cache
    def questions(stage: int) -> OpinionQuestions:
        return team.questions(learner.pruning.steps, "learning", stage)

    async def features(stage: int, number: int) -> Floats:
        step_features: Floats = questions(stage).features[[number - 1]].numpy()
        return step_features

    async def discuss(step: TrainingStep) -> StepScores:
        index = torch.full((step.samples,), step.number - 1)
        scores, utilities = team.discuss(questions(step.stage), index, step.wirings, step.chances)
        measured_steps.append(measured_step(used + 1, team, step, scores, utilities))
        return StepScores(scores.numpy(), utilities.numpy())

    samples = learner.spec.samples(samples)
    course = Course(Local(learner), [Local(follower) for follower in others], samples, features=features)
    async for _ in course.train(discuss):
        used += 1
        yield measured_steps.pop()

    for follower in others:
        async for _ in learn(follower, team, samples):
            pass


def measured_step(
    used: int, team: OpinionTeam, step: TrainingStep, scores: torch.Tensor, utilities: torch.Tensor
) -> PlantedStep:
    """Counts the turns and messages of a step's discussions."""
    wirings = step.wirings
    turns = step.samples * team.agents * team.model.rounds
    if wirings.speaks is not None:
        turns = int(wirings.speaks.sum())
    messages = int(wirings.spatial.sum() + wirings.temporal.sum() + wirings.decision.sum())
    different, readings = different_turns(wirings)
    return PlantedStep(
        used=used,
        discussions=step.samples,
        tokens=(messages + turns) / step.samples,
        # The decision agent has a turn in each discussion.
        turns=turns + step.samples,
        different=different,
        computed=different + readings,
        scores=mean_scores(scores, utilities, wirings.speaks),
    )
