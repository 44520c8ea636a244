"""One run from its configuration to its report: launch, learn, evaluate, summarise."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, assert_never

from actors.completions.completion_store import CompletionStore
from actors.errors import AgentLost, ClusterError, ModelGone, StoreError, UserError, first_of
from actors.runtime.runtime import Runtime
from actors.spawned import cores
from experiments.analysis.tables.formats import print_paths, write_tables
from experiments.analysis.tables.measured import Evaluated
from experiments.config.config import Config
from experiments.config.loading import save
from experiments.config.references import kept, resumption
from experiments.config.secrets import check_exported
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.run_files import discard, is_recorded
from experiments.records.tracking import Tracker
from experiments.running import replay
from experiments.running.abilities import check_abilities, describe, role_models
from experiments.running.conclude import about_methods, conclude, draws_figures, show
from experiments.running.context import RunContext
from experiments.running.extracting import check_extraction
from experiments.running.job import Job
from experiments.running.launch import (
    check,
    launched_roles,
    learned_methods,
    processes,
    team_roles,
)
from experiments.running.launched import Launched, check_learners, launch_agents, launch_learners, runtime_started, wait
from experiments.running.models import COMPLETIONS, models_named
from experiments.running.opening import check_questions, check_room, open_cache, open_dataset, open_evidence, open_store
from experiments.studies import recall
from experiments.studies.behaviour import behaviour_table
from experiments.studies.behaviour.measure import Behaviour
from experiments.studies.behaviour.measure import check as check_behaviour
from experiments.studies.redundancy import redundancy_summary, redundancy_table
from experiments.studies.redundancy.removal import Redundancy
from topologies.topology import Team

log = logging.getLogger(__name__)

LOST = (ModelGone, ClusterError, StoreError, AgentLost)  # what a run cannot go on without; it can be resumed


def open_folder(config: Config) -> RunFolder:
    """The run folder to resume, or a new one that holds the configuration."""
    if config.resume:
        return RunFolder.open(Path(config.resume))
    # Before anything is written down.
    check_exported(config)
    # Absolute, so that the run can be resumed from another working directory.
    config.output = str(Path(config.output).absolute())
    # Beside the runs by default, so that all runs of one output folder share indexes and completions.
    config.cache = str(Path(config.cache or Path(config.output) / "cache").absolute())
    config.data.root = config.data.root and str(Path(config.data.root).absolute())
    config.retrieval.web_file = config.retrieval.web_file and str(Path(config.retrieval.web_file).absolute())
    folder = RunFolder.create(Path(config.output), config.experiment)
    # Before anything runs: a run that dies at once can be resumed all the same.
    try:
        save(config, folder.config)
    except OSError:
        discard(folder.path, [])
        raise
    return folder


def run(config: Config, folder: RunFolder) -> None:
    """Does the job of a configuration in its folder, from the point where it was left.

    Raises:
        UserError: everything that the user can put right; what is recorded stays and can be resumed.
    """
    try:
        cache = open_cache(config)
        match config.job:
            case "recall":
                _recall(config, folder, cache)
            case "planted":
                _check_drawing()
                _planted(config, folder)
            case "prune" | "redundancy" | "behaviour":
                _prune(config, folder, cache)
            case other:
                assert_never(other)
    except LOST as error:
        raise UserError(f"{error}{_stays(config, folder)}") from error
    # Task groups wrap what a task raised; the user's own mistake in it is all that has to be said.
    except BaseExceptionGroup as group:
        if user_error := first_of(UserError, group):
            raise user_error from user_error.__cause__
        for lost in LOST:
            if gone := first_of(lost, group):
                raise UserError(f"{gone}{_stays(config, folder)}") from group
        raise


def _check_drawing() -> None:
    """Raises UserError where the figures of the run's end cannot be drawn."""
    from experiments.analysis.figures import style  # imports matplotlib

    style.check()


def _stays(config: Config, folder: RunFolder) -> str:
    """How to go on, where there is anything to go on from."""
    recorded = is_recorded(folder.path)
    return f"; what is recorded stays: go on with {resumption(config, folder.path)}" if recorded else ""


def _recall(config: Config, folder: RunFolder, cache: Path) -> None:
    dataset = open_dataset(config, cache)
    store = open_store(config, dataset, cache)
    with Progress() as progress:
        rows = recall.recall_report(dataset, store, limit=config.data.limit, progress=progress, seed=config.seed)
    (folder.path / "recall.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    print()
    recall.table(rows).print()


def _planted(config: Config, folder: RunFolder) -> None:
    from experiments.studies.planted import testbed  # imports PyTorch

    testbed.check(config)
    with _tracked(config, folder) as tracker:
        testbed.run(folder, config, tracker)


def _prune(config: Config, folder: RunFolder, cache: Path) -> None:
    # The cheap checks come first: opening a data set may take minutes.
    roles = team_roles(config)
    check(config)
    for method in learned_methods(config):
        # Read for its errors: the learner that goes on from it is launched much later.
        folder.learned(method).checkpoint()
    if config.job == "behaviour":
        check_behaviour(config)
    else:
        # Settings that one of them cannot have are not to be noticed only after Ray has started.
        stages = [learner.stages for learner in check_learners(config, roles).values()]
    recorded, answering = None, models_named(config)
    if config.model.kind == "replay":
        recorded, recorded_config = replay.open_recorded(config)
        answering = replay.answering(recorded_config)
        # Before a recorder opens, which looks for a checkpoint and goes on from it.
        replay.copy_learning(recorded.folder, folder)
        dataset = replay.replayed_dataset(config, recorded_config, cache)
    else:
        dataset = open_dataset(config, cache)
        check_extraction(config, dataset)
        if config.job != "behaviour":
            check_questions(config, dataset, max(stages, default=0))
        check_room([Path(config.output), cache], actors=processes(config, roles) + bool(learned_methods(config)))
    if config.completions.reuse:
        # A folder that cannot be used is said here, once, and not in the log of every agent's process.
        CompletionStore(str(cache / COMPLETIONS), int(config.completions.disk_gb * 1e9)).close()
    with _tracked(config, folder) as tracker:
        # The recorder first: a folder that is in use is refused before any process is started.
        with (
            Recorder(folder) as recorder,
            Progress() as progress,
            runtime_started(config, progress) as runtime,
        ):
            # All processes start side by side, and while an index is opened or built here.
            # Those that take longest to start come first.
            learners = {} if config.job == "behaviour" else launch_learners(config, roles, runtime)
            agents = launch_agents(config, roles, runtime, cache, recorded, say=progress.print)
            # What takes this process seconds comes while the others start.
            if draws_figures(config) or config.job == "redundancy":
                _check_drawing()
            evidence = open_evidence(config, dataset, cache)
            context = RunContext(config, roles, dataset, evidence, recorder, tracker, progress)
            asyncio.run(_discuss(context, runtime, agents, learners, recorded))
        at_once = cores() if draws_figures(config) else 0
        if config.job == "redundancy":
            redundancy_table.conclude(folder, tracker)
        elif config.job == "behaviour":
            about = behaviour_table.about(config, dataset, answering)
            behaviour_table.show(folder, *conclude(config, folder, about, tracker, at_once), about)
        else:
            # The agents are gone by now: everything that follows is made from the records.
            metrics, spent = conclude(config, folder, about_methods(config, dataset, answering), tracker, at_once)
            show(metrics, dataset.metric, spent)
            table_files = write_tables(folder.path, config.experiment, [Evaluated.of(folder, {}, metrics)], config.seed)
            print_paths(folder.path, table_files)


async def _discuss(
    context: RunContext,
    runtime: Runtime,
    agents: Launched,
    learners: Mapping[str, Any],
    recorded: Team | None,
) -> None:
    """Everything that needs agents: wait for them, and do the job."""
    config = context.config
    await _wait(context, runtime, recorded)
    job = Job(context, agents, learners)
    if config.job != "prune":
        await job.prepare()
        context = job.context
    if config.job == "redundancy":
        redundancy_summary.write(context, await Redundancy(job).run())
    else:
        await (Behaviour(job) if config.job == "behaviour" else job).run()


async def _wait(context: RunContext, runtime: Runtime, recorded: Team | None) -> None:
    """Waits until all is up, and checks that the model can do what the run asks of it."""
    await wait(runtime, context.progress)
    if recorded is None:
        config, abilities = context.config, await runtime.abilities()
        names = dict.fromkeys(role.played for role in launched_roles(config, context.roles))
        others = await role_models(config, names, runtime)
        check_abilities(config, abilities, context.recorder.run, others)
        for line in describe(config, abilities, others):
            context.progress.print(line)
    context.progress.print(kept(context.config, context.recorder.run.path))


@contextmanager
def _tracked(config: Config, folder: RunFolder) -> Iterator[Tracker]:
    """The run's tracker; at the end it gets the run's exit code."""
    wandb = config.wandb
    tracker = Tracker(folder.path, asdict(config), wandb.mode, wandb.project, wandb.group)
    try:
        yield tracker
    # An interrupted run has not gone well either.
    except BaseException:
        tracker.finish(exit_code=1)
        raise
    tracker.finish()
