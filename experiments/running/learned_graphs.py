"""Makes the learners of a run, learns its graphs side by side, and records the edges left of each."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from actors.messages import Kind
from experiments.attacks.attack_metrics import surrogate_text, write_edge_scores
from experiments.planning.plan import Plan
from experiments.records.recorder import LearningRecorder
from experiments.running.inputs import training_items
from experiments.running.recorded_learner import RecordedLearner
from experiments.running.run_context import RunContext
from experiments.running.training import Training
from retrieval.embed import Encoder
from topologies.graph_file import graph_of
from topologies.learning.learned_topology import Features, LearnedTopology, make_learner
from topologies.wiring import Wiring

log = logging.getLogger(__name__)


def learner_makers(plan: Plan, encoder: Encoder | None) -> dict[str, Callable[[], Any]]:
    """Makes each learner of a plan. Graphs by question get the number of features and the embeddings of roles."""
    made: dict[str, Callable[[], Any]] = {}
    for name, spec in plan.learners.items():
        if spec.variant.by_question and encoder:
            roles = [encoder.encode_query(f"{role.name}: {role.instruction}") for role in plan.roles.team]
            profiles = np.array([np.atleast_2d(vectors).mean(0) for vectors in roles], dtype=np.float64)
            spec = replace(spec, features=encoder.dim + len(Kind), profiles=profiles)
        made[name] = partial(make_learner, spec)
    return made


def learned_topologies(plan: Plan, learners: Mapping[str, Any], features: Features) -> dict[str, LearnedTopology]:
    """Makes the learned topology of each method, over its learner, whose methods are coroutines.

    features: of questions, for graphs that depend on them.
    """
    inference, agents = plan.config.topology.inference, plan.roles.agents
    seen = {name: features for name, spec in plan.learners.items() if spec.variant.by_question}
    return {name: LearnedTopology(name, agents, each, inference, seen.get(name)) for name, each in learners.items()}


class GraphLearning:
    """Learned graphs of a run, and their learners (coroutines of `topologies.learning.learner`), by method."""

    def __init__(self, context: RunContext, learners: Mapping[str, Any]) -> None:
        self.context, self.learners = context, learners
        self.graphs = learned_topologies(context.plan, learners, context.evidence.features)

    async def begin(self, group: asyncio.TaskGroup, side_by_side: bool = True) -> dict[str, asyncio.Task[None]]:
        """Starts a task for each method, or for several with the same discussions. Awaits it unless `side_by_side`."""
        tasks: dict[str, asyncio.Task[None]] = {}
        shared_from, training = self.context.plan.shared_from, self.context.config.training
        for method in self.learners:
            if method in shared_from:
                continue
            others = [other for other, source in shared_from.items() if source == method]
            # Discussions that the learner can use at once.
            needed = training.samples * training.questions_per_step * (1 + await self.learners[method].lookahead())
            task = group.create_task(self._learn(method, others, needed))
            tasks |= dict.fromkeys((method, *others), task)
            if not side_by_side:
                await task
        # Until each task has begun, and has its slots reserved.
        await asyncio.sleep(0)
        return tasks

    async def _learn(self, method: str, others: Sequence[str], needed: int) -> None:
        context = self.context
        with context.slots.reserved(needed), ExitStack() as recorders:
            learners = []
            for name in (method, *others):
                recorder = recorders.enter_context(LearningRecorder(context.recorder.run.learned(name)))
                source = "" if name == method else method
                learners.append(RecordedLearner(context, self.graphs[name], self.learners[name], recorder, source))
            own, *along = learners
            await Training(context, own, along).run()
            for other in along:
                # What it has learned from other discussions, it confirms with its own.
                await Training(context, replace(other, source="")).run()
        for each in (method, *others):
            await self._conclude(each)

    async def _conclude(self, method: str) -> None:
        """Freezes a method's learned graph, and writes it down."""
        topology, learner = self.graphs[method], self.learners[method]
        folder = self.context.recorder.run.learned(method).path
        for doubt in await learner.doubts():
            log.warning(line := f"Warning: {method}: {doubt}")
            self.context.progress.print(line, folded=True)
        # Also in a resumed run that has nothing left to learn: the frozen wiring is in memory only.
        await topology.freeze()
        check = await learner.surrogate()
        found = check._asdict() | {"senders": [topology.agents[s] for s in check.senders]} if check else {}
        if check and not check.holds:
            self.context.progress.print(f"{method}: {surrogate_text(found)}")
        write_edge_scores(folder, topology.agents, self.context.attack.attackers, await learner.edge_scores(), found)
        export_topology(folder, "topology", topology.common, topology.agents)
        # By kinds of evidence, each at the mean features of the training questions that have them.
        groups: dict[str, list[Any]] = {}
        for items in training_items(self.context.plan, self.context.dataset, 1) if topology.by_question else ():
            for question in [await self.context.evidence.question(item) for item in items]:
                kinds = "+".join(sorted({str(source.kind) for source in question.evidence}))
                groups.setdefault(f"topology-{kinds or 'none'}", []).append(question)
        for name, questions in sorted(groups.items()):
            export_topology(folder, name, await topology.wiring(*questions), topology.agents)
        from experiments.running.autogen_team import write_team  # imports AutoGen, which nothing before needs

        plan = self.context.plan
        roles = {role.name: role for role in (*plan.roles.team, *plan.roles.others)}
        seed, settings = plan.config.seed, plan.config.agents
        write_team(folder, topology.common, topology.agents, roles, seed, plan.models, settings)


def export_topology(folder: Path, name: str, wiring: Wiring, agents: Sequence[str]) -> None:
    """Writes a learned graph as GraphML and as networkx's node-link JSON."""
    graph = graph_of(wiring, agents)
    nx.write_graphml(graph, folder / f"{name}.graphml")
    (folder / f"{name}.json").write_text(json.dumps(nx.node_link_data(graph), indent=1) + "\n")
