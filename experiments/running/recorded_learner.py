"""A learner whose steps are recorded, with the checkpoint that a killed run goes on from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self, TypeVar

from actors.errors import UserError
from experiments.records.recorder import LearningRecorder
from experiments.records.records import LearningStep, matrix
from experiments.running.inputs import RunContext
from experiments.running.step_scores import StepScores
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.spec import StepReport
from topologies.wiring import Wirings

T = TypeVar("T")


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

    @classmethod
    def of(cls, context: RunContext, topology: LearnedTopology, learner: Any, source: str) -> Self:
        """A learner with the recorder of its folder, which the caller closes."""
        return cls(context, topology, learner, LearningRecorder(context.recorder.run.learned(topology.method)), source)

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
