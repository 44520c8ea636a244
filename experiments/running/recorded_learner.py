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
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.spec import CONFIRMING, StepReport
from topologies.wiring import Wirings

T = TypeVar("T")


@dataclass(frozen=True)
class StepScores:
    """Scores of one step's discussions: arguments of `Learner.learn`.

    turns: [k, rounds, agents]; utilities: [k]; groups: int [k], the question of each; tokens: of all discussions.
    A discussion with a failed turn tells nothing: its utility is NaN.
    """

    turns: np.ndarray
    utilities: np.ndarray
    groups: np.ndarray
    tokens: int


def score_step(plan: Plan, dataset: Dataset, items: Sequence[Item], traces: Sequence[Trace]) -> StepScores:
    """Scores the discussions of a step's questions, as many consecutive ones for each."""
    k, rounds = len(traces) // len(items), range(1, plan.config.topology.rounds + 1)
    silent = {role.name for role in plan.roles.team if not role.answers}
    utilities, turn_scores, tokens = [], [], 0

    # Few of the answers to a question differ, and between two steps nothing else goes on.
    @cache
    def utility(question: int, answer: str | None) -> float:
        return dataset.score(items[question], answer).utility

    for number, trace in enumerate(traces):
        of_question = partial(utility, number // k)
        utilities.append(of_question(trace.answer))
        own = {turn.id: math.nan if turn.agent in silent else of_question(turn.answer) for turn in trace.turns}
        # [rounds, agents]. In training only an agent that takes no part in the round has no turn.
        turn_scores.append([[own.get(f"{n}/{agent}", math.nan) for agent in trace.agents] for n in rounds])
        tokens += sum(turn.tokens for turn in trace.turns)
    failed = [any(turn.status is Status.FAILED for turn in trace.turns) for trace in traces]
    # Learners know no missing score: 0 in every discussion alike tells nothing about any edge.
    return StepScores(
        turns=np.nan_to_num(np.array(turn_scores)),
        utilities=np.where(failed, math.nan, utilities),
        # The question of each discussion, so that the learner can compare answers to the same one.
        groups=np.arange(len(utilities)) // k,
        tokens=tokens,
    )


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

    async def position(self) -> tuple[int, int, bool, bool]:
        """Returns its stage, the steps done in it, whether learning is over, and whether it confirms its graph."""
        state = await self.learner.state()
        confirming = "confirm.phase" in state and int(state["confirm.phase"][0]) == CONFIRMING
        return int(state["stage"]), int(state["step"]), bool(state["finished"]), confirming

    async def begin(self, stage: int) -> None:
        """Records the state before the first step of a stage, unless a killed run has done so."""
        if self.reached < (stage, 0):
            await self._record(stage, 0, {}, await self.learner.edges_left())

    async def learn(self, stage: int, step: int, wirings: Wirings, scores: StepScores) -> StepReport | None:
        """Learns from one step's discussions. Returns None for a step that a killed run has recorded, and for another
        learner's discussions where this one is to confirm its graph."""
        explored = self.context.plan.learners[self.method].exploring(stage).steps
        if self.reached >= (stage, step) or (self.source and step > explored):
            return None
        report: StepReport = await self.learner.learn(wirings, scores.turns, scores.utilities, scores.groups)
        return report

    async def learned(self, stage: int, step: int, report: StepReport | None, tokens: int) -> None:
        """Records the report of `learn`, before the next step is learned from. `tokens` are of its discussions."""
        if report is None:
            return
        terms = {name: value for name, value in asdict(report).items() if isinstance(value, float)}
        # Tokens count once, with the learner whose discussions they are.
        terms |= {"tokens": 0.0 if self.source else float(tokens)}
        await self._record(stage, step, terms, report.edges, confirmed=report.confirmed, doubts=report.doubts)

    async def may_stop(self, stage: int) -> bool:
        """True if the stage may end here, before its last step (`learner.early_stop`)."""
        if self.context.plan.learners[self.method].early_stop is None:
            return False  # not asked in vain: a learner is another process
        # A run that was killed as the next stage began goes on from there.
        return self.reached[0] > stage or bool(await self.learner.may_stop())

    async def end(self, stage: int) -> None:
        """Leaves a stage; a learner that is past it stays where it is."""
        at, _, finished, confirming = await self.position()
        if at == stage and not (finished or confirming):
            await self.learner.next_stage()

    async def _record(
        self, stage: int, step: int, terms: Mapping[str, float], edges: Mapping[str, int], **words: Any
    ) -> None:
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
            **words,
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
            working.result()  # raises the error of the work, which explains more than the cancellation
        raise
