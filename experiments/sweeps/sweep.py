"""Runs a sweep, from its plan to its table. It launches what trials share, and runs them.

Every trial is an ordinary run folder in `trials/`; `trials.jsonl` has a TrialResult per finished trial.
"""

import fcntl
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from actors.errors import ClusterError, ModelGone, StoreError, UserError, visible
from actors.runtime.runtime import Runtime
from experiments.config import references
from experiments.config.config import may_change
from experiments.config.saved import read, save
from experiments.records.progress import Bar, Progress
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.trials import RESULTS, TRIALS, TrialResult, read_results, results_written
from experiments.running import inputs, launching, model_record, runtime_start
from experiments.sweeps.expansion import Sweep, Trial, groups
from experiments.sweeps.planted_learners import conclude_learners, explore_planted
from experiments.sweeps.sweep_results import conclude_sweep
from experiments.sweeps.trial_steps import Report

PROCESSES = 3  # idle actors' worth of memory that a trial's process takes
OUTLIVE_S = 30.0  # seconds that processes of a killed sweep get to end


def run_sweep(sweep: Sweep, folder: RunFolder) -> bool:
    """Runs the unfinished trials of a sweep, and sums up all of it. Returns False where trials have failed for good.

    Raises UserError for anything that the user can put right; finished trials stay and the sweep can be resumed.
    """
    planted = explore_planted(sweep.planted, folder.path) if sweep.planted else []
    with results_written(folder.path) as add:
        write_trials(sweep, folder.path)
        done = finished_trials(folder.path, sweep.trials)
        left = {trial.name: trial for trial in sweep.trials if trial.name not in done}
        for name in left:
            wait_for_writer(folder.path / TRIALS / name)
        try:
            failed = run_left(sweep, folder.path, add, left) if left else {}
        except (ClusterError, StoreError, ModelGone) as error:
            raise UserError(str(error)) from error
    # Also when nothing was left, so that resuming a finished sweep writes its tables again.
    further = conclude_learners(sweep.config, folder.path, planted)
    conclude_sweep(sweep, folder.path, failed, *further)
    for name, reason in failed.items():
        print(visible(f"failed: {name}: {reason}"))
    return not failed


def write_trials(sweep: Sweep, folder: Path) -> None:
    """Writes a run folder for each trial. All of them are one group in W&B."""
    for trial in sweep.trials:
        path = folder / TRIALS / trial.name
        trial.config.wandb.group = sweep.config.wandb.group or folder.name
        path.mkdir(parents=True, exist_ok=True)
        # A resumed sweep must not change the configuration of a trial that has begun.
        if (saved := path / "config.yaml").exists():
            before, now = read(saved).by_key, trial.config.by_key
            changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key) and not may_change(key))
            if changed:
                raise UserError(
                    f"trial {trial.name}: its config.yaml has another {', '.join(changed[:3])} than its sweep gives "
                    "it; restore the file from a copy, or start a new sweep"
                )
            if before == now:
                continue
        # The process that runs a trial reads this file and imports what it names: it is always the sweep's own.
        save(trial.config, saved)


def finished_trials(folder: Path, trials: Sequence[Trial]) -> set[str]:
    """Names of the trials that have ended. Raises UserError for a result that is of no trial of the sweep."""
    by_name = {trial.name: trial for trial in trials}
    done = set()
    for result in read_results(folder, stopped=True):
        trial = by_name.get(result.name)
        if trial is None:
            raise UserError(f"{folder / RESULTS}: the sweep has no trial {result.name!r}; start a new sweep")
        # As JSON holds them.
        given = json.loads(json.dumps([trial.seed, trial.values]))
        if result.name in done or [result.seed, result.values] != given:
            what = "is there twice" if result.name in done else "has another seed or other values"
            raise UserError(f"{folder / RESULTS}: {result.name} {what}; restore the file, or start a new sweep")
        done.add(result.name)
    return done


def wait_for_writer(trial: Path) -> None:
    """Waits until no process writes a trial's folder. Those of a killed sweep may outlive it by a moment."""
    records, until = trial / SCORES, time.monotonic() + OUTLIVE_S
    while records.exists() and time.monotonic() < until:
        # Opened anew each time: closing the file also releases the lock that was only taken as a test.
        with records.open("ab") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.1)


def run_left(
    sweep: Sweep, folder: Path, add: Callable[[TrialResult], object], left: Mapping[str, Trial]
) -> Mapping[str, str]:
    """Runs the trials that are left, by name, group by group; a group shares its agents. Ends all that it launched,
    even on errors. Returns the reasons of the trials that failed, by name."""
    config, total = sweep.config, len(sweep.trials)
    most = max(trial.plan.processes for trial in left.values()) + PROCESSES * config.sweep.parallel
    cache = inputs.open_cache(config.cache_folder)
    inputs.check_room([Path(config.output), cache], actors=most)
    from experiments.sweeps.tuning import run_trials  # imports Tune, which a finished sweep does without

    failed: dict[str, str] = {}
    bar: Bar | None = None

    def ended(name: str, report: Report) -> None:
        trial, metrics = left[name], {}
        if bar:
            bar.advance()
        if report.untracked:
            progress.print(f"trial {name}: {report.untracked}")
        if report.failed:
            # Not among the results, so that resuming the sweep tries the trial again.
            failed[name] = report.failed
            return
        if report.finished:
            metrics = json.loads((folder / TRIALS / name / "metrics.json").read_text())
        stopped, utility = (0, None) if report.finished else (report.steps, round(report.utility, 6))
        # Last, once metrics.json has been read: from here on the trial counts as done.
        add(TrialResult(name, trial.values, trial.seed, metrics, stopped, utility))

    async def up(group: Sequence[Trial], runtime: Runtime, progress: Progress) -> None:
        """Waits for a group's agents. Checks what their models, which are the same, can do."""
        async with runtime_start.ready(runtime, progress):  # trials load their own models
            folders = [RunFolder(folder / TRIALS / trial.name) for trial in group]
            await model_record.check_models(group[0].plan, runtime, folders, progress)

    with Progress() as progress:
        progress.print(references.resumption_line(config, folder))
        # Each data set and index once, so that no two trials build the same one at once.
        different = {inputs.data_key(trial.plan): trial.plan for trial in left.values()}
        preparing = progress.phase("preparing data", total=len(different))
        for plan in different.values():
            dataset = inputs.open_dataset(plan, cache)
            inputs.open_evidence(plan, dataset, cache, progress)
            for note in inputs.notes_of(dataset):
                progress.print(f"note: {note}")
            preparing.advance()
        # An event loop in another thread watches replicas while Tune blocks this one.
        with start_blocking_portal() as portal, runtime_start.runtime_started(config, progress, trials=True) as runtime:
            for group in groups(list(left.values())):
                shared = launching.launch_shared(group[0].plan, runtime, progress.print)
                portal.call(up, group, runtime, progress)
                # One bar for all groups, and only now: while replicas start, another one is shown.
                bar = bar or progress.phase("trials", total=total, completed=total - len(left))
                names, steps = [trial.name for trial in group], max(trial.plan.training_steps for trial in group)
                run_trials(names, shared, folder, config.sweep, steps, config.ray.hung_s, ended, progress.print)
                # Ends this group's actors, which makes room for the next group's.
                runtime.clear()
    return failed
