"""A sweep from its configuration to its table: expand, launch what trials share, run them, and sum up.

runs/<time>-<experiment>/
    config.yaml        the sweep's; its presence makes the folder one that can be resumed
    trials/<name>/     every trial, an ordinary run folder
    trials.jsonl       a TrialResult per finished trial
    sweep.json, .csv   the table; figures/ and report.html show it
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from actors.errors import ClusterError, ModelGone, StoreError, UserError
from experiments.analysis.compare import POSITION, compare_pairs, in_words, merge, natural_pairs, read_arms
from experiments.analysis.figures.sweeps import draw_sweep
from experiments.analysis.report import sweep as report
from experiments.analysis.sweep_table import sweep_rows, sweep_table, write
from experiments.analysis.tables.evaluated import of_sweep
from experiments.analysis.tables.write import tell, write_tables
from experiments.config.config import Config
from experiments.config.loading import read, save
from experiments.config.references import check_named_again
from experiments.records.progress import Bar, Progress
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.trials import TRIALS, Results, TrialResult, read_results
from experiments.running.abilities import check_abilities, describe, role_models
from experiments.running.launch import launched_roles, team_roles
from experiments.running.launched import cluster_started, launch_shared, wait
from experiments.running.models import models_named, replicas
from experiments.running.opening import check_room, open_cache, open_dataset, open_store
from experiments.sweeps.running import Report, data_key
from experiments.sweeps.trials import Trial, expand, groups

OUTLIVE_S = 30.0  # seconds that processes of a killed sweep get to end
PROCESSES = 3  # idle actors' worth of memory that a trial's process takes


def run_sweep(config: Config, folder: RunFolder) -> bool:
    """Runs the trials that are left of a sweep and sums up all of it. False when trials have failed for good.

    Raises:
        UserError: anything that the user can put right; finished trials stay and the sweep can be resumed.
    """
    trials = _checked(config)
    _write(config, folder.path, trials)
    with Results(folder.path) as results:
        done = results.done
        left = [trial for trial in trials if trial.name not in done]
        sweep = _Sweep(config, folder.path, results, len(trials))
        if left:
            for trial in left:
                _wait_for_writer(folder.path / TRIALS / trial.name)
            try:
                sweep.run(left)
            except (ClusterError, StoreError, ModelGone) as error:
                raise UserError(str(error)) from error
    # Also when nothing was left, so that resuming a finished sweep writes its tables again.
    _conclude(config, trials[0].config, folder.path, sweep.failed)
    if sweep.warm_s:
        print(
            f"A warm trial started in {statistics.median(sweep.warm_s):.2f} s (median of {len(sweep.warm_s)}; "
            f"slowest {max(sweep.warm_s):.2f} s)."
        )
    for name, reason in sweep.failed.items():
        print(f"failed: {name}: {reason}")
    return not sweep.failed


def _checked(config: Config) -> list[Trial]:
    settings = config.sweep
    if config.job != "prune":
        raise UserError(f"a sweep is of experiments that learn, prune and evaluate, not of job={config.job}")
    # Checked before any process is started: a sweep that fails after an hour wastes that hour.
    for name in ("seeds", "parallel", "grace"):
        if getattr(settings, name) < 1:
            raise UserError(f"sweep.{name}={getattr(settings, name)}: expected at least 1")
    trials = expand(config)
    if settings.stop == "asha":
        if settings.reduction < 2:
            raise UserError(f"sweep.reduction={settings.reduction}: expected at least 2")
        if settings.grace > (steps := _steps(trials)):
            raise UserError(f"sweep.grace={settings.grace}: no trial has more than {steps} training steps to stop in")
    return trials


def _steps(trials: Sequence[Trial]) -> int:
    return max(2 * trial.config.pruning.steps for trial in trials)


def _write(config: Config, folder: Path, trials: Sequence[Trial]) -> None:
    """Writes a run folder for each trial; all of them are one group in W&B."""
    for trial in trials:
        path = folder / TRIALS / trial.name
        # A resumed sweep must not change the configuration of a trial that has begun.
        if not (path / "config.yaml").exists():
            trial.config.wandb.group = config.wandb.group or folder.name
            path.mkdir(parents=True, exist_ok=True)
            save(trial.config, path / "config.yaml")
        # The process that runs a trial reads this file and imports what it names.
        check_named_again(read(path / "config.yaml"), trial.config)


@dataclass
class _Sweep:
    config: Config
    folder: Path
    results: Results
    total: int
    failed: dict[str, str] = field(default_factory=dict)
    warm_s: list[float] = field(default_factory=list)

    def run(self, left: Sequence[Trial]) -> None:
        """Runs the trials group by group; a group shares its agents. Ends all that it launched, even on errors."""
        config = self.config
        most = max(len(team_roles(trial.config)) for trial in left) + 2 + max(replicas(trial.config) for trial in left)
        check_room(Path(config.output), actors=most + PROCESSES * config.sweep.parallel)
        from experiments.sweeps.tuning import run_trials  # imports Tune, which a finished sweep does without

        with Progress() as progress:
            self._prepare(left, progress)
            with _loop_beside() as loop, cluster_started(config.ray, progress) as cluster:
                trials, bar = groups(left), None
                for group in trials:
                    one, cache = group[0].config, open_cache(config)
                    shared = launch_shared(one, team_roles(one), cluster, cache, progress.print)
                    # In the thread's loop, where replicas are watched from then on while Tune blocks this thread.
                    asyncio.run_coroutine_threadsafe(wait(cluster, progress), loop).result()
                    abilities = asyncio.run_coroutine_threadsafe(cluster.abilities(), loop).result()
                    names = [role.name for role in launched_roles(one, team_roles(one))]
                    others = asyncio.run_coroutine_threadsafe(role_models(one, names, cluster), loop).result()
                    for trial in group:
                        check_abilities(trial.config, abilities, RunFolder(self.folder / TRIALS / trial.name), others)
                    for line in describe(one, abilities, others):
                        progress.print(line)
                    # One bar for all groups, and only now: while replicas start, another one is shown.
                    bar = bar or progress.phase("trials", total=self.total, done=self.total - len(left))
                    by_name = {trial.name: trial for trial in group}
                    ended = partial(self._ended, by_name, bar)
                    run_trials(list(by_name), shared, self.folder, config.sweep, _steps(group), ended, progress.print)
                    # Ends this group's actors, which makes room for the next group's.
                    cluster.clear()

    def _prepare(self, left: Sequence[Trial], progress: Progress) -> None:
        """Prepares each data set and index once, so that no two trials build the same one at once."""
        different = list({data_key(trial.config): trial.config for trial in left}.values())
        bar = progress.phase("preparing data", total=len(different))
        for config in different:
            cache = open_cache(config)
            open_store(config, open_dataset(config, cache), cache)
            bar.advance()

    def _ended(self, trials: Mapping[str, Trial], bar: Bar, name: str, report: Report, warm_s: float | None) -> None:
        trial = trials[name]
        bar.advance()
        if warm_s is not None:
            self.warm_s.append(warm_s)
        if report.failed:
            # Not among the results, so that resuming the sweep tries the trial again.
            self.failed[name] = report.failed
            return
        metrics = {}
        if report.finished:
            metrics = json.loads((self.folder / TRIALS / trial.name / "metrics.json").read_text())
        stopped, utility = (0, None) if report.finished else (report.steps, round(report.utility, 6))
        # Last, once metrics.json has been read: from here on the trial counts as done.
        self.results.append(TrialResult(trial.name, trial.values, trial.seed, metrics, stopped, utility))


def _conclude(config: Config, first: Config, folder: Path, failed: Mapping[str, str]) -> None:
    """Writes the table, figures and report of all finished trials."""
    results = read_results(folder, stopped=True)
    if not results:
        return
    metric = open_dataset(first, open_cache(first)).metric
    rows = sweep_rows(folder, results, config.seed)
    write(folder, rows, failed, config.experiment)
    drawn = draw_sweep(folder, [result for result in results if not result.stopped], metric)
    # An attacker's positions are repetitions of one setting, as seeds are; sweep.csv keeps them apart.
    arms = merge(read_arms(folder, results), over=[POSITION])
    compared = list(in_words(compare_pairs(natural_pairs(arms), config.seed), metric))
    pooled = any(POSITION in row.values for row in rows)
    shown = sweep_rows(folder, results, config.seed, over=[POSITION]) if pooled else rows
    laid_out = write_tables(folder, config.experiment, of_sweep(folder, results), config.seed)
    notes = list(compared)
    if len(shown) < len(rows):
        notes.append(f"Here trials that differ in {POSITION} alone are one row; {folder / 'sweep.csv'} has each.")
    settings = sweep_table(shown, metric, models_named(config), notes)
    report.write(folder, results, metric, drawn, settings, compared, laid_out)
    print()
    settings.print(wide_notes=True)
    tell(folder, laid_out)


def _wait_for_writer(trial: Path) -> None:
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


@contextmanager
def _loop_beside() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in another thread, which watches replicas while Tune blocks this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="watch", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        # Tasks first: a loop that stops with tasks pending leaves them without an end, and warns of each.
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
