"""The course of a learner: the wirings to discuss next, and what their scores teach (Algorithm 1 of M3Prune).

A run, a replay, a dry run, a planted world and a conformance check train a learner by driving its course.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from topologies.learning.spec import GRAPHS, LearnerStatus, StepReport
from topologies.wiring import Edges, Floats, Wirings


@dataclass(frozen=True)
class TrainingStep:
    """One step of a stage, to be discussed.

    stage, number: its place, both from 1.
    samples: number of wirings for each question; those of one question are consecutive.
    confirming: the wirings are of graphs that are compared, and not of the learner's sampling.
    wirings: what was drawn. chances: of the edges, which give the reading weights (`Learner.chances`).
    """

    stage: int
    number: int
    samples: int
    confirming: bool
    wirings: Wirings
    chances: Edges[Floats]


@dataclass(frozen=True)
class StepScores:
    """Scores of one step's discussions: arguments of `Learner.learn`.

    turns: [k, rounds, agents]. utilities: [k], NaN for a discussion that counts neither way because a turn failed.
    groups: int [k], the question of each discussion; None where there is one.
    """

    turns: np.ndarray
    utilities: np.ndarray
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class StageProgress:
    """State of a stage between two steps.

    status: of the learner, after it has learned from the last scores.
    steps: to be discussed from now on, in their order. The stage is over when there are none and none is under way.
    reports: on the step whose scores came last, by the students and the learner, in that order. None for a learner that
        has not learned from it.
    stopped_after: steps after which the stage has just ended early, or gone on to its confirmation; 0 for none.
    """

    status: LearnerStatus
    steps: tuple[TrainingStep, ...] = ()
    reports: tuple[StepReport | None, ...] = ()
    stopped_after: int = 0


Discuss = Callable[[TrainingStep], Awaitable[StepScores]]
StepFeatures = Callable[[int, int], Awaitable[Floats | None]]
"""Features of the questions of a stage's step, both from 1 [questions, d]; None where graphs depend on none."""


async def no_features(stage: int, number: int) -> None:
    """Gives a step no features."""


@dataclass(frozen=True)
class Course:
    """Trains a learner, and students along with it.

    learner: its wirings are discussed. `Learner` with its methods as coroutines.
    students: learn from the same discussions until they compare graphs, which each does in a separate course.
    samples: wirings for each question (K of the paper). questions: number of questions of a step.
    at_once: most steps under way at the same time.
    """

    learner: Any
    students: Sequence[Any] = ()
    samples: int = 1
    questions: int = 1
    at_once: int = 1
    features: StepFeatures = no_features

    @property
    def everyone(self) -> tuple[Any, ...]:
        """All learners. The one whose wirings are discussed comes last: a killed run goes on where its record ends, so
        the students must never be behind it."""
        return (*self.students, self.learner)

    async def stages(self) -> AsyncIterator[int]:
        """Yields each stage that is to be learned, and leaves it afterwards."""
        status: LearnerStatus = await self.learner.status()
        while not status.finished:
            yield status.stage
            await self.leave(status.stage)
            status = await self.learner.status()

    async def steps(self) -> AsyncGenerator[StageProgress, StepScores]:
        """Learns the learner's stage from where it is. Takes the scores of the oldest step under way at every yield."""
        status: LearnerStatus = await self.learner.status()
        stage = status.stage
        drawn = status.step
        reports: tuple[StepReport | None, ...] = ()
        under_way: deque[TrainingStep] = deque()

        while True:
            # No step is under way at an interim analysis, so that no discussion is in vain.
            stopped_after = 0
            if status.may_stop and await self._students_may_stop(stage):
                stopped_after = status.step
                await self.leave(stage)
                status = await self.learner.status()

            steps = []
            if not status.finished and status.stage == stage:
                # As far as the learner can sample ahead, and not beyond the stage.
                last = min(status.step + 1 + status.lookahead, status.step + self.at_once, status.steps)
                while drawn < last:
                    drawn += 1
                    steps.append(await self._draw(status, drawn))
            under_way.extend(steps)

            scores = yield StageProgress(status, tuple(steps), reports, stopped_after)
            if not under_way:
                return
            step = under_way.popleft()
            reports = tuple([await self._learn(learner, step, scores) for learner in self.everyone])
            status = await self.learner.status()

    async def train(self, discuss: Discuss) -> AsyncIterator[TrainingStep]:
        """Learns all stages, one step after the other. Yields each step once it is learned from."""
        async for stage in self.stages():
            steps = self.steps()
            progress = await anext(steps)
            while progress.steps:
                [step] = progress.steps
                progress = await steps.asend(await discuss(step))
                if not progress.steps:
                    # Before the yield, so that the state after a stage's last step is that of a finished stage.
                    await self.leave(stage)
                yield step

    async def leave(self, stage: int) -> None:
        """Ends a stage for every learner that is still in it, and explores."""
        for learner in self.everyone:
            status: LearnerStatus = await learner.status()
            if status.stage == stage and not (status.confirming or status.finished):
                await learner.next_stage()

    async def _students_may_stop(self, stage: int) -> bool:
        for student in self.students:
            status: LearnerStatus = await student.status()
            if status.stage == stage and not (status.may_stop or status.confirming or status.finished):
                return False
        return True

    async def _draw(self, status: LearnerStatus, number: int) -> TrainingStep:
        samples = min(self.samples, len(GRAPHS)) if status.confirming else self.samples
        wirings = await self.learner.sample(
            samples * self.questions,
            ahead=number - status.step - 1,
            questions=self.questions,
            features=await self.features(status.stage, number),
        )
        chances = await self.learner.chances()
        return TrainingStep(status.stage, number, samples, status.confirming, wirings, chances)

    async def _learn(self, learner: Any, step: TrainingStep, scores: StepScores) -> StepReport | None:
        if learner is not self.learner:
            status: LearnerStatus = await learner.status()
            # After a restart another learner may have recorded this step already.
            has_learned = (status.stage, status.step) >= (step.stage, step.number)
            if has_learned or status.confirming or status.finished:
                return None
        report: StepReport = await learner.learn(step.wirings, scores.turns, scores.utilities, scores.groups)
        return report
