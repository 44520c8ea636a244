"""One graph while it is learned: its learner, where that stands, and what is written down of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from actors.errors import UserError
from experiments.records.recorder import LearningRecorder
from experiments.records.records import LearningStep, matrix
from experiments.running.context import RunContext
from experiments.running.in_thread import to_its_end
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.spec import StepReport
from topologies.learning.variants import VARIANTS, LearnedMethod
from topologies.wiring import Wirings


@dataclass(frozen=True)
class Scores:
    """What the discussions of one step were worth: arguments of `Learner.learn`.

    turns: [k, rounds, agents]; utilities: [k]; groups: int [k], the question of each; tokens: of all discussions.
    """

    turns: np.ndarray
    utilities: np.ndarray
    groups: np.ndarray
    tokens: int


@dataclass(frozen=True)
class Student:
    """A learner with its records.

    learner: the topology actor (the methods of `topologies.learning.learner.Learner` as coroutines); it gets scores, no
        labels. recorder: writes into the folder of the learned graph.
    source: the method whose discussions it learns from; empty where they are its own.
    """

    context: RunContext
    topology: LearnedTopology
    learner: Any
    recorder: LearningRecorder
    source: str = ""

    @property
    def method(self) -> str:
        return self.topology.method

    @property
    def reached(self) -> tuple[int, int]:
        """Stage and step of its last record; a killed run goes on after it."""
        done = self.recorder.checkpoint
        return (done.stage, done.step) if done else (0, 0)

    async def resume(self) -> None:
        """Takes up what was recorded. Raises UserError for a state that this learner cannot take."""
        if self.recorder.checkpoint:
            try:
                await self.learner.load(self.recorder.checkpoint.state)
            except ValueError as error:
                reason = str(error).splitlines()[-1]
                raise UserError(
                    f"{self.recorder.run.topology}: {reason}; delete this file and resume to learn again from the start"
                ) from error

    async def position(self) -> tuple[int, int, bool]:
        """Its stage, the steps of it that are done, and whether all is learned."""
        state = await self.learner.state()
        return int(state["stage"]), int(state["step"]), bool(state["finished"])

    async def begin(self, stage: int) -> None:
        """Records the state before the first step of a stage, unless a run that was killed has done so."""
        if self.reached < (stage, 0):
            await self._record(stage, 0, {}, await self.learner.edges_left())

    async def learn(self, stage: int, step: int, wirings: Wirings, scores: Scores) -> StepReport | None:
        """Learns from one step's discussions; None where a run that was killed has recorded it already."""
        if self.reached >= (stage, step):
            return None
        report: StepReport = await self.learner.learn(wirings, scores.turns, scores.utilities, scores.groups)
        return report

    async def learned(self, stage: int, step: int, report: StepReport | None, tokens: int) -> None:
        """Records what `learn` has reported, before the next step is learned from; `tokens` are of its discussions."""
        if report is None:
            return
        terms = {name: value for name, value in asdict(report).items() if isinstance(value, float)}
        # Tokens count once, with those who held the discussions.
        await self._record(stage, step, terms | {"tokens": 0.0 if self.source else float(tokens)}, report.edges)

    async def may_stop(self, stage: int) -> bool:
        """Whether the stage may end here, before its last step (`learner.early_stop`)."""
        if self.context.config.learner.early_stop is None:
            return False  # not asked in vain: a learner is another process
        # A run that was killed as the next stage began goes on from there.
        return self.reached[0] > stage or bool(await self.learner.may_stop())

    async def end(self, stage: int) -> None:
        """Leaves a stage; one that is there already, or is past it, stays where it is."""
        if (await self.position())[0] == stage:
            await self.learner.next_stage()

    async def _record(self, stage: int, step: int, terms: Mapping[str, float], edges: Mapping[str, int]) -> None:
        context = self.context
        matrices = (await self.learner.probabilities())._asdict()
        if VARIANTS[LearnedMethod(self.method)].per_round:
            for number in range(1, context.config.topology.rounds + 1):
                for kind, p in (await self.learner.probabilities(number))._asdict().items():
                    if kind == "spatial" or number > 1:  # no round comes before the first
                        matrices[f"{kind}, round {number}"] = p
        record = LearningStep(
            stage=stage,
            step=step,
            agents=self.topology.agents,
            modalities=tuple(str(role.modality) for role in context.roles),
            terms=terms,
            edges=edges,
            probabilities={kind: matrix(p, p > 0) for kind, p in matrices.items()},
            source=self.source,
        )
        # The checkpoint, from which a killed run goes on: after the discussions that the step has learned from.
        # In a thread, for it waits until the disk has it, and discussions are held meanwhile.
        await to_its_end(partial(self.recorder.learned, record, await self.learner.state()))
        values = {"stage": stage, "step": step, **terms, **edges}
        context.tracker.log({f"{self.method}/{name}": value for name, value in values.items()})
