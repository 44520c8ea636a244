"""Asks every question under every condition, and records the answers as those of methods."""

from __future__ import annotations

import asyncio

from actors.errors import UserError
from actors.messages import Question, Trace
from actors.runtime.in_order import in_order
from experiments.attacks.metrics import Harm, won
from experiments.attacks.targets import aimed_at
from experiments.config.config import Config
from experiments.datasets.item import Item
from experiments.running.counted import CountedTeam
from experiments.running.job import Job
from experiments.studies.behaviour.conditions import (
    Condition,
    Material,
    Told,
    answerable,
    asked,
    conditions,
    material,
)
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
        self._asked = answerable(context.dataset, context.config.seed)
        # Searched once and kept: every condition shows some of the same sources.
        self._found: dict[str, Material] = {}
        if not self._asked:
            evaluated = sum(1 for _ in context.dataset.evaluate())
            raise UserError(
                f"data={context.config.data.kind}: none of {evaluated} questions names the documents that hold "
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
        bar = context.progress.phase(f"asking, {condition.name}", total=len(self._asked), done=len(done))
        team: Team = CountedTeam(self._job.agents.team, bar)

        async def answer(one: tuple[Item, str]) -> Trace:
            item, target = one
            question = await asyncio.to_thread(self._question, condition, item)
            topology = Told(condition.name, condition.colleagues, target)
            return await run_discussion(topology, question, team, config.seed)

        dataset = context.dataset
        missing = ((item, target) for item, target in self._asked if item.question.id not in done)
        async for (item, target), trace in in_order(missing, answer, config.concurrency):
            # Whether it is the wrong answer also where nobody gave it: some come to it by themselves.
            harm = Harm(float(won(trace.answer, item, [aimed_at(item, target)], dataset)))
            context.recorder.evaluated(trace, item, dataset.score(item, trace.answer), harm)
            bar.advance()

    def _question(self, condition: Condition, item: Item) -> Question:
        config, id = self._context.config, item.question.id
        if id not in self._found:
            most = max(config.behaviour.irrelevant, default=0)
            self._found[id] = material(item, self._context.evidence.store, most)
        return asked(item, self._found[id].shown(condition, config.seed))
