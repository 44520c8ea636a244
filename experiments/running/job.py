"""The main job while its actors live: learn, evaluate every method, and judge the answers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx

from actors.messages import Trace
from actors.runtime.in_order import in_order
from experiments.attacks.attack import Attack
from experiments.attacks.attack_metrics import Harm, write_edge_scores
from experiments.datasets.item import Item
from experiments.evidence.extraction import CAPTIONS
from experiments.evidence.library import LabelledLibrary, open_web, triples_given
from experiments.judging import judgements
from experiments.judging.judgements import HasCaptions, judge_scenes
from experiments.records.recorder import LearningRecorder
from experiments.records.usage import EVALUATING, UsageLog
from experiments.running.calibration import calibrate
from experiments.running.context import RunContext
from experiments.running.counted import CountedTeam
from experiments.running.extracting import extract_graph, extracts, write_captions
from experiments.running.launch import attackable, closing_roles
from experiments.running.launched import Launched, donors
from experiments.running.learning import Training
from experiments.running.methods import make_topology, methods_of
from experiments.running.models import answer_rubric
from experiments.running.replay import replayed_folder
from experiments.running.slots import Slots
from experiments.running.student import Student
from retrieval.extract import BY_RULES
from topologies.graphs import to_networkx
from topologies.learning.learned_topology import LearnedTopology
from topologies.topology import Topology
from topologies.wiring import Edges

log = logging.getLogger(__name__)


@dataclass
class Job:
    """The work of a run while its agents live; `agents` and `learners` are launched by the caller.

    A learner, by the name of its method, has the methods of `topologies.learning.learner.Learner` as coroutines.

    Graphs are learned side by side, and methods that need none of them are evaluated meanwhile: a step of a learner
    waits for its last discussion, and leaves most of what a model can do unused. Not so without `side_by_side`.
    """

    context: RunContext
    agents: Launched
    learners: Mapping[str, Any]
    side_by_side: bool = True

    def __post_init__(self) -> None:
        context, config = self.context, self.context.config
        compromised = attackable(config, context.roles)
        self.attack = Attack(config.attack, compromised, context.dataset, config.seed)
        self.methods = methods_of(config)
        self.learned = {
            method: LearnedTopology(method, context.agents, learner, config.topology.inference)
            for method, learner in self.learners.items()
        }
        self.usage = UsageLog(context.recorder.run, self.agents.spent)
        self._slots = Slots(config.concurrency)
        self.stated = BY_RULES

    async def prepare(self) -> None:
        """Has the model write captions, by which pictures are found from then on, and extract the graph, where it is to
        do so."""
        if CAPTIONS in extracts(self.context.config):
            store = await write_captions(self.context, self.agents.team, self.usage)
            self.context = replace(self.context, evidence=self.context.evidence.over(store))
        self.stated = await extract_graph(self.context, self.agents.team, self.usage)

    async def run(self) -> None:
        """Learns, evaluates and judges; what a killed run has recorded is not done again."""
        await self.prepare()
        context, config, methods = self.context, self.context.config, self.methods
        # Before learning and evaluation, because methods are made from what was watched and learned.
        watched: Sequence[Trace] = ()
        if any(method.needs_calibration for method in methods):
            with self.usage.phase("watching unlabelled discussions"):
                watched = await calibrate(context, self.agents.team, self.attack)
        questions = sum(1 for _ in context.dataset.evaluate())
        library = LabelledLibrary(
            context.evidence,
            # Only systems search by question; without one, no item has to be held in memory.
            context.dataset.evaluate() if any(method.needs_library for method in methods) else (),
            open_web(config.retrieval, context.recorder.run.path, replayed_folder(config)),
            triples_given(context.dataset),
            self.stated,
        )
        async with asyncio.TaskGroup() as group:
            learning = await self._begin_learning(group)
            # In their order, for their scores stand in one file: a graph that is still being learned holds up the rest.
            for method in methods:
                if method.needs_graph or method.name in learning:
                    # A method that needs a graph and learns none has that of the first learner.
                    await (learning.get(method.name) or learning[next(iter(self.learners))])
                topology = make_topology(method, config, context.agents, self.learned, library, watched)
                await self.evaluate(topology, questions)
        # Last, because equal answers of several methods are judged once.
        if self.agents.judge:
            items = {item.question.id: item for item in context.dataset.evaluate()}
            with self.usage.phase("judging"):
                await judgements.judge_run(
                    context.recorder.run,
                    self.agents.judge,
                    items,
                    config.concurrency,
                    context.progress,
                    answer_rubric(config),
                )
                if isinstance(context.dataset, HasCaptions):
                    await judge_scenes(
                        context.recorder.run,
                        self.agents.judge,
                        context.dataset.captions(),
                        [method.name for method in methods],
                        config.concurrency,
                        context.progress,
                    )

    async def learn(self) -> None:
        """Optimises and prunes every learned method's graph, and writes down the edges that are left, each in a folder
        of its own."""
        async with asyncio.TaskGroup() as group:
            await self._begin_learning(group)

    async def _begin_learning(self, group: asyncio.TaskGroup) -> dict[str, asyncio.Task[None]]:
        """The task in which each method is learned, by the method; one task for those that learn from the same
        discussions. All are over already without `side_by_side`."""
        tasks: dict[str, asyncio.Task[None]] = {}
        sources = donors(self.context.config, self.context.roles)
        for method in self.learners:
            if method in sources:
                continue
            beside = [receiver for receiver, source in sources.items() if source == method]
            task = group.create_task(self._learn(method, beside, await self._needed(method)))
            tasks |= dict.fromkeys((method, *beside), task)
            if not self.side_by_side:
                await task
        # Until each has begun, and has its slots kept for it.
        await asyncio.sleep(0)
        return tasks

    async def _needed(self, method: str) -> int:
        """The discussions that a learner can hold at once."""
        training = self.context.config.training
        ahead: int = await self.learners[method].lookahead()
        return training.samples * training.questions_per_step * (1 + ahead)

    async def _learn(self, method: str, beside: Sequence[str], needed: int) -> None:
        """Learns one method's graph, and those `beside` from the same discussions."""
        team = self.agents.team.metered()
        with self._slots.kept(needed), ExitStack() as recorders:
            own = self._student(method, "", recorders)
            others = [self._student(each, method, recorders) for each in beside]
            await Training(self.context, team, self.attack, self._slots, own, others).run(self.usage)
        for each in (method, *beside):
            await self._conclude(each)

    def _student(self, method: str, source: str, recorders: ExitStack) -> Student:
        recorder = recorders.enter_context(LearningRecorder(self.context.recorder.run.learned(method)))
        return Student(self.context, self.learned[method], self.learners[method], recorder, source)

    async def _conclude(self, method: str) -> None:
        """Freezes what a method has learned, and writes it down."""
        topology, folder = self.learned[method], self.context.recorder.run.learned(method).path
        await self._warn(method)
        # Also in a resumed run that has nothing left to learn: the frozen wiring lives in memory only.
        await topology.freeze()
        scores = await self.learners[method].edge_scores()
        write_edge_scores(folder, topology.agents, self.attack.attackers, scores)
        export_topology(folder, topology)
        self._export_team(folder, topology)

    async def _warn(self, method: str) -> None:
        """Says so where what was learned is no more than chance."""
        chance = await self.learners[method].without_evidence()
        if chance is not None:
            line = f"{method}: no evidence that any edge matters (p = {chance:.2g}), so the last stage cuts none"
            log.warning(line)
            self.context.progress.print(line)

    async def evaluate(self, topology: Topology, questions: int) -> None:
        """Answers every evaluated question once, along one topology."""
        context, config = self.context, self.context.config
        done = context.recorder.done(topology.method)
        bar = context.progress.phase(f"evaluating {topology.method}", total=questions, done=len(done))
        team = self.agents.team.metered()
        counted = CountedTeam(team, bar)

        async def answer(numbered: tuple[int, Item]) -> Trace:
            number, item = numbered
            question = await context.evidence.question(item)
            async with self._slots.slot(learning=False):
                return await self.attack.run_discussion(
                    topology, item, question, counted, config.seed, phase="evaluate", number=number
                )

        # Numbered before the filter: a resumed run must give a question the number that it had.
        items = (pair for pair in enumerate(context.dataset.evaluate()) if pair[1].question.id not in done)
        # In the questions' order: each method's traces and scores must stand in one order in their files.
        with self.usage.phase(f"{EVALUATING}{topology.method}", lambda: team.usage):
            async for (_, item), trace in in_order(items, answer, config.concurrency):
                score, harm = context.dataset.score(item, trace.answer), Harm.of(trace, item, context.dataset)
                context.recorder.evaluated(trace, item, score, harm)
                bar.advance()

    def _export_team(self, folder: Path, topology: LearnedTopology) -> None:
        from experiments.running.graph_flow import write_team  # imports AutoGen, which nothing before this point needs

        roles = {role.name: role for role in (*self.context.roles, *closing_roles(self.context.config))}
        write_team(folder, topology.wiring, topology.agents, roles, self.context.config)


def export_topology(folder: Path, topology: LearnedTopology) -> None:
    """The learned graph as GraphML and as networkx's node-link JSON."""
    wiring = topology.wiring
    edges, p = Edges(wiring.spatial, wiring.temporal), Edges(wiring.spatial_p, wiring.temporal_p)
    if not wiring.by_round:
        # Of the last round, as no temporal edge leads into the first.
        last = [kind[:, 0] == wiring.rounds - 1 for kind in edges]
        edges = Edges(*(kind[of_last, 1:] for kind, of_last in zip(edges, last, strict=True)))
        p = Edges(*(each if each is None else each[of_last] for each, of_last in zip(p, last, strict=True)))
    graph = to_networkx(edges, topology.agents, p, wiring.speaks)
    nx.write_graphml(graph, folder / "topology.graphml")
    (folder / "topology.json").write_text(json.dumps(nx.node_link_data(graph), indent=1) + "\n")
