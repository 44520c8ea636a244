"""The run folders of a sweep's trials: written, compared with the sweep when it is resumed, and waited for."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from actors.errors import UserError
from experiments.config.config import Config, may_change
from experiments.config.references import flat
from experiments.config.saved import read, save
from experiments.records.recorder import SCORES
from experiments.records.trials import RESULTS, TRIALS, read_results
from experiments.sweeps.trials import Trial

OUTLIVE_S = 30.0  # seconds that processes of a killed sweep get to end


def write_trials(config: Config, folder: Path, trials: Sequence[Trial]) -> None:
    """Writes a run folder for each trial; all of them are one group in W&B."""
    for trial in trials:
        path = folder / TRIALS / trial.name
        trial.config.wandb.group = config.wandb.group or folder.name
        path.mkdir(parents=True, exist_ok=True)
        # A resumed sweep must not change the configuration of a trial that has begun.
        if (saved := path / "config.yaml").exists():
            before = read(saved)
            _check_same(before, trial)
            if before == trial.config:
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


def _check_same(saved: Config, trial: Trial) -> None:
    """Raises UserError where a trial's saved configuration is not the one that its sweep gives it."""
    before, now = (dict(flat(asdict(config))) for config in (saved, trial.config))
    if changed := sorted(key for key in {*before, *now} if before.get(key) != now.get(key) and not may_change(key)):
        raise UserError(
            f"trial {trial.name}: its config.yaml has another {', '.join(changed[:3])} than its sweep gives it; "
            "restore the file from a copy, or start a new sweep"
        )


def wait_for_writer(trial: Path) -> None:
    """Waits until no process writes a trial's folder.

    Processes of a killed sweep may outlive it by a moment. One that stays longer is reported when the trial starts.
    """
    records, until = trial / SCORES, time.monotonic() + OUTLIVE_S
    while records.exists() and time.monotonic() < until:
        # Opened anew each time: closing the file also releases the lock that was only taken as a test.
        with records.open("ab") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.1)
