"""Runs a sweep, from its plan to its table. It launches what trials share, and runs them.

Every trial is an ordinary run folder in `trials/`; `trials.jsonl` has a TrialResult per finished trial.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from actors.errors import ClusterError, ModelGone, StoreError, UserError, visible
from actors.runtime.runtime import Runtime
from experiments.config import references
from experiments.records.progress import Bar, Progress
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.trials import TRIALS, TrialResult, results_written, wait_for_writer
from experiments.running import inputs, launching, model_record, runtime_start
from experiments.sweeps.expansion import Sweep, Trial, groups
from experiments.sweeps.planted_learners import conclude_learners, explore_planted
from experiments.sweeps.sweep_results import conclude_sweep
from experiments.sweeps.trial_folders import add_trials_run_alone, finished_trials, write_trials
from experiments.sweeps.trial_steps import Report

TRIAL_PROCESS_ACTORS = 3  # idle actors that take as much memory as a trial's process
OUTLIVE_S = 30.0  # seconds that processes of a killed sweep get to end


def run_sweep(sweep: Sweep, folder: RunFolder) -> bool:
    """Runs the unfinished trials of a sweep, and sums up all of it. Returns False where trials have failed for good.

    With `sweep.start=false` it only writes the folders of the trials. Raises UserError for anything that the user can
    put right; finished trials stay and the sweep can be resumed.
    """
    if not sweep.config.sweep.start:
        write_trials(sweep, folder.path)
        print(f"{len(sweep.trials)} trials are written in {visible(str(folder.path / TRIALS))}, and none is started")
        return True

    planted_outcomes = explore_planted(sweep.planted, folder.path) if sweep.planted else []
    failures: Mapping[str, str] = {}
    with results_written(folder.path) as add_result:
        write_trials(sweep, folder.path)
        finished = finished_trials(folder.path, sweep.trials)
        add_trials_run_alone(folder.path, sweep.trials, add_result, finished)
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
