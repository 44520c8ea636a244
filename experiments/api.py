"""The project from Python: `run` runs an experiment, and `load_run` reads what a run has recorded.

    from experiments.api import load_run, run

    done = run("mmqa_prune", topology={"rounds": 2}, seed=1)
    print(done.scores.to_pandas().groupby("method")["utility"].mean())

Tables are read from the run folder each time they are asked for, also while the run goes on. Their columns are listed
in docs/python.md.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.errors import RunFailed, UserError
from actors.lookup import near_miss
from actors.messages import Trace
from experiments.analysis.arrow_tables import RecordTable, results, run_tables, together
from experiments.config.config import Config, flat, is_sweep
from experiments.config.saved import read
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS

if TYPE_CHECKING:
    from experiments.dry_run.counts import RunCounts

__all__ = ["RecordTable", "Run", "RunFailed", "UserError", "dry_run", "load_run", "resume", "run"]

# `-P`: Python finds the project where this process has found it. By its number, the last word is where to report.
PROGRAM = "import sys; from experiments.command_line import script; script(report=int(sys.argv.pop()))"


class Run:
    """A run folder. That of a sweep has `runs`, one for each trial, and tables of all of them.

    Each table of a sweep begins with the columns `run`, `seed` and the varied settings by their dotted keys.
    """

    settings: RecordTable
    """Every setting with its value as JSON."""
    metrics: RecordTable
    """The result table, a row per method; empty before the run's end."""
    tests: RecordTable
    """Paired tests, a row per pair of methods; empty before the run's end."""
    scores: RecordTable
    """Evaluated questions, a row per method and question, with the gold answer."""
    discussions: RecordTable
    """Evaluated discussions, a row each."""
    turns: RecordTable
    """Turns of evaluated discussions."""
    edges: RecordTable
    """Edges that evaluated discussions used."""
    searches: RecordTable
    """Searches that systems made in evaluated discussions."""
    training_discussions: RecordTable
    """Discussions that graphs were learned from, and those of a calibration."""
    training_turns: RecordTable
    training_edges: RecordTable
    training_searches: RecordTable
    learning: RecordTable
    """Training steps with the terms of the objective and the edges that are left."""
    weights: RecordTable
    """Probability of each candidate edge after each training step."""
    usage: RecordTable
    """Calls and tokens computed, by phase and agent."""

    def __init__(self, folder: RunFolder, varied: Mapping[str, Any] | None = None) -> None:
        self._folder = folder
        self.path = folder.path
        self.varied: Mapping[str, Any] = varied or {}
        """For a trial: its name, seed and varied settings."""
        self.tables: Mapping[str, RecordTable] = run_tables(folder)
        """All tables by name."""
        if self.runs:
            names = [name for name in self.tables if name != "settings"]
            self.tables = {
                **self.tables,
                **{name: together([(run.varied, run.tables[name]) for run in self.runs]) for name in names},
            }
        vars(self).update(self.tables)

    def __repr__(self) -> str:
        return f"load_run({str(self.path)!r})"

    @cached_property
    def config(self) -> Config:
        """The configuration, by which nothing is imported or contacted."""
        return read(self._folder.config)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The trials of a sweep, by name; none of any other run."""
        if not is_sweep(self.config):
            return ()
        sweep = self.config.sweep
        keys = dict.fromkeys(key for group in (sweep.axes, *sweep.points) for key, _ in flat(group))
        folders = [RunFolder(path.parent) for path in sorted((self.path / TRIALS).glob("*/config.yaml"))]
        return tuple(Run(folder, _varied(folder, keys)) for folder in folders)

    @property
    def results(self) -> dict[str, Any]:
        """The content of metrics.json, or of sweep.json or a study's file in its place; empty before the run's end."""
        name = "sweep" if self.runs else "metrics" if self.config.job == "prune" else self.config.job
        return results(self.path / f"{name}.json")

    def traces(self, method: str) -> Iterator[Trace]:
        """Yields the evaluated discussions of a method, in the order in which they were recorded.

        Raises UserError where the run has none.
        """
        file = f"evaluate-{method}"
        if file not in (known := [path.stem for path in jsonl.files(self.path / "traces", "evaluate-*.jsonl")]):
            names = [name.removeprefix("evaluate-") for name in known]
            raise UserError(f"{self.path}: no discussions of {method!r}.{near_miss(method, names)} There are {names}")
        return self._folder.traces(file)

    def trace(self, method: str, question: str) -> Trace:
        """Returns the discussion of a question by its id. Raises UserError where the run has none."""
        for trace in self.traces(method):
            if trace.question == question:
                return trace
        raise UserError(f"{self.path}: {method} has no discussion of question {question!r}; `run.scores` lists all")


def load_run(folder: str | os.PathLike[str]) -> Run:
    """Opens the folder of a run, a sweep or a study, finished or not.

    Raises UserError where it is none, or is damaged.
    """
    return Run(RunFolder.open(Path(folder).expanduser()))


def run(experiment: str | os.PathLike[str], settings: Mapping[str, Any] | None = None, **more: Any) -> Run:
    """Runs an experiment in a process of its own, prints its progress, and returns what it has recorded.

    Works in scripts and notebooks. Ctrl-C, or a notebook's stop button, ends the run, which `resume` then goes on with.

    Args:
        experiment: the name of an experiment or a method, or the path of a preset.
        settings, more: as on the command line, nested (`topology={"rounds": 2}`) or by dotted keys
            (`{"topology.rounds": 2}`).

    Raises:
        UserError: the command line would have ended with exit code 2; the same line.
        RunFailed: the run, some of its trials, or too many turns of a method have failed.
        KeyboardInterrupt: it was interrupted.
    """
    return _run([f"experiment={os.fspath(experiment)}", *_words(settings, more)])


def resume(folder: str | os.PathLike[str], settings: Mapping[str, Any] | None = None, **more: Any) -> Run:
    """Goes on with an interrupted run; arguments and errors are those of `run`."""
    return _run([f"resume={os.fspath(folder)}", *_words(settings, more)])


def dry_run(experiment: str | os.PathLike[str], settings: Mapping[str, Any] | None = None, **more: Any) -> RunCounts:
    """Counts a run's turns, calls, tokens and price, without a model; prints and returns them.

    Raises UserError for bad input, and for a sweep, of which the command line prints a table.
    """

    def count() -> RunCounts:
        from experiments.config.loading import load
        from experiments.dry_run.dry_run import dry_run as counted
        from experiments.jobs import plan_of

        config = load([f"experiment={os.fspath(experiment)}", *_words(settings, more)])
        if is_sweep(config):
            raise UserError("dry_run() counts one run: leave out the sweep, or use dry_run=true on the command line")
        return counted(plan_of(config))

    # In a thread, as a notebook's own has an event loop that runs.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(count).result()


def _words(*settings: Mapping[str, Any] | None) -> Iterator[str]:
    """The words of a command line for settings."""

    def plain(value: Any) -> Any:
        return value.item() if hasattr(value, "item") else os.fspath(value)  # a number of numpy, or a path

    for key, value in (setting for group in settings for setting in flat(group or {})):
        try:
            yield f"{key}={json.dumps(value, default=plain)}"
        except TypeError as error:
            raise UserError(f"{key}: expected text, numbers, truth values, lists and mappings ({error})") from error


def _run(words: Sequence[str]) -> Run:
    read_end, write_end = os.pipe()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    piped = None
    if sys.stdout is not sys.__stdout__:
        # A notebook's output is no file that a process could write to; its kernel claims to be a terminal.
        piped, environment["TTY_COMPATIBLE"] = subprocess.PIPE, "0"
    with open(read_end) as report:
        with open(write_end, "w"):
            process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-c", PROGRAM, *words, str(write_end)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=piped,
                stderr=piped and subprocess.STDOUT,
                text=True,
                pass_fds=[write_end],
                start_new_session=True,  # where Ctrl-C comes from `_ended` alone
            )
        code = _ended(process)
        outcome = json.loads(report.read() or "{}")
    error = outcome.get("error", f"the run ended with code {code}; its folder is {outcome.get('folder')}")
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        raise UserError(error) if code == 2 else RunFailed(error)
    return load_run(outcome["folder"])


def _ended(process: subprocess.Popen[str]) -> int:
    """Prints what a process writes until it has ended, and passes Ctrl-C on; returns its exit code."""
    with process:
        while True:
            try:
                for line in process.stdout or ():
                    print(line, end="")
                return process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)


def _varied(folder: RunFolder, keys: Mapping[str, Any]) -> dict[str, Any]:
    own = dict(flat(asdict(read(folder.config))))
    # The name of a group is short for its kind.
    return {"run": folder.name, "seed": own["seed"], **{key: own.get(key, own.get(f"{key}.kind")) for key in keys}}
