"""Reads runs in rows: state, progress, tokens and money, and the lines that stop and resume them."""

import math
import time
from pathlib import Path
from threading import Lock

from actors.errors import UserError
from actors.received import BROKEN, reason_of
from experiments.config.config import Config
from experiments.config.references import resumption
from experiments.config.saved import read
from experiments.records.checkpoint import LEARNING
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.start import STARTS, Start
from experiments.records.trials import RESULTS, TRIALS
from experiments.records.usage import total
from experiments.view.folders import Root, files_of
from experiments.view.line_count import LineCount
from experiments.view.saved_overview import Overview, SavedOverview
from experiments.view.state import (
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    UNREAD,
    expected_answers,
    records_of,
    state_of,
    writer_of,
)


class Overviews:
    """Overviews of the runs of a folder, for several threads. Each is read again only where its files have changed."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._rows: dict[str, _Row] = {}

    def all(self, run: str | None = None, within_s: float = math.inf) -> list[Overview]:
        """Overviews of the folder's runs, or of one run and its trials.

        Those that are not read within so many seconds are as they were before; the next calls go on from there. One run
        that is named is always read.
        """
        ends_s = time.monotonic() + within_s
        if run is None:
            return [self._overview(name, ends_s) for name in self.root.names()]
        return [self._overview(run, math.inf), *(self._overview(name, ends_s) for name in self.root.trials(run))]

    def _overview(self, name: str, ends_s: float) -> Overview:
        return self._rows.setdefault(name, _Row(self.root, name)).overview(ends_s)


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
        self._counts: dict[Path, LineCount] = {}

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
            files = files_of(self._run)
            # A run that is killed changes no file.
            if files != self._files or self._overview.state == RUNNING:
                self._files = files
                saved = SavedOverview.find(self._run, files)
                self._overview = saved.of(self._overview.name) if saved else self._read()
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
        return self._counts.setdefault(path, LineCount(path, without)).count()


def save_overview(folder: Path) -> None:
    """Writes the overview of a finished run into its folder. Nothing for any other run. Raises OSError without room."""
    [overview] = Overviews(Root(folder.parent, folder.name)).all()
    if overview.state == FINISHED:
        SavedOverview.write(RunFolder(folder), overview, files_of(RunFolder(folder)))
