"""Learning in a planted world, step by step."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from experiments.studies.planted.measures import different_turns, of_columns
from experiments.studies.planted.opinions import OpinionTeam
from topologies.learning.learner import Learner
from topologies.wiring import Floats


class TrainingStep(NamedTuple):
    """One training step.

    used: questions until now. tokens: mean of a discussion. turns, different: numbers of turns and of different ones.
    computed: cost of the different ones. scores: of the step (`of_columns`).
    """

    used: int
    tokens: float
    turns: int
    different: int
    computed: int
    scores: Floats


def learn(learner: Learner, team: OpinionTeam, samples: int, others: Sequence[Learner] = ()) -> Iterator[TrainingStep]:
    """Learns all stages, one question a step, until all stop early. `others` learn from the same discussions, and then
    confirm their graphs with separate ones."""
    used = 0
    everyone = (learner, *others)
    while not learner.finished:
        stage, steps = learner.stage, learner.pruning.steps
        questions = team.questions(steps, "learning", stage)
        for step in range(learner.step, steps):
            k = learner.wanted(samples)
            wirings = learner.sample(k, features=questions.features[[step]].numpy())
            index = torch.full((k,), step)
            scores, utilities = team.discuss(questions, index, wirings, learner.chances())
            used += 1
            # Before the yield, so that the state after the last question is that of a finished stage.
            for each in everyone:
                if each is learner or not each.confirming:
                    each.learn(wirings, scores.numpy(), utilities.numpy())
            over = step + 1 == steps or all(each.confirming or each.may_stop() for each in everyone)
            for each in everyone if over else ():
                if not (each.confirming or each.finished):
                    each.next_stage()
            edges = sum(int(taken.sum()) for taken in (wirings.spatial, wirings.temporal, wirings.decision))
            turns = k * team.agents * team.model.rounds if wirings.speaks is None else int(wirings.speaks.sum())
            different, read = different_turns(wirings)
            graded = of_columns(scores, utilities, wirings.speaks)
            yield TrainingStep(used, (edges + turns) / k, turns + k, different, different + read, graded)
            if learner.finished or learner.stage > stage:
                break
    for other in others:
        deque(learn(other, team, samples), maxlen=0)
