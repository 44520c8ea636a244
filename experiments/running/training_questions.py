"""Training questions by stage and step, with their evidence."""

import asyncio
from collections.abc import Sequence

from actors.messages import Question
from experiments.datasets.item import Dataset, Item
from experiments.evidence.evidence import Evidence
from experiments.planning.plan import Plan
from experiments.running.inputs import training_items


class TrainingQuestions:
    """Questions of a learner's steps. Stages and steps count from 1, and no two share a question."""

    def __init__(self, plan: Plan, dataset: Dataset, evidence: Evidence) -> None:
        self._plan = plan
        self._dataset = dataset
        self._evidence = evidence
        self._stages: dict[int, list[list[Item]]] = {}
        self._retrievals: dict[tuple[int, int], asyncio.Task[list[Question]]] = {}

    def steps(self, stage: int) -> Sequence[Sequence[Item]]:
        """Returns the items of each step of a stage. Raises UserError for too few."""
        if stage not in self._stages:
            self._stages[stage] = training_items(self._plan, self._dataset, stage)
        return self._stages[stage]

    def items(self, stage: int, number: int) -> Sequence[Item]:
        """Returns the items of a step."""
        return self.steps(stage)[number - 1]

    async def questions(self, stage: int, number: int) -> list[Question]:
        """Retrieves the evidence of a step's questions, and at the same time that of the next step's."""
        last_step = len(self.steps(stage))
        for upcoming in range(number, min(number + 1, last_step) + 1):
            if (stage, upcoming) not in self._retrievals:
                retrieval = asyncio.create_task(self._retrieve(self.items(stage, upcoming)))
                self._retrievals[stage, upcoming] = retrieval
        questions = await self._retrievals[stage, number]
        # Steps are asked for in their order.
        self._retrievals.pop((stage, number - 1), None)
        return questions

    async def _retrieve(self, items: Sequence[Item]) -> list[Question]:
        return await asyncio.gather(*(self._evidence.question(item) for item in items))
