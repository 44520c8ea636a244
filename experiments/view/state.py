"""Tells the work that a run has to do, and whether a process does it."""

import fcntl
import os
import re
import socket
from datetime import datetime
from pathlib import Path

import psutil

from actors.file_locks import try_lock
from actors.received import open_plain
from experiments.config.config import Config
from experiments.records import jsonl
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.start import Start
from experiments.records.trials import RESULTS
from topologies.catalogue import METHODS

ALONE = {method.name for method in METHODS if method.alone}  # methods without controls
# States of a run.
RUNNING = "running"
FINISHED = "finished"
FAILED = "failed"
STOPPED = "stopped"
UNREAD = "not read yet"
LOCKS = Path("/proc/locks")  # of Linux
LOG_BYTES = 2**16  # of the log's end, where the last failure is
# As the program logs what ends a run.
FAILURE = re.compile(r"^([\d-]{10} [\d:]{8}),\d+ ERROR root (?:the run failed|the disk failed)", re.MULTILINE)


def expected_answers(config: Config) -> int:
    """Counts as `Plan.evaluations`, which would import methods that the configuration names. 0: not known."""
    if config.job != "prune":
        return 0
    evaluations = len(config.methods)
    if config.attack.clean and config.attack.attacks("evaluate"):
        evaluations += len(config.methods)
    if config.compare.twins:
        evaluations += 2 * len(set(config.methods) - ALONE)
    return evaluations * (config.data.limit or 0)


def records_of(run: RunFolder, config: Config) -> Path:
    """Returns the file that a run's process locks while it writes the folder."""
    return run.path / (RESULTS if config.is_sweep else SCORES)


def state_of(run: RunFolder, config: Config, starts: list[Start]) -> str:
    """Finds a run's state from its lock, result, last process and log."""
    records = records_of(run, config)
    if records.exists():
        with open_plain(records, jsonl.MOST_BYTES) as file:
            if not try_lock(file, fcntl.LOCK_SH):  # a process writes the folder
                return RUNNING

    if (run.path / config.result_file).is_file():
        return FINISHED
    # Before its first record and after its last, a run has no lock.
    if starts and is_alive(starts[-1]):
        return RUNNING
    if not starts or not run.log.exists():
        return STOPPED

    with open_plain(run.log, jsonl.MOST_BYTES) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
        failures = FAILURE.findall(file.read(LOG_BYTES).decode(errors="replace"))

    started = datetime.fromisoformat(starts[-1].time).astimezone()
    has_failed = bool(failures) and failures[-1] >= started.strftime("%Y-%m-%d %H:%M:%S")
    return FAILED if has_failed else STOPPED


def writer_of(path: Path) -> int | None:
    """Finds the process that has the lock of a file, as the kernel knows it. None where there is none, or no Linux.

    A record of the folder may name any process of this machine.
    """
    try:
        status = path.stat()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        locks = LOCKS.read_text().splitlines()
    except OSError:
        return None
    for lock in locks:
        # Such as `1: FLOCK  ADVISORY  WRITE 707 fd:01:4325 0 EOF`; 0 is a process of another container.
        words = lock.split()
        if words[1:2] == ["FLOCK"] and words[5] == device and words[3] == "WRITE" and words[4] != "0":
            return int(words[4])
    return None


def is_alive(start: Start) -> bool:
    """Tests whether the process that made a start lives on this machine."""
    if not start.pid or start.host != socket.gethostname():
        return False
    try:
        created_s = psutil.Process(start.pid).create_time()
    except psutil.Error:
        return False
    # The id may be a later process's by now. A start is recorded in whole seconds.
    return created_s <= datetime.fromisoformat(start.time).timestamp() + 1
