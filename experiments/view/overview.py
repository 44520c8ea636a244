"""A run in one row: state, progress, tokens and money. It has the lines that stop and resume it."""

import fcntl
import math
import os
import re
import socket
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from threading import Lock

import psutil

from actors.errors import UserError
from actors.file_locks import try_lock
from actors.received import BROKEN, open_plain, reason_of
from experiments.config.config import Config
from experiments.config.references import resumption
from experiments.config.saved import read
from experiments.records import jsonl
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.start import STARTS, Start
from experiments.records.trials import RESULTS, TRIALS
from experiments.records.usage import total
from experiments.view.folders import Root
from topologies.catalogue import METHODS

ALONE = {method.name for method in METHODS if method.alone}  # methods without controls
# States of a run.
RUNNING = "running"
FINISHED = "finished"
FAILED = "failed"
STOPPED = "stopped"
UNREAD = "not read yet"
MOST_FILES = 1_000  # directly in a run folder; runs have some twenty
LEARNED = "learned"
LOCKS = Path("/proc/locks")  # of Linux
LOG_BYTES = 2**16  # of the log's end, where the last failure is
# As the program logs what ends a run.
FAILURE = re.compile(r"^([\d-]{10} [\d:]{8}),\d+ ERROR root (?:the run failed|the disk failed)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in a list. One that cannot be read has a `name` and a `problem` alone; one not read yet is `UNREAD`.

    kind: a run, a sweep, or a study by its job. state: a stopped run was interrupted or killed.
    completed: evaluated answers, or a sweep's finished trials, of `expected` (0: not known before the end).
    steps: training steps of all learners. price: of the tokens so far, where the run knows prices.
    stop, resume: what to type, where it can be.
    """

    name: str
    problem: str = ""
    kind: str = ""
    experiment: str = ""
    state: str = ""
    started: str = ""
    completed: int = 0
    expected: int = 0
    steps: int = 0
    tokens: int = 0
    price: float | None = None
    stop: str = ""
    resume: str = ""


class Overviews:
    """Overviews of the runs of a folder, for several threads. Each is read again only where its files have changed."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._rows: dict[str, _Row] = {}

    def all(self, run: str | None = None, within_s: float = math.inf) -> list[Overview]:
        """Overviews of the folder's runs, or of one run and its trials.

        Those that are not read within so many seconds are as they were before; the next calls go on from there.
        """
        ends_s = time.monotonic() + within_s
        names = self.root.names() if run is None else [run, *self.root.trials(run)]
        overviews: list[Overview] = []
        for name in names:
            row = self._rows.setdefault(name, _Row(self.root, name))
            overviews.append(row.overview(ends_s))
        return overviews


class _Row:
    """The overview of one run, and what the next reading of the run goes on from."""

    def __init__(self, root: Root, name: str) -> None:
        self._root = root
        self._run = RunFolder(root.path / name)
        self._overview = Overview(name, state=UNREAD)
        self._lock = Lock()
        self._files: object = None
        # Of a run that goes on: reading it takes milliseconds, and 5,000 of them a lot of memory.
        self._config: Config | None = None
        self._counts: dict[Path, _LineCount] = {}

    def overview(self, ends_s: float) -> Overview:
        """Reads the run where its files have changed, unless that is to begin after a time of the monotonic clock.

        A run that cannot be read is not read again either before that.
        """
        remaining_s = ends_s - time.monotonic()
        # Another thread may be reading it.
        timeout_s = -1 if remaining_s == math.inf else max(0, remaining_s)
        if remaining_s <= 0 or not self._lock.acquire(timeout=timeout_s):
            return self._overview
        try:
            files = _files_of(self._run)
            # A run that is killed changes no file.
            if files != self._files or self._overview.state == RUNNING:
                self._files = files
                self._overview = self._read()
        except (UserError, *BROKEN) as error:
            problem = str(error)
            if not isinstance(error, UserError):
                problem = f"{self._run.path} cannot be read: {reason_of(error)}"
            self._overview = Overview(self._overview.name, problem=problem)
        finally:
            self._lock.release()
        return self._overview

    def _read(self) -> Overview:
        run = self._run
        name = self._overview.name
        config = self._config or read(run.config)
        usage = total(run)
        starts = list(Start.read(run.path / STARTS))
        state = state_of(run, config, starts)
        self._config = config if state == RUNNING else None
        if config.is_sweep:
            kind = "sweep"
            completed = self._count(run.path / RESULTS)
            expected = len(list(self._root.trials(name)))
        else:
            kind = "run" if config.job == "prune" else config.job
            completed = self._count(run.path / SCORES)
            expected = expected_answers(config)

        stop = ""
        resume = ""
        if state == RUNNING:
            writer = writer_of(records_of(run, config))
            stop = f"kill {writer}" if writer else ""
        # A trial is resumed with its sweep.
        elif state in (STOPPED, FAILED) and TRIALS not in name.split("/"):
            resume = resumption(config, run.path)
        return Overview(
            name=name,
            kind=kind,
            experiment=config.experiment,
            state=state,
            started=starts[0].time if starts else "",
            completed=completed,
            expected=expected,
            # Step 0 of a stage is its start.
            steps=sum(self._count(graph.path / LEARNING, without=b'"step":0,') for graph in run.all_learned()),
            tokens=usage.prompt_tokens + usage.completion_tokens,
            price=config.costs.price(
                usage.prompt_tokens - usage.cached_tokens, usage.completion_tokens, usage.cached_tokens
            ),
            stop=stop,
            resume=resume,
        )

    def _count(self, path: Path, without: bytes = b"") -> int:
        return self._counts.setdefault(path, _LineCount(path, without)).count()


class _LineCount:
    """Counts the complete lines of a plain file that grows, but those with some bytes, from where it ended before."""

    def __init__(self, path: Path, without: bytes) -> None:
        self._path = path
        self._without = without
        self._file = 0
        self._place = 0
        self._lines = 0

    def count(self) -> int:
        """Raises UserError for a line that is longer than any record."""
        try:
            file = open_plain(self._path, jsonl.MOST_BYTES)
        except FileNotFoundError:
            return 0
        with file:
            status = os.fstat(file.fileno())
            # It was replaced, or cut by a resumed run.
            if status.st_ino != self._file or status.st_size < self._place:
                self._file = status.st_ino
                self._place = 0
                self._lines = 0
            size = jsonl.READ_BYTES
            while True:
                file.seek(self._place)
                piece = file.read(size)
                end = piece.rfind(b"\n") + 1
                if end:
                    self._lines += piece.count(b"\n")
                    if self._without:
                        self._lines -= piece.count(self._without, 0, end)
                    self._place += end
                elif len(piece) < size:
                    return self._lines
                elif size >= jsonl.LINE_BYTES:
                    raise jsonl.endless_line(self._path)
                else:
                    size *= 8


def _files_of(run: RunFolder) -> list[tuple[str, int, int]]:
    """Lists name, size and date of the files that an overview depends on.

    Raises UserError for links, pipes and devices among them. Other folders than those of learned graphs are not looked
    into: whoever reads them checks them.
    """
    files: list[tuple[str, int, int]] = []
    folders = [run.path]
    if S_ISDIR(_mode(run.path / LEARNED)):
        folders += [Path(entry.path) for entry in _entries(run.path / LEARNED) if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        for entry in _entries(folder):
            status = entry.stat(follow_symlinks=False)
            if S_ISREG(status.st_mode):
                files.append((entry.path, status.st_size, status.st_mtime_ns))
            elif not S_ISDIR(status.st_mode):
                raise UserError(f"{entry.path} is no plain file: a run folder has plain files only; delete it")
    return sorted(files)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Lists a folder. Raises UserError for one of more entries than any run's."""
    with os.scandir(folder) as entries:
        listed = list(islice(entries, MOST_FILES + 1))
    if len(listed) > MOST_FILES:
        raise UserError(f"{folder} has more than {MOST_FILES:,} files, which no run makes; name an intact run folder")
    return listed


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


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
