"""Optimising the communication graph (Algorithm 1): sample wirings, hold the discussions, score, learn, prune."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice

import numpy as np

from actors.errors import UserError
from actors.messages import Question, Trace
from experiments.attacks.attack import Attack
from experiments.datasets.item import Item
from experiments.records.progress import Bar
from experiments.records.usage import UsageLog
from experiments.running.context import RunContext
from experiments.running.counted import CountedTeam
from experiments.running.slots import Slots
from experiments.running.student import Scores, Student
from topologies.learning.spec import StepReport
from topologies.topology import Team
from topologies.wiring import Wirings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Step:
    """One step under way: its questions, and K discussions of each along the wirings."""

    items: Sequence[Item]
    wirings: Wirings
    discussions: list[asyncio.Task[Trace]]


@dataclass
class Training:
    """Two stages of `pruning.steps` steps, each on questions of its own, from wherever the checkpoint is.

    team: its `usage` is what is spent here, and nothing else. slots: for discussions at once.
    student: the one along whose wirings the discussions are held. beside: those that learn from the same ones.
    """

    context: RunContext
    team: Team
    attack: Attack
    slots: Slots
    student: Student
    beside: Sequence[Student] = ()

    async def run(self, usage: UsageLog) -> None:
        """Learns until the last stage is over.

        Raises UserError when there are too few training questions, or when what is recorded of `beside` is not of these
        discussions.
        """
        method, steps = self.student.method, self.context.config.pruning.steps
        for student in self._all:
            await student.resume()
        for other in self.beside:
            await self._check(other)
        stage, step, finished = await self.student.position()
        if self.beside and not finished:
            names = ", ".join(other.method for other in self.beside)
            line = f"{names} learns from the discussions of {method} and holds none of its own (training.share=true)"
            log.info(line)
            self.context.progress.print(line)
        while not finished:
            items = self._items(stage)
            bar = self.context.progress.phase(f"learning {method}, stage {stage}", total=steps, done=step)
            for student in self._all:
                await student.begin(stage)
            with usage.phase(f"learning {method}, stage {stage}", lambda: self.team.usage):
                await self._learn(stage, step, items, bar)
            for student in self._all:
                await student.end(stage)
            stage, step, finished = await self.student.position()

    @property
    def _all(self) -> tuple[Student, ...]:
        # The one whose discussions they are comes last: it goes on where its record ends, so that the others, which
        # skip what they have recorded, must never be behind it.
        return (*self.beside, self.student)

    async def _check(self, other: Student) -> None:
        """Raises UserError where a student beside cannot go on: it lacks steps that will not be held again, or has
        learned part of its own discussions."""
        _, _, finished = await other.position()
        first = next(iter(other.recorder.run.learning()), None)
        own = first is not None and first.source != other.source
        if other.reached < self.student.reached or (own and not finished):
            mine, theirs = (student.recorder.run.topology for student in (other, self.student))
            raise UserError(
                f"{other.method} cannot go on learning from the discussions of {other.source}: what is recorded of it "
                f"is not of the same steps; delete {mine} and {theirs} and resume, to learn both from the start"
            )

    def _items(self, stage: int) -> list[list[Item]]:
        """The questions of every step of a stage; no two steps share one, nor do the stages."""
        config, dataset = self.context.config, self.context.dataset
        per_step = config.training.questions_per_step
        needed = config.pruning.steps * per_step
        items = list(islice(dataset.train(), (stage - 1) * needed, stage * needed))
        if len(items) < needed:
            raise UserError(
                f"stage {stage} needs {needed} training questions of its own and {dataset.name} has only "
                f"{len(items)} left for it: lower pruning.steps or training.questions_per_step"
            )
        return [items[start : start + per_step] for start in range(0, needed, per_step)]

    async def _learn(self, stage: int, first: int, items: Sequence[Sequence[Item]], bar: Bar) -> None:
        """Runs the steps of a stage from `first` on, and learns from them in their order, until all has settled.

        Where the learner can sample ahead, discussions of later steps fill up what concurrency leaves free. While
        discussions are held, the step before is recorded and the evidence of the next one retrieved.
        """
        config = self.context.config
        team = CountedTeam(self.team, bar)
        # The number of steps that together use up the concurrency.
        fill = math.ceil(config.concurrency / (config.training.samples * len(items[0])))
        under_way: deque[_Step] = deque()
        async with asyncio.TaskGroup() as group:
            upcoming: asyncio.Task[list[Question]] | None = None
            learned: tuple[int, list[StepReport | None], int] | None = None
            recorded: asyncio.Task[None] | None = None
            for number in range(first, len(items)):
                # No discussions are under way at an interim analysis, so that none is held in vain.
                if all([await student.may_stop(stage) for student in self._all]):
                    line = f"{self.student.method}, stage {stage}: stopped early after {number} of {len(items)} steps"
                    log.info(line)
                    self.context.progress.print(line)
                    break
                # Limited by concurrency, by what the estimator can sample ahead, and by the end of the stage.
                foreseen = min(number + fill, number + await self.student.learner.lookahead(), len(items) - 1)
                for later in range(number + len(under_way), foreseen + 1):
                    asked = await (upcoming or self._questions(items[later]))
                    upcoming = group.create_task(self._questions(items[later + 1])) if later + 1 < len(items) else None
                    step = await self._begin(stage, later, later - number, items[later], asked, team, group)
                    under_way.append(step)
                # Not before discussions are under way, which would wait for it.
                if learned:
                    recorded = group.create_task(self._record(stage, *learned))
                # The oldest first: the learner takes steps in their order, whichever ends first.
                step = under_way.popleft()
                traces = await asyncio.gather(*step.discussions)
                # The checkpoint of the step before vouches for what was recorded until then, and for nothing else.
                if recorded:
                    await recorded
                scores = self._scored(stage, step, traces)
                reports = [await student.learn(stage, number + 1, step.wirings, scores) for student in self._all]
                learned = number + 1, reports, scores.tokens
                bar.advance()
            if learned:
                await self._record(stage, *learned)

    async def _record(self, stage: int, step: int, reports: Sequence[StepReport | None], tokens: int) -> None:
        for student, report in zip(self._all, reports, strict=True):
            await student.learned(stage, step, report, tokens)

    async def _questions(self, items: Sequence[Item]) -> list[Question]:
        return await asyncio.gather(*(self.context.evidence.question(item) for item in items))

    async def _begin(
        self,
        stage: int,
        number: int,
        ahead: int,
        items: Sequence[Item],
        questions: Sequence[Question],
        team: Team,
        group: asyncio.TaskGroup,
    ) -> _Step:
        """Samples the wirings of a step and starts its discussions, K for each question."""
        config = self.context.config
        k = config.training.samples
        # Questions of all earlier steps: an attack gets the place of a question in the whole of training.
        before = ((stage - 1) * config.pruning.steps + number) * len(items)
        wirings, walks = await self.student.topology.sample(k * len(items), ahead, len(items))

        async def discuss_along(walk: int) -> Trace:
            # The walks of one question are consecutive, k for each.
            question_index, sample = divmod(walk, k)
            async with self.slots.slot(learning=True):
                return await self.attack.run_discussion(
                    walks[walk],
                    items[question_index],
                    questions[question_index],
                    team,
                    config.seed,
                    phase="train",
                    number=before + question_index,
                    sample=sample,
                )

        return _Step(items, wirings, [group.create_task(discuss_along(walk)) for walk in range(len(walks))])

    def _scored(self, stage: int, step: _Step, traces: Sequence[Trace]) -> Scores:
        """Records the discussions of a step, and scores them."""
        k, dataset = self.context.config.training.samples, self.context.dataset
        utilities, turn_scores, tokens = [], [], 0

        # Few of the answers to a question are different ones, and between two steps nothing else goes on.
        @cache
        def utility(question: int, answer: str | None) -> float:
            return dataset.score(step.items[question], answer).utility

        # In the order of the walks, not of their ends: the record must not depend on concurrency.
        for number, trace in enumerate(traces):
            of_question = partial(utility, number // k)
            self.student.recorder.trained(stage, trace)
            utilities.append(of_question(trace.answer))
            turn_scores.append(self._turn_scores(of_question, trace))
            tokens += sum(turn.prompt_tokens + turn.completion_tokens for turn in trace.turns)
        return Scores(
            # Learners know no missing score: 0 in every discussion alike tells nothing about any edge.
            turns=np.nan_to_num(np.array(turn_scores)),
            utilities=np.array(utilities),
            # The question of each discussion, so that the learner can compare answers to the same one.
            groups=np.arange(len(utilities)) // k,
            tokens=tokens,
        )

    def _turn_scores(self, utility: Callable[[str | None], float], trace: Trace) -> list[list[float]]:
        """The score of each agent's own answer, [rounds, agents]; none (NaN) of an agent whose form has no answer."""
        silent = {role.name for role in self.context.roles if not role.answers}
        scores = {turn.id: math.nan if turn.agent in silent else utility(turn.answer) for turn in trace.turns}
        rounds = range(1, self.context.config.topology.rounds + 1)
        # In training nobody's turn is left out but that of an agent which takes no part in the round.
        return [[scores.get(f"{number}/{agent}", math.nan) for agent in trace.agents] for number in rounds]
