"""The project from Python: `run` runs an experiment, and `load_run` reads what a run has recorded.

    from experiments.api import load_run, run

    done = run("mmqa_prune", topology={"rounds": 2}, seed=1)
    print(done.scores.to_pandas().groupby("method")["utility"].mean())

Tables are read from the run folder each time they are asked for, also while the run goes on. Their columns are listed
in docs/python.md.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from actors.errors import RunFailed, UserError
from actors.lookup import near_miss
from actors.messages import Trace
from experiments.analysis.arrow_tables import RecordTable, results, run_tables, together
from experiments.config.config import Config, flat
from experiments.config.saved import read
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS

__all__ = ["RecordTable", "Run", "RunFailed", "UserError", "dry_run", "load_run", "resume", "run"]

# `-P`: Python finds the project where this process has found it. By its number, the last word is where to report.
PROGRAM = "import sys; from experiments.command_line import script; script(report=int(sys.argv.pop()))"


class Run:
    """A run folder. That of a sweep has `runs`, one for each trial, and tables of all of them.

    Each table of a sweep begins with the columns `run`, `seed` and the varied settings by their dotted keys.
    """

    settings: RecordTable
    metrics: RecordTable
    tests: RecordTable
    scores: RecordTable
    discussions: RecordTable
    turns: RecordTable
    edges: RecordTable
    searches: RecordTable
    training_discussions: RecordTable
    training_turns: RecordTable
    training_edges: RecordTable
    training_searches: RecordTable
    learning: RecordTable
    weights: RecordTable
    usage: RecordTable

    def __init__(
        self, folder: RunFolder, varied: Mapping[str, Any] | None = None, config: Config | None = None
    ) -> None:
        self._folder = folder
        self.path = folder.path
        self.varied: Mapping[str, Any] = varied or {}
        """For a trial: its name, seed and varied settings."""
        self.config = config or read(folder.config)
        """Configuration, by which nothing is imported or contacted."""
        self.tables: Mapping[str, RecordTable] = run_tables(folder)
        """All tables by name."""
        if self.runs:
            of_trials = {}
            for name in self.tables:
                if name != "settings":
                    of_trials[name] = together([(run.varied, run.tables[name]) for run in self.runs])
            self.tables = {**self.tables, **of_trials}
        vars(self).update(self.tables)

    def __repr__(self) -> str:
        return f"load_run({str(self.path)!r})"

    @cached_property
    def runs(self) -> "tuple[Run, ...]":
        """Trials of a sweep, by name. None of any other run."""
        if not self.config.is_sweep:
            return ()
        varied_keys: dict[str, None] = {}
        for group in (self.config.sweep.axes, *self.config.sweep.points):
            varied_keys |= dict.fromkeys(key for key, _ in flat(group))
        runs = []
        for path in sorted((self.path / TRIALS).glob("*/config.yaml")):
            config = read(path)
            settings = config.by_key
            varied = {"run": path.parent.name, "seed": settings["seed"]}
            for key in varied_keys:
                # The name of a group is short for its kind.
                varied[key] = settings.get(key, settings.get(f"{key}.kind"))
            runs.append(Run(RunFolder(path.parent), varied, config))
        return tuple(runs)

    @property
    def results(self) -> dict[str, Any]:
        """Content of metrics.json, or of sweep.json or a study's file in its place. Empty before the run's end."""
        return results(self.path / self.config.result_file)

    def traces(self, method: str, question: str | None = None) -> Iterator[Trace]:
        """Yields the evaluated discussions of a method, in their order. question: the id of the only one.

        Raises UserError where the run has none of the method.
        """
        files = jsonl.files(self.path / "traces", "evaluate-*.jsonl")
        methods = [path.stem.removeprefix("evaluate-") for path in files]
        if method not in methods:
            hint = f"{near_miss(method, methods)} There are {methods}"
            raise UserError(f"{self.path}: no discussions of {method!r}.{hint}")
        traces = self._folder.traces(f"evaluate-{method}")
        return (trace for trace in traces if question in (None, trace.question))


def load_run(folder: str | os.PathLike[str]) -> Run:
    """Opens the folder of a run, a sweep or a study, finished or not.

    Raises UserError where it is none, or is damaged.
    """
    return Run(RunFolder.open(Path(folder).expanduser()))


def run(experiment: str | os.PathLike[str], settings: Mapping[str, Any] | None = None, **more: Any) -> Run:
    """Runs an experiment in a new process, prints its progress, and returns its records.

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
    return load_run(_ended(_words("experiment", experiment, settings, more))["folder"])


def resume(folder: str | os.PathLike[str], settings: Mapping[str, Any] | None = None, **more: Any) -> Run:
    """Goes on with an interrupted run. Arguments and errors are those of `run`."""
    return load_run(_ended(_words("resume", folder, settings, more))["folder"])


def dry_run(experiment: str | os.PathLike[str], settings: Mapping[str, Any] | None = None, **more: Any) -> None:
    """Prints the turns, calls, tokens and price of a run or a sweep, without a model. Raises UserError as `run`."""
    _ended([*_words("experiment", experiment, settings, more), "dry_run=true"])


def _words(key: str, value: str | os.PathLike[str], *settings: Mapping[str, Any] | None) -> list[str]:
    """Writes the words of a command line for an experiment or a folder, and its settings."""

    def plain(setting: Any) -> Any:
        """Returns a number of numpy, or a path, as JSON has it."""
        return setting.item() if hasattr(setting, "item") else os.fspath(setting)

    words = [f"{key}={os.fspath(value)}"]
    try:
        for group in settings:
            words += [f"{name}={json.dumps(setting, default=plain)}" for name, setting in flat(group or {})]
        return words
    except TypeError as error:
        raise UserError(f"settings: expected text, numbers, truth values, lists and mappings ({error})") from error


def _ended(words: Sequence[str]) -> dict[str, str]:
    """Runs a command line in a new process. Returns its `outcome`; raises as `run`."""
    read_end, write_end = os.pipe()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    # A notebook's output is no file that a process could write to; its kernel claims to be a terminal.
    in_notebook = sys.stdout is not sys.__stdout__
    if in_notebook:
        environment["TTY_COMPATIBLE"] = "0"
    with open(read_end) as report:
        with open(write_end, "w"):
            process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-c", PROGRAM, *words, str(write_end)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if in_notebook else None,
                stderr=subprocess.STDOUT if in_notebook else None,
                text=True,
                pass_fds=[write_end],
                start_new_session=True,  # where Ctrl-C comes from `_ended` alone
            )
        with process:
            while True:
                try:
                    for line in process.stdout or ():
                        print(line, end="")
                    code = process.wait()
                    break
                except KeyboardInterrupt:  # passed on, and the run's end waited for
                    process.send_signal(signal.SIGINT)
        outcome: dict[str, str] = json.loads(report.read() or "{}")
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        error = outcome.get("error", f"the run ended with code {code}; its folder is {outcome.get('folder')}")
        raise UserError(error) if code == 2 else RunFailed(error)
    return outcome
