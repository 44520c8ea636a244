"""Checks of a method's learner: it is trained as in a run, with improvised replies."""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from actors.runtime.inline import Local
from experiments.conformance.requirements import require
from experiments.conformance.sample_world import SampleWorld
from experiments.planning.plan import Plan
from experiments.records.checkpoint import Checkpoint
from experiments.running.learned_graphs import learned_topologies, learner_makers
from experiments.running.recorded_learner import score_step
from experiments.running.training_questions import TrainingQuestions
from experiments.scripted.replies import improvising
from topologies.learning.course import Course, StepScores, TrainingStep
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.learner import Learner
from topologies.topology import run_discussion
from topologies.wiring import Floats


async def check_learning(plan: Plan, world: SampleWorld) -> dict[str, LearnedTopology]:
    """Trains the learners of a plan, with and without interruptions. Returns their graphs, by method.

    Raises NotConforming where a learner that goes on from its saved state learns something else.
    """
    evidence = world.evidence(plan.retrieval)
    learners = {}
    for method, make in learner_makers(plan, evidence.store.encoder).items():
        training = ImprovisedTraining(method, plan, world)
        learner = make()
        steps = 0
        async for _ in training.steps(learner):
            steps += 1
            require(bool(learner.edges_left()), "its learner counts no edges, whose numbers are recorded")
        resumed = await training.resumed(make, steps)
        ends_alike = _equal(learner.state(), resumed.state())
        require(ends_alike, "a learner that goes on from its saved state ends in another state")

        # Reports on a learner that a run records at its end.
        learner.doubts()
        learner.surrogate()
        learner.edge_scores()
        learners[method] = Local(learner)

    graphs = learned_topologies(plan, learners, evidence.features)
    for graph in graphs.values():
        await graph.freeze()
    return graphs


class ImprovisedTraining:
    """Training of one learner of a plan, in a world."""

    def __init__(self, method: str, plan: Plan, world: SampleWorld) -> None:
        self._method = method
        self._plan = plan
        self._world = world
        self._evidence = world.evidence(plan.retrieval)

    async def steps(self, learner: Learner) -> AsyncIterator[TrainingStep]:
        """Trains a learner from where it is. Yields each step once it is learned from."""
        questions = TrainingQuestions(self._plan, self._world.dataset, self._evidence)
        team = improvising(self._plan.roles.launched)
        [graph] = learned_topologies(self._plan, {self._method: Local(learner)}, self._evidence.features).values()

        async def features(stage: int, number: int) -> Floats | None:
            return await graph.features(await questions.questions(stage, number))

        async def discuss(step: TrainingStep) -> StepScores:
            [question] = await questions.questions(step.stage, step.number)
            traces = []
            for sample, topology in enumerate(graph.along(step)):
                traces.append(await run_discussion(topology, question, team, self._plan.config.seed, sample))
            return score_step(self._plan, self._world.dataset, questions.items(step.stage, step.number), traces)

        course = Course(Local(learner), samples=self._plan.config.training.samples, features=features)
        async for step in course.train(discuss):
            yield step

    async def resumed(self, make: Callable[[], Learner], steps: int) -> Learner:
        """Trains for so many steps. After each, another learner goes on from the checkpoint of the one before."""
        learner = make()
        with TemporaryDirectory() as folder:
            path = Path(folder, "checkpoint")
            for _ in range(steps):
                step = await anext(self.steps(learner), None)
                if step is None:
                    break
                Checkpoint(step.stage, step.number, learner.state(), sizes={}).write(path)
                learner = make()
                learner.load(Checkpoint.read(path).state)
        return learner


def _equal(state: Mapping[str, np.ndarray], resumed: Mapping[str, np.ndarray]) -> bool:
    if state.keys() != resumed.keys():
        return False
    return all(np.array_equal(array, resumed[name], equal_nan=True) for name, array in state.items())
