"""Prepares a run or a sweep, and runs a plan in its folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.errors import AgentLost, ClusterError, ModelGone, StoreError, TooManyFailures, UserError, first_of
from experiments.config.config import Config
from experiments.config.loading import Overrides
from experiments.config.references import resumption
from experiments.config.saved import save
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder
from experiments.records.run_files import discard, is_recorded
from experiments.records.start import write_start
from experiments.unused import plan_run

# They end a run, which can be resumed.
LOST = (ModelGone, ClusterError, StoreError, AgentLost, TooManyFailures)


def prepare(config: Config, overrides: Overrides | None) -> Callable[[RunFolder], bool] | None:
    """Prepares a run as `prepared` does. A dry run makes its data in a cache that is there, or in a temporary one."""
    if not config.dry_run or os.path.isdir(config.cache_folder):
        return prepared(config, overrides)
    with TemporaryDirectory() as cache:
        return prepared(replace(config, cache=cache), overrides)


def prepared(config: Config, overrides: Overrides | None) -> Callable[[RunFolder], bool] | None:
    """Checks a run or a sweep before its folder is made. A dry run is counted and printed.

    Returns the work in the folder, which returns False where trials of a sweep or too many turns failed; None for a dry
    run. Raises UserError for anything that would end the run at its start or later.
    """
    if config.explain.answers and (config.is_sweep or config.replays):
        raise UserError("explain.answers: a sweep or a replay explains nothing; leave it out, and explain=<run> later")
    # Imported where they are needed, so that a run does not wait for the sweep's imports.
    if config.is_sweep:
        from experiments.sweeps.expansion import plan_sweep

        if not config.dry_run:
            from experiments.sweeps.sweep import run_sweep

            return lambda folder: run_sweep(plan_sweep(config, overrides), folder)
        from experiments.dry_run.dry_sweep import dry_run_sweep

        dry_run_sweep(plan_sweep(config, overrides))
        return None
    plan = plan_run(config, overrides)
    if not config.dry_run:
        return lambda folder: run(plan, folder)
    from experiments.dry_run.dry_run import dry_run

    dry_run(plan)
    return None


def open_folder(config: Config, arguments: Sequence[str] = ()) -> RunFolder:
    """Opens the run folder to resume, or makes a new one that holds the configuration. Records the command line."""
    if config.resume:
        folder = RunFolder.open(Path(config.resume), resumes=True)
    else:
        folder = RunFolder.create(Path(config.output), config.experiment)
    # Before anything runs: a run that dies at once can be resumed all the same.
    try:
        if not config.resume:
            save(config, folder.config)
        write_start(folder.path, arguments)
    except (OSError, UserError):
        if not config.resume:
            discard(folder.path, [])
        raise
    return folder


def run(plan: Plan, folder: RunFolder) -> bool:
    """Does the job of a plan in its folder. Returns False where too much failed for a conclusion.

    Raises UserError for everything that the user can put right; records stay, and the run can be resumed.
    """

    def resume_line() -> str:
        if not is_recorded(folder.path):
            return ""
        return f"records stay: go on with: {resumption(plan.config, folder.path)}"

    with reason_reported(resume_line):
        is_conclusive = plan.job.run(plan, folder)
    return is_conclusive


@contextmanager
def reason_reported(remedy: Callable[[], str] = str) -> Iterator[None]:
    """Turns an error that ends a run into a UserError with its reason. remedy: returns the end of the line."""
    try:
        yield
    # Task groups wrap what a task raised; the user's own mistake in it is all that has to be reported.
    except (*LOST, BaseExceptionGroup) as error:
        group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
        user_error = first_of(UserError, group)
        if user_error is not None:
            raise user_error from user_error.__cause__
        for lost in LOST:
            reason = first_of(lost, group)
            if reason is not None:
                raise UserError("; ".join(filter(None, (str(reason), remedy())))) from error
        raise
