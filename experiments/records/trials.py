"""Results of a sweep: one line per finished trial, the source of tables, figures and report."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from actors.file_locks import try_lock
from experiments.records import jsonl
from experiments.records.records import Count, FileName, Record, Share, first_problem

RESULTS, TRIALS = "trials.jsonl", "trials"
LEARNED_FROM = "learned_from"  # the method with whose discussions a graph was learned, if they were not its own

Measure = float | list[float | None] | None


class MethodMetrics(BaseModel, extra="allow", strict=True):
    """A method's row in metrics.json: its measures, and a learner's notes beyond numbers, in no table of a sweep."""

    __pydantic_extra__: dict[str, Measure]
    utility: float | None
    learned_from: str = ""
    surrogate: dict[str, Any] = {}
    confirmed: str = ""
    doubts: list[str] = []
    monitor: dict[str, Any] = {}


class TrialMetrics(BaseModel, strict=True):
    """The content of metrics.json that tables of a sweep need."""

    experiment: str = ""
    model: str = ""
    dataset: str = ""
    metric: str = ""
    methods: dict[str, MethodMetrics]


@dataclass(frozen=True, slots=True)
class TrialResult(Record):
    """One finished trial.

    name: its run folder below `trials/`.
    values: the varied settings by dotted key, without the seed.
    metrics: the content of metrics.json; empty for a trial that was stopped early.
    stopped: training steps of a trial that was stopped early, else 0.
    utility: mean training utility of a stopped trial.
    """

    name: FileName
    values: Mapping[str, Any]
    seed: int
    metrics: Mapping[str, Any]
    stopped: Count = 0
    utility: Share | None = None
    REMEDY: ClassVar[str] = "start a new sweep"

    def check(self) -> None:
        """Raises ValueError unless a finished trial has metrics: numbers for each of its methods."""
        if self.stopped:
            return
        try:
            methods = TrialMetrics.model_validate(self.metrics).methods
        except ValidationError as error:
            raise ValueError(f"metrics: {first_problem(error)}") from None
        for method, row in methods.items():
            if row.learned_from not in ("", *methods):
                raise ValueError(f"metrics: methods.{method}.{LEARNED_FROM}: expected one of the trial's methods")


def read_results(folder: Path, stopped: bool = False) -> list[TrialResult]:
    """Results in a sweep's folder by name. With `stopped`, also of trials that were stopped early."""
    results = [result for result in TrialResult.read(folder / RESULTS) if stopped or not result.stopped]
    # Trials finish in any order; names begin with a number, so tables are the same every time.
    return sorted(results, key=lambda result: result.name)


@contextmanager
def results_written(folder: Path) -> Iterator[Callable[[TrialResult], int]]:
    """Opens trials.jsonl for its only writer. Yields a function that adds a result and waits until it is on disk.

    Raises UserError when another process has the file, it is damaged, or there is no room for a result.
    """
    with (folder / RESULTS).open("ab", buffering=0) as file:
        jsonl.lock(file)
        jsonl.cut(folder / RESULTS)  # under the lock: another process may be writing that line
        yield lambda result: jsonl.append(file, result.encode(), sync=True)


def wait_for_writer(path: Path, longest_s: float) -> None:
    """Waits until no process writes a trial's file. Those of a killed sweep may outlive it by a moment."""
    until = time.monotonic() + longest_s
    while path.exists() and time.monotonic() < until:
        # Opened anew each time: closing the file also releases the lock that was only taken as a test.
        with path.open("ab") as file:
            if try_lock(file):
                return
        time.sleep(0.1)
