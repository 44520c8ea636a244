"""The results of a sweep so far: a line per finished trial, from which its tables, figures and report are made."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from actors.errors import UserError
from experiments.records import jsonl

RESULTS, TRIALS = "trials.jsonl", "trials"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One finished trial.

    `name` is its folder's below `trials/`, itself a run folder; `values` are the varied settings by dotted key,
    without the seed; `metrics` is its metrics.json. A trial that was stopped early has none: `stopped` is its number of
    training steps (0: not stopped), `utility` the mean training utility until then.
    """

    name: str
    values: Mapping[str, Any]
    seed: int
    metrics: Mapping[str, Any]
    stopped: int = 0
    utility: float | None = None

    def encode(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> TrialResult:
        return TrialResult(**json.loads(line))


def read_results(folder: Path, stopped: bool = False) -> list[TrialResult]:
    """Results in a sweep's folder, in the order of their names; with `stopped`, those stopped early as well."""
    results = jsonl.records(folder / RESULTS, TrialResult.decode, "start a new sweep")
    # Trials finish in any order; names begin with a number, so tables are the same every time.
    return sorted((result for result in results if stopped or not result.stopped), key=lambda result: result.name)


class Results:
    """The one writer of trials.jsonl. Opening it cuts off a line that a killed sweep left incomplete.

    Raises UserError when another process is running the sweep, or the file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = (folder / RESULTS).open("ab", buffering=0)
        try:
            # Released by the kernel when the process dies, so no stale lock stops a resumption.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise UserError(f"{folder} is being written by another process; wait for it or stop it") from error
        jsonl.cut(folder / RESULTS)  # under the lock: another process may be writing that line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    @property
    def done(self) -> set[str]:
        """Names of the trials that are not to be repeated."""
        return {result.name for result in read_results(self._folder, stopped=True)}

    def append(self, result: TrialResult) -> None:
        """Adds a result, which is on disk when this returns. Raises UserError when there is no room for it."""
        jsonl.append(self._file, result.encode(), sync=True)
