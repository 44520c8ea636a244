"""Optimises communication graphs (Algorithm 1): discusses a learner's steps and records what it has learned."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from actors.errors import UserError
from actors.messages import Trace
from experiments.records.progress import Bar
from experiments.running.discussing import DiscussionLog, discuss
from experiments.running.recorded_learner import RecordedLearner, score_step
from experiments.running.run_context import RunContext
from experiments.running.training_questions import TrainingQuestions
from topologies.learning.course import Course, StageProgress, TrainingStep
from topologies.topology import Speaker
from topologies.wiring import Floats

log = logging.getLogger(__name__)


@dataclass
class Training:
    """Trains one learner, and students that learn from its discussions. Stages have `pruning.steps` steps, each on
    other questions, from the checkpoint on.

    learner: its wirings are discussed. students: learners that learn from the same discussions.
    """

    context: RunContext
    learner: RecordedLearner
    students: Sequence[RecordedLearner] = ()

    def __post_init__(self) -> None:
        self._questions = TrainingQuestions(self.context.plan, self.context.dataset, self.context.evidence)

    async def run(self) -> None:
        """Learns until the last stage is over.

        Raises UserError for too few questions and for records of other learners that do not fit, and TooManyFailures.
        """
        config = self.context.config
        turns = DiscussionLog(self.learner.recorder.run)
        speaker = self.context.metered(turns.turn)  # its `usage` counts this training alone
        for learner in self._everyone:
            await learner.resume()
        for student in self.students:
            await self._check_student(student)
        self._check_failures()

        questions = config.training.questions_per_step
        samples = self._samples
        course = Course(
            learner=self.learner.learner,
            students=[student.learner for student in self.students],
            samples=samples,
            questions=questions,
            # Steps that use up the concurrency, beyond the oldest one.
            at_once=1 + math.ceil(config.concurrency / (samples * questions)),
            features=self._features,
        )
        async for stage in course.stages():
            status = await self.learner.learner.status()
            phase = f"learning {self.learner.method}, stage {stage}"
            bar = self.context.progress.phase(phase, total=status.steps, completed=status.step)
            for learner in self._everyone:
                await learner.record_start(stage)
            with self.context.usage.phase(phase, lambda: speaker.usage):
                await self._learn(course, stage, self.context.counted(speaker, bar), bar, turns)
            self._check_failures()

    @property
    def _samples(self) -> int:
        """Discussions of a question in a step."""
        learner = self.context.plan.learners[self.learner.method]
        return learner.samples(self.context.config.training.samples)

    @property
    def _everyone(self) -> tuple[RecordedLearner, ...]:
        # In the order of `Course.everyone`.
        return (*self.students, self.learner)

    async def _check_student(self, student: RecordedLearner) -> None:
        """Raises UserError where a student lacks recorded steps, or has learned from its own discussions."""
        stage, step = self.learner.reached
        # Of a stage that ends with the confirmation of its graph, it has no more steps from others' discussions.
        steps_from_source = self.context.plan.learners[student.method].exploring(stage).steps
        first_record = next(iter(student.recorder.run.learning()), None)
        by_itself = first_record is not None and first_record.source != student.source
        finished = (await student.learner.status()).finished
        if student.reached < (stage, min(step, steps_from_source)) or (by_itself and not finished):
            raise UserError(
                f"{student.method} cannot go on learning from the discussions of {student.source}: its records are not "
                f"of the same steps; delete {self.learner.recorder.run.topology} and {student.recorder.run.topology} "
                "and resume, to learn both from the start"
            )

    def _check_failures(self) -> None:
        """Raises TooManyFailures where too many turns of a recorded stage failed, for whatever reason."""
        folder = self.learner.recorder.run
        again = f"; delete {folder.topology} and resume to learn again from the start"
        for path in folder.training_traces():
            phase = path.stem
            if folder.failed(phase):
                subject = f"learning {self.learner.method}, stage {phase.removeprefix('train-')}"
                self.context.breaker.check(subject, folder.traces(phase), again)

    async def _learn(self, course: Course, stage: int, speaker: Speaker, bar: Bar, turns: DiscussionLog) -> None:
        """Discusses the steps of a stage, and has the learners learn from them in order.

        Later steps use the concurrency that is left, where the learner can sample ahead. While they go on, the
        step before is recorded and the evidence of the next one retrieved.
        """
        method = self.learner.method
        under_way: deque[tuple[TrainingStep, list[asyncio.Task[Trace]]]] = deque()
        recording: asyncio.Task[None] | None = None
        step, tokens = None, 0

        async with asyncio.TaskGroup() as group:
            steps = course.steps()
            progress = await anext(steps)
            while True:
                if progress.stopped_after:
                    self._report_early_stop(stage, progress)
                for begun in progress.steps:
                    under_way.append((begun, await self._begin(begun, speaker, group)))
                # Not before discussions are under way, which would wait for it.
                if step:
                    recording = group.create_task(self._record(step, progress, tokens))
                if not under_way:
                    return

                # The oldest first: the learner takes steps in their order, whichever ends first.
                step, discussions = under_way.popleft()
                traces = await asyncio.gather(*discussions)
                # The checkpoint of the step before vouches for what was recorded until then, and for nothing else.
                if recording:
                    await recording
                # Neither recorded nor learned from: a resumed run holds these discussions again.
                subject = f"learning {method}, stage {step.stage}, step {step.number}"
                self.context.breaker.check(subject, traces, questions=False)
                # In the order of the wirings, not of the discussions' ends: the record must not depend on concurrency.
                for trace in traces:
                    self.learner.recorder.trained(step.stage, trace)
                    turns.ended(f"train-{step.stage}", trace)

                items = self._questions.items(step.stage, step.number)
                scores = score_step(self.context.plan, self.context.dataset, items, traces)
                tokens = sum(turn.tokens for trace in traces for turn in trace.turns)
                progress = await steps.asend(scores)
                bar.advance()
                report = progress.reports[-1]
                if report and report.confirmed:
                    log.info("%s: %s", method, report.confirmed)

    def _report_early_stop(self, stage: int, progress: StageProgress) -> None:
        """Prints how many discussions are saved."""
        method = self.learner.method
        steps = self.context.plan.learners[method].exploring(stage).steps
        questions = self.context.config.training.questions_per_step
        saved = (steps - progress.stopped_after) * questions * self._samples
        ended = f"{method}, stage {stage}: ends after {progress.stopped_after} of {steps} steps"
        line = f"{ended}, {saved:,} discussions fewer"
        log.info(line)
        self.context.progress.print(line)

    async def _record(self, step: TrainingStep, progress: StageProgress, tokens: int) -> None:
        """Records what each learner has learned from a step, before the next one is learned from."""
        for learner, report in zip(self._everyone, progress.reports, strict=True):
            if report:
                # Tokens count once, with the learner whose discussions they are.
                await learner.record(step.stage, step.number, report, 0 if learner.source else tokens)

    async def _features(self, stage: int, number: int) -> Floats | None:
        """Features of a step's questions, for the first learner whose graph depends on them."""
        for learner in self._everyone:
            if learner.topology.by_question:
                return await learner.topology.features(await self._questions.questions(stage, number))
        return None

    async def _begin(self, step: TrainingStep, speaker: Speaker, group: asyncio.TaskGroup) -> list[asyncio.Task[Trace]]:
        """Starts the discussions of a step, as many for each question."""
        items = self._questions.items(step.stage, step.number)
        questions = await self._questions.questions(step.stage, step.number)
        topologies = self.learner.topology.along(step)
        # Questions of all earlier steps: an attack gets the place of a question in the whole of training.
        steps_before = (step.stage - 1) * self.context.config.pruning.steps + step.number - 1

        async def hold(index: int) -> Trace:
            # The topologies of one question are consecutive.
            place, sample = divmod(index, step.samples)
            async with self.context.slots.slot(learning=True):
                return await discuss(
                    self.context,
                    topologies[index],
                    items[place],
                    speaker,
                    phase="train",
                    number=steps_before * len(items) + place,
                    sample=sample,
                    question=questions[place],
                )

        return [group.create_task(hold(index)) for index in range(len(topologies))]
