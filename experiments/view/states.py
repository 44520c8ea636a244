"""The state of a run: from its locks, its records, its log and the process that started it."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import psutil

from experiments.config.config import Config, is_sweep
from experiments.records import jsonl
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.start import STARTS, Start
from experiments.records.trials import RESULTS

LOG_BYTES = 2**16  # of the log's end, where the last failure is
# As `run.py` logs what ends a run.
FAILED = re.compile(r"^([\d-]{10} [\d:]{8}),\d+ ERROR root (?:the run failed|the disk failed)", re.MULTILINE)


class State(StrEnum):
    """What a run does. A stopped one was interrupted or killed."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


def last_start(run: RunFolder) -> Start | None:
    """Reads the last start of a run; None for a trial, whose sweep was started. Raises UserError for damaged starts."""
    return max(
        jsonl.records(run.path / STARTS, Start.decode, "delete the file"), key=lambda one: one.time, default=None
    )


def state_of(run: RunFolder, config: Config, start: Start | None) -> State:
    """Finds the state of a run or a sweep; `start` is its last start."""
    if _is_locked(run.path / (RESULTS if is_sweep(config) else SCORES)):
        return State.RUNNING
    if result_file(run, config).is_file():
        return State.FINISHED
    # Before its first record and after its last, a run has no lock.
    if process_of(start):
        return State.RUNNING
    return State.FAILED if _has_failed(run.log, start) else State.STOPPED


def result_file(run: RunFolder, config: Config) -> Path:
    """The file that a run, a sweep or a study writes at its end."""
    name = "sweep" if is_sweep(config) else "metrics" if config.job == "prune" else config.job
    return run.path / f"{name}.json"


def process_of(start: Start | None) -> int | None:
    """The id of the process that made a start, if it lives on this machine; None otherwise."""
    if start is None or not start.pid or start.host != socket.gethostname():
        return None
    try:
        born = psutil.Process(start.pid).create_time()
        # The id may be another process's by now, which began later. The start is recorded in whole seconds.
        return start.pid if born <= datetime.fromisoformat(start.time).timestamp() + 1 else None
    except (psutil.Error, ValueError):
        return None


def _is_locked(path: Path) -> bool:
    """True while a process writes the file and its folder."""
    try:
        # The kernel takes the lock away as soon as the file is closed, and with it the run's chance to find it taken.
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _has_failed(log: Path, start: Start | None) -> bool:
    """True where the log has a failure since the last start."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            failures = FAILED.findall(file.read(LOG_BYTES).decode(errors="replace"))
        began = datetime.fromisoformat(start.time).astimezone().replace(tzinfo=None) if start else datetime.min
        return bool(failures) and datetime.fromisoformat(failures[-1]) >= began
    except (OSError, ValueError):
        return False
