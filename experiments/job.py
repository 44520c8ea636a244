"""The main job while its actors live: launch them, learn, evaluate every method, and judge the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx

from actors.cluster import Cluster
from actors.messages import Trace, Usage
from actors.roles import Role
from experiments import judgements
from experiments.config import Config, ModelSettings
from experiments.datasets.item import Dataset, Item
from experiments.discussions import Agents, hold, in_order
from experiments.errors import UserError
from experiments.evidence import Evidence
from experiments.judge import Judge
from experiments.launch import closing_roles, learner_options, model_maker, model_name, replicas, reuse
from experiments.learning import Training
from experiments.methods import make_method
from experiments.progress import Progress
from experiments.recorder import Recorder
from experiments.tracking import Tracker
from experiments.usage import UsageLog
from topologies.graphs import to_networkx
from topologies.learner import Learner
from topologies.pruned import M3Prune
from topologies.topology import Topology
from topologies.wiring import Edges

LEARNED = ("m3prune", "random")  # methods that need the learned graph


@dataclass
class Job:
    """What a run holds while its agents discuss. `recorded` answers in place of agents and model (a replay)."""

    config: Config
    dataset: Dataset
    evidence: Evidence
    roles: Sequence[Role]
    cluster: Cluster
    recorder: Recorder
    tracker: Tracker
    progress: Progress
    cache: Path
    recorded: Agents | None = None
    _judge: Judge | None = field(default=None, init=False)

    async def run(self) -> None:
        """Launch the actors, learn, evaluate and judge; what a killed run has done is not done again."""
        config = self.config
        modalities = [role.modality for role in self.roles]
        options = learner_options(config)
        try:
            Learner(modalities, **options)
        except ValueError as error:
            raise UserError(str(error)) from error
        team = self._launch()
        learner = self.cluster.launch(Learner, modalities, **options)
        await self._wait()
        self._usage = UsageLog(self.recorder.run, lambda: self._spent(team))
        topology = M3Prune([role.name for role in self.roles], learner, config.topology.inference)
        if set(LEARNED) & set(config.methods):
            training = Training(
                config, self.dataset, self.evidence, team, topology, learner, modalities, self.recorder, self.tracker
            )
            await training.run(self.progress, self._usage)
            await topology.freeze()
            export_topology(self.recorder.run.path, topology)
            self._export_team(topology)
        questions = sum(1 for _ in self.dataset.evaluate())
        for name in config.methods:
            method = make_method(name, topology.agents, config.topology.rounds, config.seed, topology)
            with self._usage.phase(f"evaluating {name}"):
                await self._evaluate(method, team, questions)
        if self._judge:
            items = {item.question.id: item for item in self.dataset.evaluate()}
            with self._usage.phase("judging"):
                await judgements.judge_run(self.recorder.run, self._judge, items, config.concurrency, self.progress)

    def _launch(self) -> Agents:
        """The team and the judge, each over its own pool of replicas."""
        config = self.config
        judge = config.judge
        if judge.kind != "none":
            self._launch_pool("judge", judge)
            model = self.cluster.model(reuse(config, judge, self.cache), pool="judge")
            self._judge = Judge(model, model_name(judge))
        if self.recorded:
            return self.recorded
        self._launch_pool("model", config.model)
        kept = reuse(config, config.model, self.cache)
        return self.cluster.launch_team((*self.roles, *closing_roles(config)), config.agents, kept)

    def _launch_pool(self, pool: str, model: ModelSettings) -> None:
        make_model = model_maker(model, self.config.reader, pool)
        number, gpus = replicas(model, self.cluster.gpus)
        self.cluster.launch_replicas(make_model, number, model.cpus, gpus, model.capacity, pool)

    def _export_team(self, topology: M3Prune) -> None:
        from experiments.graph_flow import write_team  # imports AutoGen, which nothing before this point needs

        roles = {role.name: role for role in (*self.roles, *closing_roles(self.config))}
        write_team(self.recorder.run.path, topology.wiring, topology.agents, roles, self.config)

    async def _wait(self) -> None:
        def left(loading: int) -> str:
            return f"{loading} {'replica' if loading == 1 else 'replicas'} still loading" if loading else ""

        loading = left(self.cluster.loading)
        bar = self.progress.phase("starting replicas and agents", total=self.cluster.starting, note=loading)

        def started(kind: str, loading: int) -> None:
            bar.advance(note=left(loading))

        await self.cluster.wait_until_ready(started, news=self.progress.tell)

    def _spent(self, team: Agents) -> Mapping[str, Usage]:
        return {**team.usage, **({"judge": self._judge.usage} if self._judge else {})}

    async def _evaluate(self, method: Topology, team: Agents, questions: int) -> None:
        done = self.recorder.done(method.method)

        async def answer(item: Item) -> Trace:
            return await hold(method, await self.evidence.question(item), team, self.config.seed)

        bar = self.progress.phase(f"evaluating {method.method}", total=questions, done=len(done))
        items = (item for item in self.dataset.evaluate() if item.question.id not in done)
        async for item, trace in in_order(items, answer, self.config.concurrency):
            self.recorder.evaluated(trace, item, self.dataset.score(item, trace.answer))
            bar.advance()


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
