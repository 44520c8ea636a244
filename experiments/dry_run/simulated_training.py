"""Counts the discussions of training. The learner takes all its steps, with scores drawn by a fair coin."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from actors.messages import Question, derive_seed
from actors.runtime.inline import Local
from experiments.datasets.item import Dataset
from experiments.dry_run.counts import PhaseCounts
from experiments.dry_run.simulated_speaker import SimulatedAgents, SimulatedCache, SimulatedSpeaker
from experiments.evidence.evidence import Evidence
from experiments.planning.plan import Plan
from experiments.running.learned_graphs import learned_topologies, learner_makers
from experiments.running.training_questions import TrainingQuestions
from topologies.learning.course import Course, StepScores, TrainingStep
from topologies.topology import run_discussion
from topologies.wiring import Floats

DISCUSSIONS = 400  # simulated to count the training of one learner

T = TypeVar("T")


class SimulatedTraining:
    """Trains the learners of a plan with simulated agents.

    topologies: the learned ones, by method. cache: of the completions of all phases.
    """

    def __init__(
        self, plan: Plan, dataset: Dataset, evidence: Evidence, agents: SimulatedAgents, cache: SimulatedCache
    ) -> None:
        self._plan = plan
        self._evidence = evidence
        self._agents = agents
        self._cache = cache
        self._questions = TrainingQuestions(plan, dataset, evidence)
        makers = learner_makers(to_the_end(plan), evidence.store.encoder)
        self._learners = {method: Local(make()) for method, make in makers.items()}
        self.topologies = learned_topologies(plan, self._learners, evidence.features)

    async def count(self, method: str, students: Sequence[str] = ()) -> list[PhaseCounts]:
        """Counts the stages that a learner has left. Some of their steps, at equal distances, are also discussed.

        students: methods whose learners learn from the same discussions.
        """
        config = self._plan.config
        topology = self.topologies[method]

        async def features(stage: int, number: int) -> Floats | None:
            if not topology.by_question:
                return None
            question = await self._first_question(stage, number)
            return await topology.features([question])

        samples = self._plan.learners[method].samples(config.training.samples)
        course = Course(
            learner=self._learners[method],
            students=[self._learners[student] for student in students],
            samples=samples,
            features=features,
        )
        # A step has so many discussions in each stage, so fewer steps are discussed as those grow.
        steps_discussed = max(1, DISCUSSIONS // (self._plan.learners[method].stages * samples))

        phases = []
        async for stage in course.stages():
            counts = PhaseCounts()
            speaker = SimulatedSpeaker(self._agents, counts, self._cache)
            discussions = 0
            coin = np.random.default_rng(derive_seed(config.seed, "planned scores", method, stage))
            steps = course.steps()
            progress = await anext(steps)
            ahead = range(progress.status.step + 1, config.pruning.steps + 1)
            discussed_steps = evenly_sampled(ahead, steps_discussed)

            while progress.steps:
                [step] = progress.steps
                discussions += step.samples * config.training.questions_per_step
                if step.number in discussed_steps:
                    question = await self._first_question(stage, step.number)
                    for sample, wired in enumerate(topology.along(step)):
                        await run_discussion(wired, question, speaker, config.seed, sample)
                progress = await steps.asend(self._coin_scores(step, coin))
            phases.append(counts.scaled(f"learning {method}, stage {stage}", discussions))
        return phases

    async def _first_question(self, stage: int, number: int) -> Question:
        """Returns a step's first question, which is counted for all of them."""
        return await self._evidence.question(self._questions.items(stage, number)[0])

    def _coin_scores(self, step: TrainingStep, coin: np.random.Generator) -> StepScores:
        """Draws scores by a fair coin, which prefers no edge but moves logits as a run does.

        After zeros alone the sparsity term would leave hardly an edge to draw. Graphs that are compared score alike, so
        that they are compared to the end.
        """
        utilities = coin.integers(2, size=step.samples).astype(float)
        if step.confirming:
            utilities = np.zeros(step.samples)
        shape = (step.samples, self._plan.config.topology.rounds, len(self._plan.roles.agents))
        return StepScores(turns=coin.integers(2, size=shape).astype(float), utilities=utilities)


def to_the_end(plan: Plan) -> Plan:
    """Lets all learners take every step, whatever early stopping would save."""
    learners = {}
    for method, spec in plan.learners.items():
        learners[method] = replace(spec, settings=replace(spec.settings, early_stop=0.0))
    return replace(plan, learners=learners)


def evenly_sampled(items: Sequence[T], count: int) -> list[T]:
    """Returns at most so many of the items, at equal distances."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]
