"""Writes the run folders of a sweep's trials. Finds the trials that have ended, in the sweep or as single runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.errors import UserError
from experiments.analysis.arrow_tables import results
from experiments.analysis.run_notes import inconclusive
from experiments.config.config import may_change
from experiments.config.saved import read, save
from experiments.records.recorder import RunFolder
from experiments.records.trials import RESULTS, TRIALS, TrialResult, read_results
from experiments.sweeps.expansion import Sweep, Trial


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


def add_trials_run_alone(
    folder: Path, trials: Sequence[Trial], add_result: Callable[[TrialResult], object], finished: set[str]
) -> None:
    """Adds the results of trials that were run by themselves, and their names to those of the finished trials.

    One about which nothing is concluded, as questions failed, is no result: the sweep runs it again. It also ends a
    trial that was killed after metrics.json and before its report, the last file.
    """
    for trial in trials:
        if trial.name in finished:
            continue
        run = RunFolder(folder / TRIALS / trial.name)
        metrics = results(run.path / "metrics.json")
        if metrics and run.report.is_file() and not inconclusive(metrics):
            add_result(TrialResult(trial.name, trial.values, trial.seed, metrics))
            finished.add(trial.name)
