"""Results of a sweep: one line per finished trial, the source of tables, figures and report."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from experiments.records import jsonl
from experiments.records.records import Count, FileName, Record, Share

RESULTS, TRIALS = "trials.jsonl", "trials"
LEARNED_FROM = "learned_from"  # the method with whose discussions a graph was learned, if they were not its own

# What a learner's metrics say of it beyond numbers, in no table of a sweep.
_OF_LEARNERS = {"surrogate": dict, "confirmed": str, "doubts": list, "monitor": dict}


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
        methods = self.metrics.get("methods")
        rows = methods.values() if isinstance(methods, dict) else [None]
        if not all(isinstance(row, dict) and "utility" in row for row in rows):
            raise ValueError("metrics: expected those of a finished trial, with its methods")
        for name in ("experiment", "model", "dataset", "metric"):
            if not isinstance(self.metrics.get(name, ""), str):
                raise ValueError(f"metrics.{name}: expected text")
        for method, row in self.metrics["methods"].items():
            for name, value in row.items():
                if name == LEARNED_FROM:
                    if not isinstance(value, str) or value not in self.metrics["methods"]:
                        raise ValueError(f"metrics of {method}: {name}: expected one of the trial's methods")
                elif not isinstance(value, _OF_LEARNERS.get(name, ())) and not _is_measure(value):
                    raise ValueError(f"metrics of {method}: {name}: expected a number, or a list of numbers")


def _is_measure(value: Any) -> bool:
    numbers = value if isinstance(value, list) else [value]
    return all(number is None or isinstance(number, (int, float)) for number in numbers)


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
