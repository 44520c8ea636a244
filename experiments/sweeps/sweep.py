"""Runs a sweep, from its plan to its table. It launches what trials share, and runs them.

Every trial is an ordinary run folder in `trials/`; `trials.jsonl` has a TrialResult per finished trial.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from actors.errors import ClusterError, ModelGone, StoreError, UserError, visible
from actors.runtime.runtime import Runtime
from experiments.config import references
from experiments.config.config import may_change
from experiments.config.saved import read, save
from experiments.records.progress import Bar, Progress
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.trials import RESULTS, TRIALS, TrialResult, read_results, results_written, wait_for_writer
from experiments.running import inputs, launching, model_record, runtime_start
from experiments.sweeps.expansion import Sweep, Trial, groups
from experiments.sweeps.planted_learners import conclude_learners, explore_planted
from experiments.sweeps.sweep_results import conclude_sweep
from experiments.sweeps.trial_steps import Report

TRIAL_PROCESS_ACTORS = 3  # idle actors that take as much memory as a trial's process
OUTLIVE_S = 30.0  # seconds that processes of a killed sweep get to end


def run_sweep(sweep: Sweep, folder: RunFolder) -> bool:
    """Runs the unfinished trials of a sweep, and sums up all of it. Returns False where trials have failed for good.

    Raises UserError for anything that the user can put right; finished trials stay and the sweep can be resumed.
    """
    planted_outcomes = explore_planted(sweep.planted, folder.path) if sweep.planted else []
    failures: Mapping[str, str] = {}
    with results_written(folder.path) as add_result:
        write_trials(sweep, folder.path)
        finished = finished_trials(folder.path, sweep.trials)
        unfinished = {trial.name: trial for trial in sweep.trials if trial.name not in finished}
        for name in unfinished:
            wait_for_writer(folder.path / TRIALS / name / SCORES, OUTLIVE_S)
        if unfinished:
            try:
                failures = run_unfinished(sweep, folder.path, add_result, unfinished)
            except (ClusterError, StoreError, ModelGone) as error:
                raise UserError(str(error)) from error

    # Also when all were finished, so that resuming a finished sweep writes its tables again.
    figures, tables = conclude_learners(sweep.config, folder.path, planted_outcomes)
    conclude_sweep(sweep, folder.path, failures, figures, tables)
    for name, reason in failures.items():
        print(visible(f"failed: {name}: {reason}"))
    return not failures


def write_trials(sweep: Sweep, folder: Path) -> None:
    """Writes a run folder for each trial. All of them are one group in W&B."""
    for trial in sweep.trials:
        config_file = folder / TRIALS / trial.name / "config.yaml"
        config_file.parent.mkdir(parents=True, exist_ok=True)
        trial.config.wandb.group = sweep.config.wandb.group or folder.name
        if config_file.exists():
            saved_settings = read(config_file).by_key
            settings = trial.config.by_key
            if saved_settings == settings:
                continue
            check_unchanged(trial.name, saved_settings, settings)
        # The process that runs a trial reads this file and imports what it names: it is always the sweep's own.
        save(trial.config, config_file)


def check_unchanged(trial_name: str, saved_settings: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises UserError where a trial that has begun would get another configuration, as it must not."""
    changed = []
    for key in sorted({*saved_settings, *settings}):
        if saved_settings.get(key) != settings.get(key) and not may_change(key):
            changed.append(key)
    if changed:
        raise UserError(
            f"trial {trial_name}: its config.yaml has another {', '.join(changed[:3])} than its sweep gives it; "
            "restore the file from a copy, or start a new sweep"
        )


def finished_trials(folder: Path, trials: Sequence[Trial]) -> set[str]:
    """Names of the trials that have ended. Raises UserError for a result that is of no trial of the sweep."""
    trials_by_name = {trial.name: trial for trial in trials}
    names: set[str] = set()
    for result in read_results(folder, stopped=True):
        trial = trials_by_name.get(result.name)
        if trial is None:
            raise UserError(f"{folder / RESULTS}: the sweep has no trial {result.name!r}; start a new sweep")

        fault = ""
        # As JSON holds them.
        seed, values = json.loads(json.dumps([trial.seed, trial.values]))
        if result.name in names:
            fault = "is there twice"
        elif result.seed != seed or result.values != values:
            fault = "has another seed or other values"
        if fault:
            raise UserError(f"{folder / RESULTS}: {result.name} {fault}; restore the file, or start a new sweep")
        names.add(result.name)
    return names


def run_unfinished(
    sweep: Sweep, folder: Path, add_result: Callable[[TrialResult], object], trials: Mapping[str, Trial]
) -> Mapping[str, str]:
    """Runs trials, given by name, group by group; a group shares its agents. Ends all that it launched, even on errors.
    Returns the reasons of the trials that failed, by name."""
    from experiments.sweeps.tuning import run_trials  # imports Tune, which a finished sweep does without

    config = sweep.config
    most_processes = max(trial.plan.processes for trial in trials.values())
    cache_folder = inputs.open_cache(config.cache_folder)
    inputs.check_room(
        [Path(config.output), cache_folder], actors=most_processes + TRIAL_PROCESS_ACTORS * config.sweep.parallel
    )
    failures: dict[str, str] = {}
    bar: Bar | None = None

    def end_trial(name: str, report: Report) -> None:
        if bar:
            bar.advance()
        if report.untracked:
            progress.print(f"trial {name}: {report.untracked}")
        if report.failed:
            # Not among the results, so that resuming the sweep tries the trial again.
            failures[name] = report.failed
        else:
            # Last, once metrics.json has been read: from here on the trial counts as done.
            add_result(trial_result(trials[name], folder, report))

    async def check_group(group: Sequence[Trial], runtime: Runtime, progress: Progress) -> None:
        """Waits for a group's agents. Checks what their models, which are the same, can do."""
        async with runtime_start.ready(runtime, progress):  # trials load their own models
            folders = [RunFolder(folder / TRIALS / trial.name) for trial in group]
            await model_record.check_models(group[0].plan, runtime, folders, progress)

    with Progress() as progress:
        progress.print(references.resumption_line(config, folder))
        prepare_data(trials.values(), cache_folder, progress)
        # An event loop in another thread watches replicas while Tune blocks this one.
        with start_blocking_portal() as portal, runtime_start.runtime_started(config, progress, trials=True) as runtime:
            for group in groups(list(trials.values())):
                shared = launching.launch_shared(group[0].plan, runtime, progress.print)
                portal.call(check_group, group, runtime, progress)
                if bar is None:
                    # One bar for all groups, and only now: while replicas start, another one is shown.
                    total = len(sweep.trials)
                    bar = progress.phase("trials", total=total, completed=total - len(trials))
                run_trials(
                    names=[trial.name for trial in group],
                    shared=shared,
                    folder=folder,
                    settings=config.sweep,
                    steps=max(trial.plan.training_steps for trial in group),
                    hung_s=config.ray.hung_s,
                    ended=end_trial,
                    notify=progress.print,
                )
                # Ends this group's actors, which makes room for the next group's.
                runtime.clear()
    return failures


def prepare_data(trials: Iterable[Trial], cache_folder: Path, progress: Progress) -> None:
    """Prepares each data set and index once, so that no two trials build the same one at once."""
    plans = {inputs.data_key(trial.plan): trial.plan for trial in trials}
    bar = progress.phase("preparing data", total=len(plans))
    for plan in plans.values():
        dataset = inputs.open_dataset(plan, cache_folder)
        inputs.open_evidence(plan, dataset, cache_folder, progress)
        for note in inputs.notes_of(dataset):
            progress.print(f"note: {note}")
        bar.advance()


def trial_result(trial: Trial, folder: Path, report: Report) -> TrialResult:
    """Makes the result of a trial that has finished, or was stopped early."""
    if not report.finished:
        utility = round(report.utility, 6)
        return TrialResult(trial.name, trial.values, trial.seed, {}, stopped=report.steps, utility=utility)
    metrics = RunFolder(folder / TRIALS / trial.name).json("metrics.json")
    return TrialResult(trial.name, trial.values, trial.seed, metrics)
