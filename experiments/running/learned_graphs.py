"""Makes the learners of a run, learns its graphs side by side, and records the edges left of each."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from actors.messages import Kind, Question
from experiments.attacks.attack_metrics import write_edge_scores
from experiments.planning.plan import Plan
from experiments.records.recorder import LearningRecorder
from experiments.records.run_files import write_atomically
from experiments.running.inputs import training_items
from experiments.running.recorded_learner import RecordedLearner
from experiments.running.run_context import RunContext
from experiments.running.training import Training
from retrieval.embed import Encoder
from topologies.graph_file import graph_of
from topologies.learning.learned_topology import Features, LearnedTopology, make_learner
from topologies.wiring import Floats, Wiring

log = logging.getLogger(__name__)


def learner_makers(plan: Plan, encoder: Encoder | None) -> dict[str, Callable[[], Any]]:
    """Makes each learner of a plan. Graphs by question get the number of features and the embeddings of roles."""
    makers: dict[str, Callable[[], Any]] = {}
    # Learners share it: they travel together, and Ray restarts an actor reliably from at most 100 KB.
    profiles: Floats | None = None
    for method, spec in plan.learners.items():
        if spec.variant.by_question and encoder:
            if profiles is None:
                profiles = role_profiles(plan, encoder)
            spec = replace(spec, features=encoder.dim + len(Kind), profiles=profiles)
        makers[method] = partial(make_learner, spec)
    return makers


def role_profiles(plan: Plan, encoder: Encoder) -> Floats:
    """Embeds the description of each agent of the team [agents, d]."""
    profiles = []
    for role in plan.roles.team:
        vectors = encoder.encode_query(f"{role.name}: {role.instruction}")
        profiles.append(np.atleast_2d(vectors).mean(0))
    return np.array(profiles, dtype=np.float64)


def learned_topologies(plan: Plan, learners: Mapping[str, Any], features: Features) -> dict[str, LearnedTopology]:
    """Makes the learned topology of each method, over its learner, whose methods are coroutines.

    features: of questions, for graphs that depend on them.
    """
    topologies = {}
    for method, learner in learners.items():
        topologies[method] = LearnedTopology(
            method,
            plan.roles.agents,
            learner,
            plan.config.topology.inference,
            features if plan.learners[method].variant.by_question else None,
        )
    return topologies


class GraphLearning:
    """Learned graphs of a run, and their learners (coroutines of `topologies.learning.learner`), by method."""

    def __init__(self, context: RunContext, learners: Mapping[str, Any]) -> None:
        self.context = context
        self.learners = learners
        self.graphs = learned_topologies(context.plan, learners, context.evidence.features)

    async def begin(self, group: asyncio.TaskGroup, side_by_side: bool = True) -> dict[str, asyncio.Task[None]]:
        """Starts a task for each method, or for several with the same discussions. Awaits it unless `side_by_side`."""
        tasks: dict[str, asyncio.Task[None]] = {}
        shared_from = self.context.plan.shared_from
        training = self.context.config.training
        for method, learner in self.learners.items():
            if method in shared_from:
                continue
            students = [name for name, source in shared_from.items() if source == method]
            # Discussions that the learner can use at once.
            steps_at_once = 1 + (await learner.status()).lookahead
            questions = training.questions_per_step * steps_at_once
            slots = questions * self.context.plan.learners[method].samples(training.samples)
            task = group.create_task(self._learn(method, students, slots))
            tasks |= dict.fromkeys((method, *students), task)
            if not side_by_side:
                await task
        # Until each task has begun, and has its slots reserved.
        await asyncio.sleep(0)
        return tasks

    async def _learn(self, method: str, student_methods: Sequence[str], slots: int) -> None:
        with self.context.slots.reserved(slots), ExitStack() as recorders:

            def recorded(name: str, source: str = "") -> RecordedLearner:
                recorder = recorders.enter_context(LearningRecorder(self.context.recorder.run.learned(name)))
                return RecordedLearner(self.context, self.graphs[name], self.learners[name], recorder, source)

            learner = recorded(method)
            students = [recorded(name, source=method) for name in student_methods]
            await Training(self.context, learner, students).run()
            for student in students:
                # A learner that learns from other discussions confirms its graph with its own.
                await Training(self.context, replace(student, source="")).run()
        for name in (method, *student_methods):
            await self._conclude(name)

    async def _conclude(self, method: str) -> None:
        """Freezes a method's learned graph, and writes it down."""
        topology, learner = self.graphs[method], self.learners[method]
        folder = self.context.recorder.run.learned(method).path
        for doubt in await learner.doubts():
            log.info("%s: %s", method, doubt)

        # Also in a resumed run that has nothing left to learn: the frozen wiring is in memory only.
        await topology.freeze()
        surrogate = await learner.surrogate()
        checked: dict[str, Any] = {}
        if surrogate:
            checked = surrogate._asdict() | {"senders": [topology.agents[sender] for sender in surrogate.senders]}
        groups = await self._questions_by_kinds() if topology.by_question else {}
        edge_scores = await learner.edge_scores(await topology.features(list(chain(*groups.values()))))
        write_edge_scores(folder, topology.agents, self.context.attack.attackers, edge_scores, checked)

        export_topology(folder, "topology", topology.common, topology.agents)
        for kinds, questions in sorted(groups.items()):
            wiring = await topology.wiring(*questions)
            export_topology(folder, f"topology-{kinds}", wiring, topology.agents)
        self._write_team(folder, topology)
        if self.context.on_learned:
            self.context.on_learned(method)

    async def _questions_by_kinds(self) -> dict[str, list[Question]]:
        """Groups the training questions of the first stage by the kinds of their evidence."""
        groups: dict[str, list[Question]] = {}
        for items in training_items(self.context.plan, self.context.dataset, 1):
            for item in items:
                question = await self.context.evidence.question(item)
                kinds = sorted({str(source.kind) for source in question.evidence})
                groups.setdefault("+".join(kinds) or "none", []).append(question)
        return groups

    def _write_team(self, folder: Path, topology: LearnedTopology) -> None:
        from experiments.running.autogen_team import write_team  # imports AutoGen, which nothing before needs

        plan = self.context.plan
        write_team(
            folder,
            topology.common,
            topology.agents,
            {role.name: role for role in (*plan.roles.team, *plan.roles.helpers)},
            plan.config.seed,
            plan.models,
            plan.config.agents,
        )


def export_topology(folder: Path, name: str, wiring: Wiring, agents: Sequence[str]) -> None:
    """Writes a learned graph as GraphML and as networkx's node-link JSON."""
    graph = graph_of(wiring, agents)
    nx.write_graphml(graph, folder / f"{name}.graphml")
    write_atomically(folder / f"{name}.json", (json.dumps(nx.node_link_data(graph), indent=1) + "\n").encode())
