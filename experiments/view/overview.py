"""A run in one row: state, progress, tokens and money. It has the lines that stop and resume it."""

import fcntl
import os
import re
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock

import psutil

from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.references import resumption
from experiments.config.saved import read
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.start import STARTS, Start
from experiments.records.trials import RESULTS, TRIALS
from experiments.records.usage import total
from experiments.view.folders import Root
from experiments.view.live import LineIndex
from topologies.catalogue import METHODS

ALONE = {method.name for method in METHODS if method.alone}  # methods without controls
# States of a run.
RUNNING = "running"
FINISHED = "finished"
FAILED = "failed"
STOPPED = "stopped"
LOG_BYTES = 2**16  # of the log's end, where the last failure is
# As the program logs what ends a run.
FAILURE = re.compile(r"^([\d-]{10} [\d:]{8}),\d+ ERROR root (?:the run failed|the disk failed)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in a list. One that cannot be read has a `name` and a `problem` alone.

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
    """Overviews of the runs of a folder. A run is read again only where one of its files has changed."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._lock = Lock()  # each page has a thread that asks
        self._overviews: dict[str, tuple[object, Overview]] = {}
        self._counts: dict[Path, tuple[LineIndex, str, int]] = {}

    def all(self, run: str | None = None) -> list[Overview]:
        """Overviews of the folder's runs, or of one run and its trials."""
        names = self.root.names() if run is None else [run, *self.root.trials(run)]
        with self._lock:
            return list(map(self._overview, names))

    def _overview(self, name: str) -> Overview:
        try:
            run = self.root.run(name)
            files = [*run.path.iterdir(), *(graph.path / LEARNING for graph in run.all_learned())]
            times = sorted((path, path.stat().st_mtime_ns) for path in files)
            read_times, overview = self._overviews.get(name, (None, Overview(name)))
            # A run that is killed changes no file.
            if read_times != times or overview.state == RUNNING:
                overview = self._read(name, run)
                self._overviews[name] = times, overview

            return overview
        except (UserError, OSError) as error:
            return Overview(name, problem=str(error))

    def _read(self, name: str, run: RunFolder) -> Overview:
        config = read(run.config)
        usage = total(run)
        starts = list(Start.read(run.path / STARTS))
        started = ""
        process = None
        if starts:
            started = starts[0].time
            process = process_of(starts[-1])
        state = state_of(run, config, starts, process)
        if config.is_sweep:
            kind = "sweep"
            completed = self._count(run.path / RESULTS)
            expected = len(list(self.root.trials(name)))
        else:
            kind = "run" if config.job == "prune" else config.job
            completed = self._count(run.path / SCORES)
            expected = expected_answers(config)

        stop = ""
        if process and state == RUNNING:
            stop = f"kill -INT {process}"
        resume = ""
        # A trial is resumed with its sweep.
        if state in (STOPPED, FAILED) and TRIALS not in name.split("/"):
            resume = resumption(config, run.path)
        return Overview(
            name=name,
            kind=kind,
            experiment=config.experiment,
            state=state,
            started=started,
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

    def _count(self, path: Path, without: bytes = b"no line") -> int:
        """Counts the lines of a file that lack some bytes. It reads on from where the last call ended."""
        lines, version, count = self._counts.get(path, (LineIndex(path), "", 0))
        new_lines = [line for line in lines.new() if without not in line]
        if version != lines.version:
            count = 0
        count += len(new_lines)
        self._counts[path] = lines, lines.version, count
        return count


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


def state_of(run: RunFolder, config: Config, starts: list[Start], process: int | None) -> str:
    """Finds a run's state from its lock, result, last process and log."""
    name = RESULTS if config.is_sweep else SCORES
    records = run.path / name
    if records.exists():
        with records.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # a process writes the folder
                return RUNNING

    if (run.path / config.result_file).is_file():
        return FINISHED
    # Before its first record and after its last, a run has no lock.
    if process:
        return RUNNING
    if not starts or not run.log.exists():
        return STOPPED

    with run.log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
        failures = FAILURE.findall(file.read(LOG_BYTES).decode(errors="replace"))

    started = datetime.fromisoformat(starts[-1].time).astimezone()
    has_failed = bool(failures) and failures[-1] >= started.strftime("%Y-%m-%d %H:%M:%S")
    return FAILED if has_failed else STOPPED


def process_of(start: Start) -> int | None:
    """Finds the id of the process that made a start, if it lives on this machine. None otherwise."""
    if not start.pid or start.host != socket.gethostname():
        return None
    try:
        created_s = psutil.Process(start.pid).create_time()
    except psutil.Error:
        return None
    # The id may be a later process's by now. A start is recorded in whole seconds.
    if created_s > datetime.fromisoformat(start.time).timestamp() + 1:
        return None
    return start.pid
