"""Optimises communication graphs (Algorithm 1): sample wirings, discuss, score, learn, prune."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from actors.errors import UserError
from actors.messages import Question, Trace
from experiments.datasets.item import Item
from experiments.records.progress import Bar
from experiments.records.timings import TimingLog
from experiments.running.inputs import training_items
from experiments.running.recorded_learner import RecordedLearner, score_step
from experiments.running.run_context import CountedTeam, RunContext
from topologies.learning.spec import StepReport
from topologies.topology import Team
from topologies.wiring import Wirings

log = logging.getLogger(__name__)


Step = tuple[Wirings, list[asyncio.Task[Trace]]]  # one under way: K discussions of each question along the wirings


@dataclass
class Training:
    """Trains one learner, and others that learn from its discussions. Stages have `pruning.steps` steps, each on
    questions of its own, from the checkpoint on.

    own: the learner whose wirings the discussions follow. others: those that learn from the same discussions.
    """

    context: RunContext
    own: RecordedLearner
    others: Sequence[RecordedLearner] = ()

    async def run(self) -> None:
        """Learns until the last stage is over.

        Raises UserError for too few questions and for records of other learners that do not fit, and TooManyFailures.
        """
        method, steps, timings = self.own.method, self.context.config.pruning.steps, TimingLog(self.own.recorder.run)
        team = self.context.team.metered(timings.turn)  # its `usage` counts this training alone
        for learner in self._all:
            await learner.resume()
        for other in self.others:
            await self._check_other(other)
        self._check_failures()
        stage, step, finished, _ = await self.own.position()
        while not finished:
            items = training_items(self.context.plan, self.context.dataset, stage)
            bar = self.context.progress.phase(f"learning {method}, stage {stage}", total=steps, done=step)
            for learner in self._all:
                await learner.begin(stage)
            with self.context.usage.phase(f"learning {method}, stage {stage}", lambda: team.usage):
                await self._learn(stage, step, items, CountedTeam(team, bar, self.context.breaker), bar, timings)
            self._check_failures()
            for learner in self._all:
                await learner.end(stage)
            stage, step, finished, _ = await self.own.position()

    @property
    def _all(self) -> tuple[RecordedLearner, ...]:
        # `own` comes last: it goes on where its record ends, so the others, which skip recorded steps, must never be
        # behind it.
        return (*self.others, self.own)

    async def _check_other(self, other: RecordedLearner) -> None:
        """Raises UserError where another learner lacks recorded steps, or has learned from its own discussions."""
        stage, step = self.own.reached
        *_, finished, _ = await other.position()
        # Of a stage that ends with the confirmation of its graph, it has no more steps from others' discussions.
        needed = stage, min(step, self.context.plan.learners[other.method].exploring(stage).steps)
        first = next(iter(other.recorder.run.learning()), None)
        by_itself = first is not None and first.source != other.source
        if other.reached < needed or (by_itself and not finished):
            mine, theirs = (learner.recorder.run.topology for learner in (other, self.own))
            raise UserError(
                f"{other.method} cannot go on learning from the discussions of {other.source}: its records are not "
                f"of the same steps; delete {mine} and {theirs} and resume, to learn both from the start"
            )

    def _check_failures(self) -> None:
        """Raises TooManyFailures where too many turns of a recorded stage failed, for whatever reason."""
        graph = self.own.recorder.run
        again = f"; delete {graph.topology} and resume to learn again from the start"
        for phase in (path.stem for path in graph.training_traces()):
            if graph.failed(phase):
                what = f"learning {self.own.method}, stage {phase.removeprefix('train-')}"
                self.context.breaker.check(what, graph.traces(phase), again)

    async def _learn(
        self, stage: int, first: int, items: Sequence[Sequence[Item]], team: Team, bar: Bar, timings: TimingLog
    ) -> None:
        """Discusses the steps of a stage from `first` on, and learns from them in order until the stage may stop.

        Later steps use the concurrency that is left, where the learner can sample ahead; meanwhile the step before is
        recorded and the evidence of the next one retrieved.
        """
        config = self.context.config
        # The number of steps that together use up the concurrency.
        fill = math.ceil(config.concurrency / (config.training.samples * len(items[0])))
        under_way: deque[Step] = deque()
        async with asyncio.TaskGroup() as group:
            upcoming: asyncio.Task[list[Question]] | None = None
            learned: tuple[int, list[StepReport | None], int] | None = None
            recorded: asyncio.Task[None] | None = None
            for number in range(first, len(items)):
                # No discussions are under way at an interim analysis, so that none is in vain.
                if all([await learner.may_stop(stage) for learner in self._all]):
                    await self.own.end(stage)
                    confirms, k = (await self.own.position())[-1], config.training.samples
                    fewer = k - await self.own.learner.wanted(k) if confirms else k
                    saved = f"{(len(items) - number) * len(items[0]) * fewer:,} discussions fewer"
                    line = f"{self.own.method}, stage {stage}: ends after {number} of {len(items)} steps, {saved}"
                    log.info(line)
                    self.context.progress.print(line)
                    if not confirms:
                        break
                # Limited by concurrency, by the lookahead of the estimator, and by the end of the stage.
                last = min(number + fill, number + await self.own.learner.lookahead(), len(items) - 1)
                for later in range(number + len(under_way), last + 1):
                    questions = await (upcoming or self._questions(items[later]))
                    upcoming = group.create_task(self._questions(items[later + 1])) if later + 1 < len(items) else None
                    step = await self._begin(stage, later, later - number, items[later], questions, team, group)
                    under_way.append(step)
                # Not before discussions are under way, which would wait for it.
                if learned:
                    recorded = group.create_task(self._record(stage, *learned))
                # The oldest first: the learner takes steps in their order, whichever ends first.
                wirings, discussions = under_way.popleft()
                traces = await asyncio.gather(*discussions)
                # The checkpoint of the step before vouches for what was recorded until then, and for nothing else.
                if recorded:
                    await recorded
                # Neither recorded nor learned from: a resumed run holds these discussions again.
                what = f"learning {self.own.method}, stage {stage}, step {number + 1}"
                self.context.breaker.check(what, traces, questions=False)
                # In the order of the wirings, not of the discussions' ends: the record must not depend on concurrency.
                for trace in traces:
                    self.own.recorder.trained(stage, trace)
                    timings.ended(f"train-{stage}", trace)
                scores = score_step(self.context.plan, self.context.dataset, items[number], traces)
                reports = [await learner.learn(stage, number + 1, wirings, scores) for learner in self._all]
                learned = number + 1, reports, scores.tokens
                bar.advance()
                if reports[-1] and reports[-1].confirmed:
                    log.info(line := f"{self.own.method}: {reports[-1].confirmed}")
                    self.context.progress.print(line, folded=True)
                    break
            if learned:
                await self._record(stage, *learned)

    async def _record(self, stage: int, step: int, reports: Sequence[StepReport | None], tokens: int) -> None:
        for learner, report in zip(self._all, reports, strict=True):
            await learner.learned(stage, step, report, tokens)

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
    ) -> Step:
        """Samples the wirings of a step and starts its discussions, as many for each question."""
        config = self.context.config
        k = await self.own.learner.wanted(config.training.samples)
        # Questions of all earlier steps: an attack gets the place of a question in the whole of training.
        before = ((stage - 1) * config.pruning.steps + number) * len(items)
        known = [await each.topology.features(questions) for each in self._all]
        features = next((of_all for of_all in known if of_all is not None), None)
        wirings, topologies = await self.own.topology.sample(k * len(items), ahead, len(items), features)

        async def discuss(index: int) -> Trace:
            # The topologies of one question are consecutive, k for each.
            at, sample = divmod(index, k)
            async with self.context.slots.slot(learning=True):
                of = topologies[index], items[at], questions[at], team, config.seed
                return await self.context.attack.run_discussion(*of, phase="train", number=before + at, sample=sample)

        return wirings, [group.create_task(discuss(index)) for index in range(len(topologies))]
