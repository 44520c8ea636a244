"""The project from Python: `load_run(folder)` reads what a run has recorded.

    from experiments.api import load_run

    run = load_run("runs/20261126-150000-mmqa_prune")
    print(run.scores.to_pandas().groupby("method")["utility"].mean())

Tables are read from the run folder each time they are asked for, also while the run goes on. Their columns are listed
in docs/python.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import Trace
from experiments.analysis.arrow_tables import RecordTable, results, run_tables, together
from experiments.config.config import Config, flat, is_sweep
from experiments.config.saved import read
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS

__all__ = ["RecordTable", "Run", "load_run"]


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


def _varied(folder: RunFolder, keys: Mapping[str, Any]) -> dict[str, Any]:
    own = dict(flat(asdict(read(folder.config))))
    # The name of a group is short for its kind.
    return {"run": folder.name, "seed": own["seed"], **{key: own.get(key, own.get(f"{key}.kind")) for key in keys}}
