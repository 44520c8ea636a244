"""Holds the discussions of a run: learns, evaluates every method, and judges the answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.messages import Question, Trace
from experiments.analysis.looks import looks, reached
from experiments.evidence.extraction import CAPTIONS
from experiments.evidence.library import LabelledLibrary, open_web, triples_given
from experiments.running.calibration import calibrate
from experiments.running.evaluation import evaluate
from experiments.running.judged_answers import judge_answers
from experiments.running.learned_graphs import GraphLearning
from experiments.running.model_extraction import extract_graph, write_captions
from experiments.running.run_context import RunContext
from experiments.running.run_topologies import RunTopologies
from retrieval.graph_tables import BY_RULES


class Discussions:
    """Does the work of a run. The caller launches agents and learners.

    Graphs are learned side by side, while methods that need none of them are evaluated: a step of a learner waits for
    its last discussion, and leaves most of what a model can do unused. Not so without `side_by_side`.
    """

    def __init__(self, context: RunContext, learners: Mapping[str, Any], side_by_side: bool = True) -> None:
        self.context = context
        self._side_by_side = side_by_side
        self._statements = BY_RULES
        self.learning = GraphLearning(context, learners)

    async def prepare(self) -> None:
        """Has the model write captions, by which pictures are found, and extract the graph, where configured."""
        if CAPTIONS in self.context.plan.extraction:
            store = await write_captions(self.context)
            self.context = replace(self.context, evidence=replace(self.context.evidence, store=store))
            self.learning.context = self.context
        attack, evidence = self.context.attack, self.context.evidence
        await asyncio.to_thread(attack.prepare, evidence)
        self._statements = await extract_graph(replace(self.context, evidence=attack.evidence or evidence))

    async def run(self) -> None:
        """Learns, evaluates and judges. Discussions that a killed run has recorded are not repeated."""
        await self.prepare()
        context = self.context
        compare = context.config.compare
        # Before learning and evaluation, because methods are made from what was watched and learned.
        watched: Sequence[tuple[Question, Trace]] = ()
        if context.plan.watched_questions:
            watched = await calibrate(context)
        further_looks = looks(context.dataset, context.config.seed) if compare.stop else []
        if further_looks:
            context = replace(context, dataset=further_looks.pop(0))
        topologies = RunTopologies(context, self.learning.graphs, self._library(), watched)

        async with asyncio.TaskGroup() as group:
            learning = await self.learning.begin(group, self._side_by_side)
            items = list(context.dataset.evaluate())
            # In their order, for their scores are in one file: a graph that is still being learned holds up the rest.
            for method in context.plan.methods:
                if method.needs_graph or method.name in learning:
                    # A method that needs a graph and learns none has that of the first learner.
                    await (learning.get(method.name) or learning[next(iter(self.learning.learners))])
                await evaluate(topologies.of(method), context, items)

            for look in further_looks:
                if reached(context.recorder.run, compare.stop, context.dataset, compare.margin):
                    break
                # Asks what the records of the looks before lack, as a resumed run does.
                context = replace(context, dataset=look)
                items = list(look.items)
                for method in context.plan.methods:
                    await evaluate(topologies.of(method), context, items)

            for evaluation in context.plan.evaluations[len(context.plan.methods) :]:
                attack = context.attack.absent() if evaluation.kind == "clean" else context.attack
                await evaluate(topologies.further(evaluation), replace(context, attack=attack), items)
        # Last, because equal answers of several methods are judged once.
        if context.judge:
            with context.usage.phase("judging"):
                await judge_answers(self.context, context.judge)

    def _library(self) -> LabelledLibrary:
        context = self.context
        return LabelledLibrary(
            context.evidence,
            # Only systems search by question; without one, no item has to be in memory.
            context.dataset.evaluate() if context.plan.has_library else (),
            open_web(context.config.retrieval, context.recorder.run.path, context.plan.replayed),
            triples_given(context.dataset),
            self._statements,
        )

    async def learn(self) -> None:
        """Optimises and prunes every learned method's graph, and writes down the edges that are left of each."""
        async with asyncio.TaskGroup() as group:
            await self.learning.begin(group, self._side_by_side)
