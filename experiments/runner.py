"""One run from its configuration to its report: launch, learn, evaluate, summarise."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import psutil

from actors.cluster import Cluster
from actors.completions.store import CompletionStore
from actors.messages import Usage
from actors.models import ModelGone
from actors.watch import ClusterError
from experiments import (
    judgements,
    recall,
    replay,
    summary,
    usage,
)
from experiments.config import Config, save
from experiments.data import make_dataset
from experiments.datasets.item import Dataset
from experiments.discussions import Agents
from experiments.errors import UserError
from experiments.evidence import Evidence
from experiments.figures import run as figures
from experiments.job import Job
from experiments.launch import COMPLETIONS, check, model_name, team_roles
from experiments.launched import launch_agents, launch_learner, wait
from experiments.methods import LEARNED, pairs
from experiments.planted import job as planted
from experiments.progress import Progress
from experiments.recorder import Recorder, RunFolder
from experiments.redundancy import summary as redundancy_summary
from experiments.redundancy import table as redundancy_table
from experiments.redundancy.measure import Redundancy, launch_learners
from experiments.report import run as report
from experiments.tables.evaluated import Evaluated
from experiments.tables.write import tell, write_tables
from experiments.tracking import Tracker
from retrieval.embed import make_encoder
from retrieval.folder import StoreError
from retrieval.store import Store

T = TypeVar("T")

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
    config.retrieval.web_file = config.retrieval.web_file and str(Path(config.retrieval.web_file).absolute())
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
        if config.job == "recall":
            dataset = make_dataset(config, cache)
            _recall(folder, dataset, open_store(config, dataset, cache), config.data.limit)
        elif config.job == "planted":
            planted.run(config, folder)
        else:
            _prune(config, folder, cache)
    except (ClusterError, StoreError, ModelGone) as error:
        raise UserError(str(error)) from error
    except BaseExceptionGroup as group:
        if mistake := first_of(UserError, group):
            raise mistake from None
        if gone := first_of(ModelGone, group):
            raise UserError(f"{gone}; what is recorded stays: go on with resume={folder.path}") from group
        raise


def first_of(kind: type[T], group: BaseExceptionGroup[BaseException]) -> T | None:
    """The first exception of a kind in a group: what goes wrong in one of many discussions comes wrapped."""
    for error in group.exceptions:
        found = first_of(kind, error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, kind):
            return found
    return None


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


def _prune(config: Config, folder: RunFolder, cache: Path) -> None:
    roles = team_roles(config)
    check(config)
    recorded, answering = None, model_name(config.model)
    if config.model.kind == "replay":
        recorded, then = replay.open_recorded(config)
        answering = replay.answering(then)
        replay.copy_learning(recorded.folder, folder)
        dataset = replay.replayed_dataset(config, then, cache)
    else:
        dataset = make_dataset(config, cache)
        check_room(Path(config.output), actors=len(roles) + 3 + config.model.replicas)
    if config.completions.reuse:
        # A folder that cannot be used is said here, once, and not in the log of every agent's process.
        CompletionStore(str(cache / COMPLETIONS), int(config.completions.disk_gb * 1e9)).close()
    wandb = config.wandb
    tracker = Tracker(folder.path, asdict(config), wandb.mode, wandb.project, wandb.group)
    try:
        with Recorder(folder) as recorder, Cluster(config.ray) as cluster:
            evidence = Evidence(open_store(config, dataset, cache), config.retrieval)
            with Progress() as progress:
                asyncio.run(_discuss(config, dataset, evidence, cluster, recorder, tracker, progress, cache, recorded))
        if config.job == "redundancy":
            redundancy_table.conclude(folder, tracker)
        else:
            metrics, spent = conclude(config, folder, dataset, tracker, answering)
            _show(metrics, dataset.metric, spent)
            told = write_tables(folder.path, config.experiment, [Evaluated.of(folder, {}, metrics)], config.seed)
            tell(folder.path, told)
    except BaseException:
        tracker.finish(exit_code=1)
        raise
    tracker.finish()


async def _discuss(
    config: Config,
    dataset: Dataset,
    evidence: Evidence,
    cluster: Cluster,
    recorder: Recorder,
    tracker: Tracker,
    progress: Progress,
    cache: Path,
    recorded: Agents | None,
) -> None:
    roles = team_roles(config)
    agents = launch_agents(config, roles, cluster, cache, recorded)
    if config.job == "redundancy":
        learners = launch_learners(config, roles, cluster)
        await wait(cluster, progress)
        job = Job(config, dataset, evidence, roles, agents, None, recorder, tracker, progress)
        found = await Redundancy(job, learners).run()
        redundancy_summary.write(job, found)
        return
    learner = launch_learner(config, roles, cluster) if set(LEARNED) & set(config.methods) else None
    await wait(cluster, progress)
    await Job(config, dataset, evidence, roles, agents, learner, recorder, tracker, progress).run()


def conclude(
    config: Config, folder: RunFolder, dataset: Dataset, tracker: Tracker, answering: str
) -> tuple[summary.Metrics, Usage]:
    """metrics.json, figures and the report, all from the records; `answering` is the model's name.

    Returns the metrics and what the run has spent.
    """
    about = summary.About(
        experiment=config.experiment,
        model=answering,
        dataset=config.data.kind,
        metric=dataset.metric,
        methods=tuple(config.methods),
        pairs=pairs(config.methods),
        seed=config.seed,
    )
    metrics = summary.summarise(folder, about)
    if config.judge.kind != "none":
        metrics["judged"] = judgements.summarise(
            folder, model_name(config.judge), about.methods, about.pairs, config.seed
        )
    summary.write(folder, metrics)
    drawn = figures.draw(folder, metrics, dataset.metric)
    spent = usage.total(folder)
    tracker.summary(metrics, drawn, spent)
    report.write(folder, metrics, dataset.metric, config.methods[-1], drawn)
    return metrics, spent


def _show(metrics: summary.Metrics, metric: str, spent: Usage) -> None:
    print()
    judged = judgements.notes(metrics["judged"]) if "judged" in metrics else ()
    summary.show(metrics, metric, further=(*judged, *usage.notes(spent)))


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
