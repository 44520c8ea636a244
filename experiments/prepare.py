"""Prepares a run or a sweep: checks it before a run folder is made, or counts it where it is a dry run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from experiments.config.config import Config, is_sweep
from experiments.config.loading import Overrides
from experiments.jobs import plan_of
from experiments.planning.unused import check_used
from experiments.records.recorder import RunFolder


@dataclass(frozen=True)
class Prepared:
    """A run or a sweep that is ready to start.

    work: the run in its folder. Returns False if trials of a sweep failed; a single run raises instead.
    """

    config: Config
    work: Callable[[RunFolder], bool | None]


def prepare(config: Config, overrides: Overrides | None) -> Prepared | None:
    """Prepares the run or the sweep of a configuration; a dry run is counted and printed, and gives None.

    Raises:
        UserError: anything that would end the run at its start or later.
    """
    # Imported where they are needed, so that a run does not wait for the sweep's imports.
    if is_sweep(config):
        if config.dry_run:
            from experiments.dry_run.dry_sweep import dry_run_sweep

            dry_run_sweep(config, overrides)
            return None
        from experiments.sweeps.sweep import run_sweep

        return Prepared(config, lambda folder: run_sweep(config, folder, overrides))
    plan = plan_of(config)
    if overrides is not None:
        check_used(overrides, plan, config)
    if config.dry_run:
        from experiments.dry_run.dry_run import dry_run

        dry_run(plan)
        return None
    from experiments.runner import run

    return Prepared(config, lambda folder: run(plan, folder))
