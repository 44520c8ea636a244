"""Optimising the communication graph (Algorithm 1): sample wirings, hold the discussions, score, learn, prune."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from actors.errors import UserError
from actors.messages import Trace
from experiments.attacks.attack import Attack
from experiments.datasets.item import Item
from experiments.records.progress import Bar
from experiments.records.recorder import LearningRecorder
from experiments.records.records import LearningStep, matrix
from experiments.records.usage import UsageLog
from experiments.running.context import RunContext
from experiments.running.counted import CountedTeam
from experiments.running.launch import learner_settings
from topologies.discussion import Team
from topologies.learning.learner import StepReport
from topologies.learning.pruned import LearnedTopology
from topologies.wiring import Wirings


@dataclass(frozen=True)
class _Step:
    """One step under way: its questions, and K discussions of each along the wirings."""

    items: Sequence[Item]
    wirings: Wirings
    discussions: list[asyncio.Task[Trace]]


@dataclass
class Training:
    """Two stages of `pruning.steps` steps, each on questions of its own, from wherever the checkpoint is.

    `learner` is the topology actor (the methods of `topologies.learning.learner.Learner` as coroutines); it gets
    scores, no labels. `recorder` writes into the folder of the learned graph.
    """

    context: RunContext
    team: Team
    attack: Attack
    topology: LearnedTopology
    learner: Any
    recorder: LearningRecorder

    async def run(self, usage: UsageLog) -> None:
        """Learns until the last stage is over. Raises UserError when there are too few training questions."""
        method, steps = self.topology.method, self.context.config.pruning.steps
        resumed = self.recorder.checkpoint
        if resumed:
            await self.learner.load(resumed.state)
        stage, step, finished = await self._position()
        while not finished:
            items = self._items(stage)
            bar = self.context.progress.phase(f"learning {method}, stage {stage}", total=steps, done=step)
            # The state before the first step, unless a run that was killed has already recorded it.
            if step == 0 and not (resumed and (resumed.stage, resumed.step) == (stage, 0)):
                await self._record(stage, 0, {}, await self.learner.edges_left())
            with usage.phase(f"learning {method}, stage {stage}"):
                await self._learn(stage, step, items, bar)
            await self.learner.next_stage()
            stage, step, finished = await self._position()

    async def _position(self) -> tuple[int, int, bool]:
        state = await self.learner.state()
        return int(state["stage"]), int(state["step"]), bool(state["finished"])

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
        """Runs the steps of a stage from `first` on, and learns from them in their order.

        Where the learner can sample ahead, discussions of later steps fill up what concurrency leaves free.
        """
        config = self.context.config
        gate = asyncio.Semaphore(config.concurrency)
        team = CountedTeam(self.team, bar)
        # The number of steps that together use up the concurrency.
        fill = math.ceil(config.concurrency / (config.training.samples * len(items[0])))
        under_way: deque[_Step] = deque()
        async with asyncio.TaskGroup() as group:
            for number in range(first, len(items)):
                # Limited by concurrency, by what the estimator can sample ahead, and by the end of the stage.
                foreseen = min(number + fill, number + await self.learner.foresight(), len(items) - 1)
                for later in range(number + len(under_way), foreseen + 1):
                    under_way.append(await self._begin(stage, later, later - number, items[later], team, gate, group))
                # The oldest first: the learner takes steps in their order, whichever ends first.
                report, tokens = await self._learned(stage, under_way.popleft())
                terms = {name: value for name, value in asdict(report).items() if isinstance(value, float)}
                terms["tokens"] = float(tokens)
                await self._record(stage, number + 1, terms, report.edges)
                bar.advance()

    async def _begin(
        self,
        stage: int,
        number: int,
        ahead: int,
        items: Sequence[Item],
        team: Team,
        gate: asyncio.Semaphore,
        group: asyncio.TaskGroup,
    ) -> _Step:
        """Samples the wirings of a step and starts its discussions, K for each question."""
        config = self.context.config
        k = config.training.samples
        # Questions of all earlier steps: an attack gets the place of a question in the whole of training.
        before = ((stage - 1) * config.pruning.steps + number) * len(items)
        questions = await asyncio.gather(*(self.context.evidence.question(item) for item in items))
        wirings, walks = await self.topology.sample(k * len(items), ahead)

        async def discuss_along(walk: int) -> Trace:
            # The walks of one question are consecutive, k for each.
            question_index, sample = divmod(walk, k)
            async with gate:
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

    async def _learned(self, stage: int, step: _Step) -> tuple[StepReport, int]:
        """Scores the discussions of a step, and learns from them; with the tokens that they took."""
        k, dataset = self.context.config.training.samples, self.context.dataset
        utilities, turn_scores, tokens = [], [], 0
        # In the order of the walks, not of their ends: the record must not depend on concurrency.
        for number, trace in enumerate(await asyncio.gather(*step.discussions)):
            item = step.items[number // k]
            self.recorder.trained(stage, trace)
            utilities.append(dataset.score(item, trace.answer).utility)
            turn_scores.append(self._turn_scores(item, trace))
            tokens += sum(turn.prompt_tokens + turn.completion_tokens for turn in trace.turns)
        # The question of each discussion, so that the learner can compare answers to the same one.
        groups = np.arange(len(utilities)) // k
        # Learners know no missing score: 0 in every discussion alike tells nothing about any edge.
        scores = np.nan_to_num(np.array(turn_scores)), np.array(utilities)
        report: StepReport = await self.learner.learn(step.wirings, *scores, groups)
        return report, tokens

    def _turn_scores(self, item: Item, trace: Trace) -> list[list[float]]:
        """The score of each agent's own answer, [rounds, agents]; none (NaN) of an agent whose form has no answer."""
        dataset, config = self.context.dataset, self.context.config
        silent = {role.name for role in self.context.roles if not role.answers}
        scores = {
            turn.id: math.nan if turn.agent in silent else dataset.score(item, turn.answer).utility
            for turn in trace.turns
        }
        rounds = range(1, config.topology.rounds + 1)
        # Every turn is there: in training nobody's turn is left out.
        return [[scores[f"{number}/{agent}"] for agent in trace.agents] for number in rounds]

    async def _record(self, stage: int, step: int, terms: dict[str, float], edges: dict[str, int]) -> None:
        context = self.context
        matrices = (await self.learner.probabilities())._asdict()
        if learner_settings(context.config, self.topology.method)[0].per_round:
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
            probabilities={kind: matrix(torch.tensor(p), torch.tensor(p > 0)) for kind, p in matrices.items()},
        )
        # The checkpoint, from which a killed run goes on: after the discussions that the step has learned from.
        self.recorder.learned(record, await self.learner.state())
        values = {"stage": stage, "step": step, **terms, **edges}
        context.tracker.log({f"{self.topology.method}/{name}": value for name, value in values.items()})
