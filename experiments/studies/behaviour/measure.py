"""Asks every question under every condition, and records the answers as those of methods."""

from __future__ import annotations

import asyncio

from actors.errors import UserError
from actors.messages import Question, Trace
from actors.runtime.in_order import in_order
from experiments.attacks.metrics import Harm
from experiments.attacks.targets import Targets, aimed_at
from experiments.config.config import Config
from experiments.datasets.item import Item
from experiments.running.counted import CountedTeam
from experiments.running.job import Job
from experiments.studies.behaviour.conditions import Condition, Material, Told, asked, conditions, material
from topologies.discussion import Team, run_discussion


def check(config: Config) -> None:
    """Raises UserError for what this job does without."""
    for group, kind in (("attack", config.attack.kind), ("judge", config.judge.kind)):
        if kind != "none":
            raise UserError(f"{group}={kind}: job=behaviour has none; leave it out")


class Behaviour:
    """The job, on the one agent that others have launched."""

    def __init__(self, job: Job) -> None:
        """Raises UserError for a data set that does not say where its answers stand."""
        self._job = job
        self._context = context = job.context
        self._conditions = conditions(context.config.behaviour)
        self._targets = Targets(context.dataset, context.config.seed)
        evaluated = list(context.dataset.evaluate())
        # The same questions under every condition: those that have all that any condition needs.
        self._items = [item for item in evaluated if item.supporting and self._targets.of(item) is not None]
        if not self._items:
            raise UserError(
                f"data={context.config.data.kind}: none of {len(evaluated)} questions names the documents that hold "
                "its answer and has a wrong answer to be told; choose sample, mmqa or tatqa, or raise data.limit"
            )

    async def run(self) -> None:
        """Asks what has not been asked yet, one condition after another."""
        for condition in self._conditions:
            with self._job.usage.phase(condition.name):
                await self._ask(condition)

    async def _ask(self, condition: Condition) -> None:
        context, config = self._context, self._context.config
        done = context.recorder.done(condition.name)
        bar = context.progress.phase(f"asking, {condition.name}", total=len(self._items), done=len(done))
        team: Team = CountedTeam(self._job.agents.team, bar)

        async def answer(item: Item) -> Trace:
            question = await asyncio.to_thread(self._question, condition, item)
            topology = Told(condition.name, condition.colleagues, self._target(item))
            return await run_discussion(topology, question, team, config.seed)

        missing = (item for item in self._items if item.question.id not in done)
        async for item, trace in in_order(missing, answer, config.concurrency):
            dataset = context.dataset
            context.recorder.evaluated(trace, item, dataset.score(item, trace.answer), self._taken_over(trace, item))
            bar.advance()

    def _question(self, condition: Condition, item: Item) -> Question:
        found = self._material(item)
        return asked(item, found.shown(condition, self._context.config.seed))

    def _material(self, item: Item) -> Material:
        return material(item, self._context.evidence.store, max(self._context.config.behaviour.irrelevant, default=0))

    def _target(self, item: Item) -> str:
        target = self._targets.of(item)
        assert target is not None  # the others were left out
        return target

    def _taken_over(self, trace: Trace, item: Item) -> Harm:
        """Whether the answer is the wrong one that colleagues give, also where there are none: some give it anyway."""
        score = self._context.dataset.score
        right = score(item, trace.answer).utility > 0
        return Harm(float(not right and score(aimed_at(item, self._target(item)), trace.answer).utility > 0))
