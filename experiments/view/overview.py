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
from experiments.records import jsonl, usage
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.start import STARTS, Start
from experiments.records.trials import RESULTS, TRIALS
from experiments.view.folders import Root
from experiments.view.live import Lines
from topologies.catalogue import METHODS

ALONE = {method.name for method in METHODS if method.alone}  # methods without controls
RUNNING, FINISHED, FAILED, STOPPED = "running", "finished", "failed", "stopped"
LOG_BYTES = 2**16  # of the log's end, where the last failure is
# As the program logs what ends a run.
FAILURE = re.compile(r"^([\d-]{10} [\d:]{8}),\d+ ERROR root (?:the run failed|the disk failed)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in a list. One that cannot be read has a `name` and a `problem` alone.

    kind: a run, a sweep, or a study by its job. state: a stopped run was interrupted or killed.
    done: evaluated answers, or a sweep's finished trials, of `planned` (0: not known before the end).
    steps: training steps of all learners. price: of the tokens so far, where the run knows prices.
    stop, resume: what to type, where it can be.
    """

    name: str
    problem: str = ""
    kind: str = ""
    experiment: str = ""
    state: str = ""
    started: str = ""
    done: int = 0
    planned: int = 0
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
        self._known: dict[str, tuple[object, Overview]] = {}
        self._counts: dict[Path, tuple[Lines, str, int]] = {}

    def all(self, run: str | None = None) -> list[Overview]:
        """Overviews of the folder's runs, or of one run and its trials."""
        names = self.root.names() if run is None else [run, *self.root.trials(run)]
        found = []
        with self._lock:
            for name in names:
                try:
                    folder = self.root.run(name)
                    files = [*folder.path.iterdir(), *(learned.path / LEARNING for learned in folder.all_learned())]
                    times = sorted((path, path.stat().st_mtime_ns) for path in files)
                    known, overview = self._known.get(name, (None, Overview(name)))
                    # A run that is killed changes no file.
                    if known != times or overview.state == RUNNING:
                        overview = self._read(name, folder)
                        self._known[name] = times, overview
                except (UserError, OSError) as error:
                    overview = Overview(name, problem=str(error))
                found.append(overview)
        return found

    def _read(self, name: str, run: RunFolder) -> Overview:
        config, used = read(run.config), usage.total(run)
        sweep = config.is_sweep
        starts = list(jsonl.records(run.path / STARTS, Start.decode, jsonl.DAMAGED))
        process = process_of(starts[-1]) if starts else None
        state = state_of(run, config, starts, process)
        # As `Plan.evaluations`, which would import methods that the configuration names.
        clean = config.attack.clean and config.attack.attacks("evaluate")
        controlled = set(config.methods) - ALONE if config.compare.twins else ()
        evaluations = len(config.methods) * (1 + clean) + 2 * len(controlled)
        answers = evaluations * (config.data.limit or 0)
        own = TRIALS not in name.split("/")  # a trial is resumed with its sweep
        return Overview(
            name=name,
            kind="sweep" if sweep else "run" if config.job == "prune" else config.job,
            experiment=config.experiment,
            state=state,
            started=starts[0].time if starts else "",
            done=self._count(run.path / (RESULTS if sweep else SCORES)),
            planned=sum(1 for _ in self.root.trials(name)) if sweep else answers if config.job == "prune" else 0,
            # Step 0 of a stage is its start.
            steps=sum(self._count(learned.path / LEARNING, but=b'"step":0,') for learned in run.all_learned()),
            tokens=used.prompt_tokens + used.completion_tokens,
            price=config.costs.price(
                used.prompt_tokens - used.cached_tokens, used.completion_tokens, used.cached_tokens
            ),
            stop=f"kill -INT {process}" if process and state == RUNNING else "",
            resume=resumption(config, run.path) if own and state in (STOPPED, FAILED) else "",
        )

    def _count(self, path: Path, but: bytes = b"no line") -> int:
        """Counts the lines of a file without `but`. It reads on from where the last call ended."""
        lines, version, counted = self._counts.get(path, (Lines(path), "", 0))
        added = sum(but not in line for line in lines.new())
        counted = counted + added if version == lines.version else added
        self._counts[path] = lines, lines.version, counted
        return counted


def state_of(run: RunFolder, config: Config, starts: list[Start], process: int | None) -> str:
    """Finds a run's state from its lock, result, last process and log."""
    records = run.path / (RESULTS if config.is_sweep else SCORES)
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
    began = datetime.fromisoformat(starts[-1].time).astimezone()
    return FAILED if failures and failures[-1] >= began.strftime("%Y-%m-%d %H:%M:%S") else STOPPED


def process_of(start: Start) -> int | None:
    """Finds the id of the process that made a start, if it lives on this machine. None otherwise."""
    try:
        born = psutil.Process(start.pid).create_time() if start.pid and start.host == socket.gethostname() else None
    except psutil.Error:
        return None
    # The id may be a later process's by now. A start is recorded in whole seconds.
    return start.pid if born and born <= datetime.fromisoformat(start.time).timestamp() + 1 else None
