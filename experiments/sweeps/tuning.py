"""Scheduling by Ray Tune: a trial's time and process, early stopping, and repeated attempts.

Tune gets the unfinished trials and keeps no state: each trial's checkpoint is its run folder, and the sweep's is
trials.jsonl. (`Tuner.restore` resumes from a snapshot that Tune takes every so often, and would repeat trials that
finished after the last one.)
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

# Tune reads these when it is imported. Trials write their own logs, and the driver handles Ctrl-C.
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

from ray import tune
from ray.exceptions import OutOfMemoryError
from ray.tune.schedulers import ASHAScheduler

from actors import secrets
from actors.errors import ClusterError
from actors.runtime.launcher import OnEvent
from actors.runtime.remote import OUT_OF_MEMORY
from actors.watcher import Watcher
from experiments.config.setting_groups import SweepSettings
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import JUDGEMENTS, SCORES, RunFolder
from experiments.records.trials import TRIALS
from experiments.running.launching import Shared
from experiments.sweeps.trial_run import TrialInputs, run_trial
from experiments.sweeps.trial_steps import Report

ATTEMPTS = 5  # in a row: where machines are taken away, losses come in series and are no trial's fault
FOLDER = "tune"
# Trials mostly wait for models, so they reserve no cores; Tune needs a reservation, so a token one of memory.
RESOURCES = tune.PlacementGroupFactory([{"memory": 2**20}])

Ended = Callable[[str, Report], None]


class TrialProcess(tune.Trainable):
    """Process that runs one trial after another.

    Its event loop runs only inside `step`: a trial that is stopped early has done no more steps than Tune allowed.
    """

    def setup(  # type: ignore[override]
        self, config: dict[str, Any], shared: Shared, trials: Path, each_step: bool, hung_s: float
    ) -> None:
        self._watcher = Watcher([os.getpid()], hung_s)
        self._loop = asyncio.new_event_loop()
        secrets.keep(shared.keys)
        self._inputs = TrialInputs(shared)
        self._trials = trials
        self._each_step = each_step
        self._reports = run_trial(trials / config["trial"], self._inputs, each_step)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Goes over to another trial in this process (Tune's `reuse_actors`)."""
        self._end()
        self._reports = run_trial(self._trials / new_config["trial"], self._inputs, self._each_step)
        return True

    def step(self) -> dict[str, Any]:
        """Returns the trial's next report, as Tune reads it."""
        report = self._loop.run_until_complete(anext(self._reports))
        return {**asdict(report), "done": report.finished or bool(report.failed)}

    def cleanup(self) -> None:
        self._end()
        self._loop.run_until_complete(self._inputs.close())
        self._loop.close()
        self._watcher.close()

    def _end(self) -> None:
        # Runs the generator's `finally`, which cancels the trial and closes its records.
        self._loop.run_until_complete(self._reports.aclose())


class Ends(tune.Callback):
    """Reports every trial that finished, stopped early, failed, or lost `ATTEMPTS` processes and got no further."""

    def __init__(self, trials: Path, ended: Ended, notify: OnEvent) -> None:
        self._trials = trials
        self._ended = ended
        self._notify = notify
        self._recorded: dict[str, int] = {}
        self._error: Exception | None = None
        self.ended_names: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles callbacks to restore them, and no sweep is restored that way

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        report = {field.name: trial.last_result[field.name] for field in fields(Report)}
        self._end(trial, Report(**report))

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._notify(f"trial {trial.config['trial']}: its process died; it is taken up again in another one")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Ends a trial that has used up its attempts, unless it has got on in them: then it gets as many again."""
        if self.has_progressed(trial.config["trial"]):
            self.on_trial_recover(iteration, trials, trial)
            return
        # Tune keeps a lost process's error in one place or another; its last line is the message.
        text = str(trial.get_error() or trial.get_pickled_error() or "its process died").strip()
        reason = text.splitlines()[-1].strip()
        self._end(trial, Report(failed=f"{ATTEMPTS} attempts that got no further: {reason}"))

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self._error is not None:
            raise self._error

    def has_progressed(self, name: str) -> bool:
        """True if a trial has recorded anything since the last call: steps, scores or judgements."""
        run = RunFolder(self._trials / name)
        files = [run.path / SCORES, run.path / JUDGEMENTS, *(graph.path / LEARNING for graph in run.all_learned())]
        previous_bytes = self._recorded.get(name, 0)
        self._recorded[name] = max(previous_bytes, sum(path.stat().st_size for path in files if path.exists()))
        return self._recorded[name] > previous_bytes

    def _end(self, trial: Any, report: Report) -> None:
        name = trial.config["trial"]
        if name in self.ended_names:
            return
        self.ended_names.add(name)
        try:
            self._ended(name, report)
        # Tune would take it for the trial's failure, and try that again.
        except Exception as error:
            self._error = error


def run_trials(
    names: Sequence[str],
    shared: Shared,
    folder: Path,
    settings: SweepSettings,
    steps: int,
    hung_s: float,
    ended: Ended,
    notify: OnEvent,
) -> None:
    """Runs the trials of these names below `<folder>/trials`, `settings.parallel` at a time.

    steps: of training, in the longest trial. hung_s: seconds without a sign of life that end a trial's process.
    ended: gets each trial's progress when it has ended. notify: gets a line when a trial's process has died.
    """
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # failures are reported here, in one line
    storage = folder / FOLDER
    # Left by a killed sweep. Nothing in it is needed: trials resume from their own folders.
    shutil.rmtree(storage, ignore_errors=True)
    trainable: Any = tune.with_parameters(
        TrialProcess,
        shared=shared,
        trials=folder / TRIALS,
        # Only a scheduler needs reports between steps; without one a trial runs through at full speed.
        each_step=settings.stop == "asha",
        hung_s=hung_s,
    )
    ends = Ends(folder / TRIALS, ended, notify)
    rounds_in_vain = 0
    remaining = list(names)
    try:
        # Trials that lost all their attempts and got on in between have as many in another round.
        while remaining:
            try:
                _tuner(trainable, remaining, storage, settings, steps, ends).fit()
            except RuntimeError as error:
                # Tune knows lost processes by another error, and ends with this one itself.
                if not isinstance(error.__cause__ or error.__context__, OutOfMemoryError):
                    raise
                # A list: each is to be looked at.
                progressed = [ends.has_progressed(name) for name in remaining]
                rounds_in_vain = 0 if any(progressed) else rounds_in_vain + 1
                if rounds_in_vain == ATTEMPTS:
                    raise ClusterError(
                        f"processes of trials were {OUT_OF_MEMORY}: use a smaller sweep.parallel"
                    ) from error
                notify(f"a trial's process was {OUT_OF_MEMORY}; all are taken up again")
            remaining = [name for name in remaining if name not in ends.ended_names]
    finally:
        shutil.rmtree(storage, ignore_errors=True)


def _tuner(
    trainable: Any, names: Sequence[str], storage: Path, settings: SweepSettings, steps: int, ends: Ends
) -> tune.Tuner:
    # Asynchronous successive halving (Li et al. 2020): at `grace` training steps, and at each multiple of that by a
    # power of `reduction`, only the best one in `reduction` of the trials that have come so far continues. A resumed
    # trial is compared at the next such rung that it reaches.
    scheduler = None
    if settings.stop == "asha":
        scheduler = ASHAScheduler(
            time_attr="steps",
            metric="utility",
            mode="max",
            max_t=steps + 1,  # never reached: what ends a trial is the end of its evaluation
            grace_period=settings.grace,
            reduction_factor=settings.reduction,
        )
    return tune.Tuner(
        tune.with_resources(trainable, RESOURCES),
        param_space={"trial": tune.grid_search(list(names))},
        tune_config=tune.TuneConfig(
            scheduler=scheduler,
            max_concurrent_trials=settings.parallel,
            reuse_actors=True,
            # Tune's default name holds all values and can be too long for a file system.
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="trials",
            storage_path=str(storage),
            # For processes that die. A trial that raises an error ends with a report instead.
            failure_config=tune.FailureConfig(max_failures=ATTEMPTS - 1),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            callbacks=[ends],
            verbose=0,
        ),
    )
