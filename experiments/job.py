"""The main job while its actors live: learn, evaluate every method, and judge the answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx

from actors.messages import Role, Trace
from experiments import judgements
from experiments.attacks.attack import Attack
from experiments.attacks.edge_scores import write_edge_scores
from experiments.attacks.metrics import Harm
from experiments.calibration import calibrate
from experiments.config import Config
from experiments.datasets.item import Dataset, Item
from experiments.discussions import in_order
from experiments.evidence import Evidence
from experiments.knowledge import triples_given
from experiments.launch import attackable, closing_roles
from experiments.launched import Launched
from experiments.learning import Training
from experiments.library import LabelledLibrary
from experiments.methods import CALIBRATED, LEARNED, learner_of, make_method
from experiments.progress import Progress
from experiments.recorder import Recorder
from experiments.systems import SYSTEMS
from experiments.tracking import Tracker
from experiments.usage import UsageLog
from experiments.web import open_web
from topologies.graphs import to_networkx
from topologies.pruned import M3Prune
from topologies.topology import Topology
from topologies.wiring import Edges


@dataclass
class Job:
    """What a run holds while its agents discuss: `agents` and a `learner` that others have launched.

    `learner` has the methods of `topologies.learner.Learner` as coroutines.
    """

    config: Config
    dataset: Dataset
    evidence: Evidence
    roles: Sequence[Role]
    agents: Launched
    learner: Any
    recorder: Recorder
    tracker: Tracker
    progress: Progress

    def __post_init__(self) -> None:
        names = [role.name for role in self.roles]
        compromised = attackable(self.config, self.roles)
        self.attack = Attack(self.config.attack, compromised, self.dataset, self.config.seed)
        self.topology = M3Prune(names, self.learner, self.config.topology.inference, learner_of(self.config.methods))
        self.usage = UsageLog(self.recorder.run, self.agents.spent)

    async def run(self) -> None:
        """Learn, evaluate and judge; what a killed run has done is not done again."""
        config, agents = self.config, self.topology.agents
        watched: Sequence[Trace] = ()
        if set(CALIBRATED) & set(config.methods):
            with self.usage.phase("watching unlabelled discussions"):
                watched = await self._calibrate()
        if set(LEARNED) & set(config.methods):
            await self.learn()
        questions = sum(1 for _ in self.dataset.evaluate())
        rounds, dropped = config.topology.rounds, config.defence.dropped
        asked = self.dataset.evaluate() if set(SYSTEMS) & set(config.methods) else ()
        library = LabelledLibrary(
            self.evidence, asked, open_web(config, self.recorder.run.path), triples_given(self.dataset)
        )
        for name in config.methods:
            if name in SYSTEMS:
                method = SYSTEMS[name].make(name, library, config)
            else:
                method = make_method(name, agents, rounds, config.seed, self.topology, watched, dropped)
            with self.usage.phase(f"evaluating {name}"):
                await self.evaluate(method, questions)
        if self.agents.judge:
            items = {item.question.id: item for item in self.dataset.evaluate()}
            with self.usage.phase("judging"):
                await judgements.judge_run(
                    self.recorder.run, self.agents.judge, items, config.concurrency, self.progress
                )

    async def _calibrate(self) -> Sequence[Trace]:
        about = self.config, self.topology.agents, self.dataset, self.evidence, self.agents.team
        return await calibrate(*about, self.attack, self.recorder, self.progress)

    async def learn(self) -> None:
        """Optimise and prune the graph, and write down what is left of it."""
        training = Training(
            self.config,
            self.dataset,
            self.evidence,
            self.agents.team,
            self.attack,
            self.topology,
            self.learner,
            [role.modality for role in self.roles],
            self.recorder,
            self.tracker,
        )
        await training.run(self.progress, self.usage)
        await self.topology.freeze()
        folder, scores = self.recorder.run.path, await self.learner.edge_scores()
        write_edge_scores(folder, self.topology.agents, self.attack.attackers, scores)
        export_topology(folder, self.topology)
        self._export_team()

    async def evaluate(self, method: Topology, questions: int) -> None:
        """Every evaluated question once, along one topology."""
        done = self.recorder.done(method.method)

        async def answer(numbered: tuple[int, Item]) -> Trace:
            number, item = numbered
            question = await self.evidence.question(item)
            team, seed = self.agents.team, self.config.seed
            return await self.attack.hold(method, item, question, team, seed, phase="evaluate", number=number)

        bar = self.progress.phase(f"evaluating {method.method}", total=questions, done=len(done))
        items = (pair for pair in enumerate(self.dataset.evaluate()) if pair[1].question.id not in done)
        async for (_, item), trace in in_order(items, answer, self.config.concurrency):
            score, harm = self.dataset.score(item, trace.answer), Harm.of(trace, item, self.dataset)
            self.recorder.evaluated(trace, item, score, harm)
            bar.advance()

    def _export_team(self) -> None:
        from experiments.graph_flow import write_team  # imports AutoGen, which nothing before this point needs

        roles = {role.name: role for role in (*self.roles, *closing_roles(self.config))}
        write_team(self.recorder.run.path, self.topology.wiring, self.topology.agents, roles, self.config)


def export_topology(folder: Path, topology: M3Prune) -> None:
    """The learned graph as GraphML and as networkx's node-link JSON."""
    wiring = topology.wiring
    edges = Edges(wiring.spatial[-1], wiring.temporal[-1])
    probabilities = None
    if wiring.spatial_p is not None and wiring.temporal_p is not None:
        probabilities = Edges(wiring.spatial_p, wiring.temporal_p)
    graph = to_networkx(edges, topology.agents, probabilities)
    nx.write_graphml(graph, folder / "topology.graphml")
    (folder / "topology.json").write_text(json.dumps(nx.node_link_data(graph), indent=1) + "\n")
