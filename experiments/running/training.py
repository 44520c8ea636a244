"""Optimises communication graphs (Algorithm 1): sample wirings, discuss, score, learn, prune."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from actors.errors import UserError
from actors.messages import Question, Trace
from experiments.attacks.attack import Attack
from experiments.datasets.item import Item
from experiments.records.progress import Bar
from experiments.records.recorder import LearningRecorder
from experiments.records.records import LearningStep, matrix
from experiments.records.usage import UsageLog
from experiments.running.discussion_slots import CountedTeam, Slots
from experiments.running.inputs import RunContext, training_items
from experiments.running.step_scores import StepScores, score_step
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.spec import StepReport
from topologies.topology import Team
from topologies.wiring import Wirings

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class _Step:
    """One step under way: its questions, and K discussions of each along the wirings."""

    items: Sequence[Item]
    wirings: Wirings
    discussions: list[asyncio.Task[Trace]]


@dataclass(frozen=True)
class RecordedLearner:
    """A learner with its records.

    learner: the topology actor (methods of `topologies.learning.learner.Learner` as coroutines); it gets scores, no
        labels.
    recorder: writes into the folder of the learned graph.
    source: the method whose discussions it learns from; empty where they are its own.
    """

    context: RunContext
    topology: LearnedTopology
    learner: Any
    recorder: LearningRecorder
    source: str = ""

    @property
    def method(self) -> str:
        """The method that it learns for."""
        return self.topology.method

    @property
    def reached(self) -> tuple[int, int]:
        """Stage and step of its last record, after which a killed run goes on."""
        done = self.recorder.checkpoint
        return (done.stage, done.step) if done else (0, 0)

    async def resume(self) -> None:
        """Loads the recorded state. Raises UserError for a state that this learner cannot load."""
        if self.recorder.checkpoint:
            try:
                await self.learner.load(self.recorder.checkpoint.state)
            except ValueError as error:
                reason = str(error).splitlines()[-1]
                raise UserError(
                    f"{self.recorder.run.topology}: {reason}; delete this file and resume to learn again from the start"
                ) from error

    async def position(self) -> tuple[int, int, bool]:
        """Its stage, the number of steps done in it, and whether learning is over."""
        state = await self.learner.state()
        return int(state["stage"]), int(state["step"]), bool(state["finished"])

    async def begin(self, stage: int) -> None:
        """Records the state before the first step of a stage, unless a killed run has done so."""
        if self.reached < (stage, 0):
            await self._record(stage, 0, {}, await self.learner.edges_left())

    async def learn(self, stage: int, step: int, wirings: Wirings, scores: StepScores) -> StepReport | None:
        """Learns from one step's discussions; returns None where a killed run has recorded the step already."""
        if self.reached >= (stage, step):
            return None
        report: StepReport = await self.learner.learn(wirings, scores.turns, scores.utilities, scores.groups)
        return report

    async def learned(self, stage: int, step: int, report: StepReport | None, tokens: int) -> None:
        """Records the report of `learn`, before the next step is learned from; `tokens` are of its discussions."""
        if report is None:
            return
        terms = {name: value for name, value in asdict(report).items() if isinstance(value, float)}
        # Tokens count once, with the learner whose discussions they are.
        await self._record(stage, step, terms | {"tokens": 0.0 if self.source else float(tokens)}, report.edges)

    async def may_stop(self, stage: int) -> bool:
        """True if the stage may end here, before its last step (`learner.early_stop`)."""
        if self.context.config.learner.early_stop is None:
            return False  # not asked in vain: a learner is another process
        # A run that was killed as the next stage began goes on from there.
        return self.reached[0] > stage or bool(await self.learner.may_stop())

    async def end(self, stage: int) -> None:
        """Leaves a stage; a learner that is past it stays where it is."""
        if (await self.position())[0] == stage:
            await self.learner.next_stage()

    async def _record(self, stage: int, step: int, terms: Mapping[str, float], edges: Mapping[str, int]) -> None:
        context = self.context
        matrices = (await self.learner.probabilities())._asdict()
        spec = context.plan.learners[self.method]
        if spec.variant.per_round:
            for number in range(1, spec.rounds + 1):
                for kind, p in (await self.learner.probabilities(number))._asdict().items():
                    if kind == "spatial" or number > 1:  # no round comes before the first
                        matrices[f"{kind}, round {number}"] = p
        record = LearningStep(
            stage=stage,
            step=step,
            agents=self.topology.agents,
            modalities=tuple(str(role.modality) for role in context.plan.roles.team),
            terms=terms,
            edges=edges,
            probabilities={kind: matrix(p, p > 0) for kind, p in matrices.items()},
            source=self.source,
        )
        # The checkpoint comes after the discussions that the step has learned from. In a thread, for it waits for the
        # disk while other discussions go on.
        await _in_thread(partial(self.recorder.learned, record, await self.learner.state()))
        # The start of a stage is a record, too.
        total = (stage - 1) * (context.config.pruning.steps + 1) + step
        values = {"stage": stage, "step": step, "total_steps": total, **terms, **edges}
        context.tracker.log({f"{self.method}/{name}": value for name, value in values.items()})


@dataclass
class Training:
    """Trains one learner, and others that learn from its discussions: stages of `pruning.steps` steps, each on
    questions of its own, from the checkpoint on.

    team: its `usage` counts this training alone. own: the learner whose wirings the discussions follow. ended: gets the
    phase and the trace of each recorded discussion. others: those that learn from the same discussions.
    """

    context: RunContext
    team: Team
    attack: Attack
    slots: Slots
    own: RecordedLearner
    ended: Callable[[str, Trace], None]
    others: Sequence[RecordedLearner] = ()

    async def run(self, usage: UsageLog) -> None:
        """Learns until the last stage is over.

        Raises UserError for too few training questions, or records of `others` that are not of these discussions, and
        TooManyFailures for too many failed turns of a step or a stage.
        """
        method, steps = self.own.method, self.context.config.pruning.steps
        for learner in self._all:
            await learner.resume()
        for other in self.others:
            await self._check(other)
        self._check_failures()
        stage, step, finished = await self.own.position()
        if self.others and not finished:
            names = ", ".join(other.method for other in self.others)
            log.info("%s learns from the discussions of %s alone (training.share=true)", names, method)
        while not finished:
            items = training_items(self.context.config, self.context.dataset, stage)
            bar = self.context.progress.phase(f"learning {method}, stage {stage}", total=steps, done=step)
            for learner in self._all:
                await learner.begin(stage)
            with usage.phase(f"learning {method}, stage {stage}", lambda: self.team.usage):
                await self._learn(stage, step, items, bar)
            self._check_failures()
            for learner in self._all:
                await learner.end(stage)
            stage, step, finished = await self.own.position()

    @property
    def _all(self) -> tuple[RecordedLearner, ...]:
        # `own` comes last: it goes on where its record ends, so the others, which skip recorded steps, must never be
        # behind it.
        return (*self.others, self.own)

    def _tell(self, line: str) -> None:
        log.info(line)
        self.context.progress.print(line)

    async def _check(self, other: RecordedLearner) -> None:
        """Raises UserError where another learner lacks steps that will not be discussed again, or has learned from
        discussions of its own."""
        _, _, finished = await other.position()
        first = next(iter(other.recorder.run.learning()), None)
        by_itself = first is not None and first.source != other.source
        if other.reached < self.own.reached or (by_itself and not finished):
            mine, theirs = (learner.recorder.run.topology for learner in (other, self.own))
            raise UserError(
                f"{other.method} cannot go on learning from the discussions of {other.source}: its records are not of "
                f"the same steps; delete {mine} and {theirs} and resume, to learn both from the start"
            )

    def _check_failures(self) -> None:
        """Raises TooManyFailures where too many turns of a recorded stage failed, for whatever reason."""
        graph = self.own.recorder.run
        again = f"; delete {graph.topology} and resume to learn again from the start"
        for phase in (path.stem for path in graph.training_traces()):
            if graph.failed(phase):
                what = f"learning {self.own.method}, stage {phase.removeprefix('train-')}"
                self.context.breaker.check(what, graph.traces(phase), again)

    async def _learn(self, stage: int, first: int, items: Sequence[Sequence[Item]], bar: Bar) -> None:
        """Discusses the steps of a stage from `first` on and learns from them in order, until the stage may stop.

        Where the learner can sample ahead, discussions of later steps use the concurrency that is left. While
        discussions go on, the step before is recorded and the evidence of the next one retrieved.
        """
        config = self.context.config
        team = CountedTeam(self.team, bar, self.context.breaker)
        # The number of steps that together use up the concurrency.
        fill = math.ceil(config.concurrency / (config.training.samples * len(items[0])))
        under_way: deque[_Step] = deque()
        async with asyncio.TaskGroup() as group:
            upcoming: asyncio.Task[list[Question]] | None = None
            learned: tuple[int, list[StepReport | None], int] | None = None
            recorded: asyncio.Task[None] | None = None
            for number in range(first, len(items)):
                # No discussions are under way at an interim analysis, so that none is in vain.
                if all([await learner.may_stop(stage) for learner in self._all]):
                    self._tell(f"{self.own.method}, stage {stage}: stopped early after {number} of {len(items)} steps")
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
                step = under_way.popleft()
                traces = await asyncio.gather(*step.discussions)
                # The checkpoint of the step before vouches for what was recorded until then, and for nothing else.
                if recorded:
                    await recorded
                # Neither recorded nor learned from: a resumed run holds these discussions again.
                what = f"learning {self.own.method}, stage {stage}, step {number + 1}"
                self.context.breaker.check(what, traces, questions=False)
                scores = self._scored(stage, step, traces)
                reports = [await learner.learn(stage, number + 1, step.wirings, scores) for learner in self._all]
                learned = number + 1, reports, scores.tokens
                bar.advance()
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
    ) -> _Step:
        """Samples the wirings of a step and starts its discussions, K for each question."""
        config = self.context.config
        k = config.training.samples
        # Questions of all earlier steps: an attack gets the place of a question in the whole of training.
        before = ((stage - 1) * config.pruning.steps + number) * len(items)
        wirings, topologies = await self.own.topology.sample(k * len(items), ahead, len(items))

        async def discuss(index: int) -> Trace:
            # The topologies of one question are consecutive, k for each.
            question_index, sample = divmod(index, k)
            async with self.slots.slot(learning=True):
                return await self.attack.run_discussion(
                    topologies[index],
                    items[question_index],
                    questions[question_index],
                    team,
                    config.seed,
                    phase="train",
                    number=before + question_index,
                    sample=sample,
                )

        return _Step(items, wirings, [group.create_task(discuss(index)) for index in range(len(topologies))])

    def _scored(self, stage: int, step: _Step, traces: Sequence[Trace]) -> StepScores:
        """Records the discussions of a step, and scores them."""
        # In the order of the wirings, not of the discussions' ends: the record must not depend on concurrency.
        for trace in traces:
            self.own.recorder.trained(stage, trace)
            self.ended(f"train-{stage}", trace)
        return score_step(self.context.plan, self.context.dataset, step.items, traces)


async def _in_thread(work: Callable[[], T]) -> T:
    """Does the work in a thread. When cancelled, waits for its end first: whoever cancels may close its files."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled():
            working.result()  # an error of the work says more than the cancellation
        raise
