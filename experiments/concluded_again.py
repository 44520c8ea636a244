"""Commands that conclude a finished run again, from its records."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from actors.errors import UserError, visible
from experiments.attribution.opened_run import OpenedRun
from experiments.config.config import Config
from experiments.config.loading import named_again
from experiments.records import sinks
from experiments.records.recorder import RunFolder, check_scores
from experiments.records.tracking import Tracker, WandbSettings
from experiments.running.conclude import RecordedRun
from experiments.running.discussion_job import DiscussionJob

# What a run of agents writes first when its last discussion has ended.
FINISHED = ("metrics.json", "redundancy.json")


def report(folder: str, options: Sequence[str]) -> int:
    """Makes metrics, figures, report and tables of a finished run again, from its records."""
    return _conclude_again(folder, options, lambda config: WandbSettings(mode="disabled"))


def track(folder: str, options: Sequence[str]) -> int:
    """Sends a finished run to W&B. Its figures, report and tables are made again."""

    def settings_of(config: Config) -> WandbSettings:
        if config.wandb.mode == "disabled":
            raise UserError(f"track={folder}: wandb.mode=disabled sends nothing; add wandb.mode=offline or online")
        config.wandb.check_key()
        return config.wandb

    return _conclude_again(folder, options, settings_of)


def _conclude_again(folder: str, options: Sequence[str], settings_of: Callable[[Config], WandbSettings]) -> int:
    """Concludes a run again. settings_of: of W&B, by the run's configuration with these options.

    Raises UserError for a run that is not finished, or that concludes nothing, and for scores of other answers.
    """
    run = RunFolder.open(Path(folder).expanduser())
    opened_run = OpenedRun(run, options)
    plan = opened_run.plan
    is_finished = any((run.path / name).is_file() for name in FINISHED)
    if not isinstance(plan.job, DiscussionJob) or plan.config.is_sweep or not is_finished:
        raise UserError(f"{run.path} is no finished run of agents: go on with it by resume=, or name another")
    check_scores(run, plan.job.scoring(plan, opened_run.dataset))
    with sinks.failures() as failures:
        settings = settings_of(named_again(options, plan.config))
        with Tracker(run.path, asdict(plan.config), settings) as tracker:
            recorded_run = RecordedRun(plan, run, opened_run.dataset, opened_run.titles(), tracker)
            complete = plan.job.conclude(recorded_run)
    for line in failures.lines:
        print(visible(line))
    return 0 if complete and not failures.lines else 1
