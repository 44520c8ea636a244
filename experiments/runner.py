"""One run from its configuration to its report: launch, learn, evaluate, summarise."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import psutil

from actors.cluster import Cluster, ClusterError
from actors.messages import Trace
from actors.roles import DECISION, SINGLE, Role
from actors.team import Team
from experiments import figures, recall, report, summary
from experiments.config import Config, save
from experiments.data import make_dataset
from experiments.datasets.item import Dataset, Item
from experiments.discussions import hold, in_order
from experiments.errors import UserError
from experiments.evidence import Evidence
from experiments.launch import model_maker, team_roles
from experiments.learning import Training
from experiments.methods import PAIRS, check_methods, make_method
from experiments.progress import Progress
from experiments.recorder import Recorder, RunFolder
from experiments.tracking import Tracker
from retrieval.embed import make_encoder
from retrieval.index import StoreError
from retrieval.store import Store
from topologies.graphs import to_networkx
from topologies.learner import Learner
from topologies.pruned import M3Prune
from topologies.topology import Topology
from topologies.wiring import Edges

log = logging.getLogger(__name__)

ACTOR_MB = 150  # an idle actor's process
FREE_DISK_MB = 500


def open_folder(config: Config) -> RunFolder:
    """The folder to go on with, or a new one that holds the configuration."""
    if config.resume:
        return RunFolder.open(Path(config.resume))
    # Absolute, so that the run can be resumed from another working directory.
    config.output = str(Path(config.output).absolute())
    config.cache = str(Path(config.cache or Path(config.output) / "cache").absolute())
    config.data.root = config.data.root and str(Path(config.data.root).absolute())
    folder = RunFolder.create(Path(config.output), config.experiment)
    save(config, folder.config)
    return folder


def run(config: Config, folder: RunFolder) -> None:
    """Do the job of a configuration in its folder, from wherever it was left.

    Raises:
        UserError: everything that the user can put right; what is recorded stays and can be resumed.
    """
    try:
        cache = open_cache(config)
        dataset = make_dataset(config, cache)
        if config.job == "recall":
            _recall(folder, dataset, open_store(config, dataset, cache), config.data.limit)
        else:
            _prune(config, folder, dataset, cache)
    except (ClusterError, StoreError) as error:
        raise UserError(str(error)) from error


def open_cache(config: Config) -> Path:
    cache = Path(config.cache or Path(config.output) / "cache")
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write in cache={cache}: {error}; choose another cache= or output=") from error
    return cache


def open_store(config: Config, dataset: Dataset, cache: Path) -> Store:
    try:
        encoder = make_encoder(config.retrieval.encoder)
    except (ModuleNotFoundError, ValueError, OSError) as error:
        raise UserError(str(error)) from error
    return Store.open(cache / "indexes", dataset.corpus, encoder)


def _recall(folder: RunFolder, dataset: Dataset, store: Store, limit: int | None) -> None:
    with Progress() as progress:
        rows = recall.recall_report(dataset, store, limit=limit, progress=progress)
    (folder.path / "recall.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    print(recall.table(rows))


def _prune(config: Config, folder: RunFolder, dataset: Dataset, cache: Path) -> None:
    roles = team_roles(config)
    check_methods(config.methods)
    check_room(Path(config.output), actors=len(roles) + 3 + config.model.replicas)
    wandb = config.wandb
    tracker = Tracker(folder.path, asdict(config), wandb.mode, wandb.project, wandb.group)
    try:
        with Recorder(folder) as recorder, Cluster(config.ray) as cluster:
            evidence = Evidence(open_store(config, dataset, cache), config.retrieval)
            with Progress() as progress:
                run = Run(config, dataset, evidence, roles, cluster, recorder, tracker, progress)
                asyncio.run(run.discuss())
        _conclude(config, folder, dataset, tracker)
    except BaseException:
        tracker.finish(exit_code=1)
        raise
    tracker.finish()


def _conclude(config: Config, folder: RunFolder, dataset: Dataset, tracker: Tracker) -> None:
    """metrics.json, the table, figures and the report, all from the records."""
    about = summary.About(
        experiment=config.experiment,
        model=config.model.name or config.model.kind,
        dataset=config.data.kind,
        metric=dataset.metric,
        methods=tuple(config.methods),
        pairs=tuple(pair for pair in PAIRS if set(pair) <= set(config.methods)),
        seed=config.seed,
    )
    metrics = summary.summarise(folder, about)
    summary.write(folder, metrics)
    drawn = figures.draw(folder, metrics, dataset.metric)
    tracker.summary(metrics, drawn)
    report.write(folder, metrics, dataset.metric, config.methods[-1], drawn)
    print()
    summary.show(metrics, dataset.metric)


def check_room(output: Path, actors: int) -> None:
    """Raises UserError when memory or disk would run out before the run does."""
    free_mb = psutil.virtual_memory().available // 2**20
    if free_mb < actors * ACTOR_MB:
        raise UserError(
            f"{free_mb} MB of memory are free and {actors} actors need about {actors * ACTOR_MB} MB: close other "
            "programs, or use fewer roles (topology.text, topology.visual) and model.replicas"
        )
    disk_mb = shutil.disk_usage(output).free // 2**20
    if disk_mb < FREE_DISK_MB:
        raise UserError(f"{disk_mb} MB are free in {output}, expected {FREE_DISK_MB}: make room or set output=<folder>")


@dataclass
class Run:
    """What a run holds while its agents discuss."""

    config: Config
    dataset: Dataset
    evidence: Evidence
    roles: Sequence[Role]
    cluster: Cluster
    recorder: Recorder
    tracker: Tracker
    progress: Progress

    async def discuss(self) -> None:
        """Launch the actors, learn, and evaluate every method; what a killed run has done is not done again."""
        config = self.config
        modalities = [role.modality for role in self.roles]
        make_model = model_maker(config)
        options = learner_options(config)
        try:
            Learner(modalities, **options)
        except ValueError as error:
            raise UserError(str(error)) from error
        cluster = self.cluster
        cluster.launch_replicas(make_model, config.model.replicas, config.model.cpus, config.model.gpus)
        team = cluster.launch_team((*self.roles, DECISION, SINGLE), config.agents)
        learner = cluster.launch(Learner, modalities, **options)
        bar = self.progress.phase("starting replicas and agents", total=cluster.starting)
        await cluster.wait_until_ready(bar.advance)
        topology = M3Prune([role.name for role in self.roles], learner, config.topology.inference)
        if {"m3prune", "random"} & set(config.methods):
            training = Training(
                config, self.dataset, self.evidence, team, topology, learner, modalities, self.recorder, self.tracker
            )
            await training.run(self.progress)
            await topology.freeze()
            export_topology(self.recorder.run.path, topology)
        questions = sum(1 for _ in self.dataset.evaluate())
        for name in config.methods:
            method = make_method(name, topology.agents, config.topology.rounds, config.seed, topology)
            await self._evaluate(method, team, questions)

    async def _evaluate(self, method: Topology, team: Team, questions: int) -> None:
        done = self.recorder.done(method.method)

        async def answer(item: Item) -> Trace:
            return await hold(method, await self.evidence.question(item), team, self.config.seed)

        bar = self.progress.phase(f"evaluating {method.method}", total=questions, done=len(done))
        items = (item for item in self.dataset.evaluate() if item.question.id not in done)
        async for item, trace in in_order(items, answer, self.config.concurrency):
            self.recorder.evaluated(trace, item, self.dataset.score(item, trace.answer))
            bar.advance()


def learner_options(config: Config) -> dict[str, Any]:
    """The learner's arguments, with what an ablation takes away."""
    settings = replace(config.learner)
    if config.ablation == "no_inter":
        settings.inter = False
    if config.ablation == "no_alignment":
        settings.align_weight = 0.0
    rounds = config.topology.rounds
    return {"rounds": rounds, "seed": config.seed, "settings": settings, "pruning": config.pruning}


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
