"""Scores training steps, and records learners: a killed run goes on from there."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from actors.errors import UserError
from actors.messages import Status, Trace
from experiments.datasets.item import Dataset, Item
from experiments.planning.plan import Plan
from experiments.records.recorder import LearningRecorder
from experiments.records.records import LearningStep, matrix
from experiments.running.run_context import RunContext
from topologies.learning.course import StepScores
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.spec import StepReport
from topologies.wiring import Floats

T = TypeVar("T")


def score_step(plan: Plan, dataset: Dataset, items: Sequence[Item], traces: Sequence[Trace]) -> StepScores:
    """Scores the discussions of a step's questions, as many consecutive ones for each.

    A discussion with a failed turn shows nothing: its utility is NaN.
    """
    samples = len(traces) // len(items)
    rounds = range(1, plan.config.topology.rounds + 1)
    silent = {role.name for role in plan.roles.team if not role.answers}

    # Few of the answers to a question differ, and between two steps nothing else goes on.
    @cache
    def utility(question: int, answer: str | None) -> float:
        return dataset.score(items[question], answer).utility

    utilities = []
    turn_scores = []
    for number, trace in enumerate(traces):
        question = number // samples
        failed = any(turn.status is Status.FAILED for turn in trace.turns)
        utilities.append(math.nan if failed else utility(question, trace.answer))
        scores = {turn.id: utility(question, turn.answer) for turn in trace.turns if turn.agent not in silent}
        # [rounds, agents]. An agent that takes no part in a round has no turn, and a silent one no score. Learners know
        # no missing score: 0 in every discussion alike shows nothing about any edge.
        for round in rounds:
            turn_scores.append([scores.get(f"{round}/{agent}", 0.0) for agent in trace.agents])

    # The question of each discussion, so that the learner can compare answers to the same one.
    groups = np.arange(len(traces)) // samples
    shape = (len(traces), plan.config.topology.rounds, len(plan.roles.agents))
    return StepScores(turns=np.array(turn_scores).reshape(shape), utilities=np.array(utilities), groups=groups)


@dataclass(frozen=True)
class RecordedLearner:
    """Learner with its records.

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
        """Method that it learns for."""
        return self.topology.method

    @property
    def reached(self) -> tuple[int, int]:
        """Stage and step of its last record, after which a killed run goes on."""
        checkpoint = self.recorder.checkpoint
        return (checkpoint.stage, checkpoint.step) if checkpoint else (0, 0)

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

    async def record_start(self, stage: int) -> None:
        """Records the state before the first step of a stage, unless a killed run has done so."""
        if self.reached < (stage, 0):
            await self._record(stage, 0, {}, await self.learner.edges_left())

    async def record(self, stage: int, step: int, report: StepReport, tokens: int) -> None:
        """Records what was learned from a step, before the next one. `tokens` are of its discussions."""
        terms = {name: value for name, value in asdict(report).items() if isinstance(value, float)}
        terms["tokens"] = float(tokens)
        await self._record(stage, step, terms, report.edges, confirmed=report.confirmed, doubts=report.doubts)

    async def _record(
        self, stage: int, step: int, terms: Mapping[str, float], edges: Mapping[str, int], **words: Any
    ) -> None:
        context = self.context
        record = LearningStep(
            stage=stage,
            step=step,
            agents=self.topology.agents,
            modalities=tuple(str(role.modality) for role in context.plan.roles.team),
            terms=terms,
            edges=edges,
            probabilities={kind: matrix(p, p > 0) for kind, p in (await self._probabilities()).items()},
            source=self.source,
            **words,
        )
        # The checkpoint comes after the discussions that the step has learned from. In a thread, for it waits for the
        # disk while other discussions go on.
        await _in_thread(partial(self.recorder.learned, record, await self.learner.state()))
        # The start of a stage is a record, too.
        total_steps = (stage - 1) * (context.config.pruning.steps + 1) + step
        values = {"stage": stage, "step": step, "total_steps": total_steps, **terms, **edges}
        context.tracker.log({f"{self.method}/{name}": value for name, value in values.items()})

    async def _probabilities(self) -> dict[str, Floats]:
        """Reads the edges' probabilities by kind, and where rounds differ also by kind and round."""
        spec = self.context.plan.learners[self.method]
        matrices: dict[str, Floats] = (await self.learner.probabilities())._asdict()
        if spec.variant.per_round:
            by_kind = (await self.learner.reading())._asdict()
            for round in range(spec.rounds):
                for kind, by_round in by_kind.items():
                    if kind == "spatial" or round > 0:  # no round comes before the first
                        matrices[f"{kind}, round {round + 1}"] = by_round[round]
        return matrices


async def _in_thread(work: Callable[[], T]) -> T:
    """Does the work in a thread. When cancelled, waits for its end first: whoever cancels may close its files."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled():
            working.result()  # raises the error of the work, which explains more than the cancellation
        raise
