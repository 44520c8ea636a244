"""Weights & Biases: the run's figures, offline by default. It never ends a run and never delays its end for long.

All calls of W&B run one after another in one thread. The first that fails ends the tracking; the end of a run waits for
the thread `FINISH_S` seconds at most (`STOP_S` after an error). Either is one warning in the run's log, and
`Tracker.problem` for the terminal.
"""

from __future__ import annotations

import functools
import json
import logging
import netrc
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

import psutil

from actors.errors import UserError
from actors.messages import Usage
from actors.secrets import secret
from actors.settings import setting
from experiments.records.recorder import RunFolder

if TYPE_CHECKING:
    import wandb

log = logging.getLogger(__name__)

FINISH_S, STOP_S = 120.0, 10.0  # seconds for W&B to store or upload at the end of a run: a good one, any other
TEARDOWN_S = 2.0  # seconds for W&B's service to end after a failure
WANDB_KEY = "WANDB_API_KEY"  # environment variable of the account's key
SERVICE = "wandb-core"  # the process that works for W&B
LOOK_S = 0.02  # seconds between looks for the end of a log
AXIS = "/total_steps"
MOST_ROWS = 5_000  # of the table of discussions; W&B shows 10,000 rows of a table at most
MOST_CHARACTERS = 500  # of a cell's text
COLUMNS = ("question", "method", "text", "gold", "answer", "utility", "f1", "prompt_tokens", "completion_tokens")
GRAPHS = ("topology.graphml", "topology.json")


@dataclass
class WandbSettings:
    """Weights & Biases. Offline runs lie in the run folder, and `wandb sync` uploads them.

    Online runs need a key in WANDB_API_KEY or, after `wandb login`, in ~/.netrc.
    """

    mode: Literal["offline", "online", "disabled"] = setting("offline", outside=lambda value: value == "online")
    """Write runs into the run folder, upload them, or neither."""
    project: str = "agora-mm"
    """Project that runs are in."""
    group: str | None = None
    """Group that a run is in (null: none; the trials of a sweep: the sweep's folder)."""

    def __post_init__(self) -> None:
        """Raises ValueError for names that W&B would refuse when the run has started."""
        for name, value in (("project", self.project), ("group", self.group)):
            if value is not None and not re.fullmatch(r"[^/\\#?%:\x00-\x1f]{1,128}", value):
                raise ValueError(f"{name}: expected 1 to 128 characters, and none of / \\ # ? % : or a line break")

    def check_key(self) -> None:
        """Raises UserError where runs are to be uploaded without a key: W&B would write nothing anywhere."""
        if self.mode != "online" or secret(WANDB_KEY):
            return

        host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
        place = os.environ.get("NETRC") or next(
            (p for p in ("~/.netrc", "~/_netrc") if Path(p).expanduser().exists()), ""
        )
        with suppress(OSError, netrc.NetrcParseError):
            if place and netrc.netrc(Path(place).expanduser()).authenticators(host):
                return

        raise UserError(
            f"wandb.mode=online: there is no key for {host}; export WANDB_API_KEY or run `wandb login`, or leave it "
            "offline and upload with `wandb sync`"
        )


class Tracker:
    """One W&B run, named by the run folder, so that a resumed run continues it. As a context manager, it finishes it.

    `disabled` sends nothing and does not import W&B. `on_step` receives every training step as well. `trial_id` is the
    id of a trial of a sweep, whatever ids the environment names. With `waits`, W&B is started by the first call.

    problem: the reason why W&B lacks a part of the run, in one line with the remedy; empty where it has all.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        settings: WandbSettings,
        trial_id: str | None = None,
        on_step: Callable[[Mapping[str, Any]], None] = lambda step: None,
        *,
        waits: bool = False,
    ) -> None:
        self.problem = ""
        self._on_step = on_step
        self._path = path
        self._calls: queue.SimpleQueue[tuple[str, Callable[[wandb.Run], object]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._axes: set[str] = set()
        self._waiting: threading.Thread | None = None
        if settings.mode != "disabled":
            start = functools.partial(_start, path, dict(config), settings, trial_id)
            self._waiting = threading.Thread(target=self._work, args=(start,), name="tracking", daemon=True)
            if not waits:
                self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # An interrupted run has not gone well either.
        exit_code = 0 if kind is None else 1
        self.finish(exit_code)

    def log(self, step: Mapping[str, Any]) -> None:
        """Logs a training step's numbers as `<method>/<name>` over the method's `total_steps`. Learners take turns in
        one run.
        """
        # Here and not in the thread: a sweep counts on it, and its errors are the sweep's.
        self._on_step(step)
        numbers = dict(step)

        def send(run: wandb.Run) -> None:
            for name in numbers:
                if name.endswith(AXIS) and name not in self._axes:
                    run.define_metric(f"{name.removesuffix(AXIS)}/*", step_metric=name)
                    self._axes.add(name)
            run.log(numbers)

        self._call("log", send)

    def summary(self, metrics: Mapping[str, Any], figures: Sequence[Path] = (), usage: Usage | None = None) -> None:
        """Logs metrics.json, figures, discussions, usage and learned graphs."""
        self._call("summarise", lambda run: summarise(run, self._path, metrics, figures, usage))

    def finish(self, exit_code: int = 0) -> None:
        """Ends the W&B run within the time that it has. Does nothing when called again."""
        thread = self._thread
        self._thread = None
        self._waiting = None
        if thread is None:
            return

        self._calls.put(("finish", lambda run: _finish(run, exit_code)))
        self._calls.put(None)
        wait_s = STOP_S if exit_code else FINISH_S
        thread.join(wait_s)
        hangs = thread.is_alive()
        if hangs:
            self._fail(f"W&B did not end within {wait_s:g} s and may lack the last of this run")

        if self.problem:
            # Otherwise W&B would wait for its service again when this process exits.
            teardown = threading.Thread(target=_tear_down, args=(hangs,), name="tracking", daemon=True)
            teardown.start()
            teardown.join(TEARDOWN_S)

    def _begin(self) -> None:
        if self._waiting is not None:
            self._thread = self._waiting
            self._waiting = None
            self._thread.start()

    def _call(self, what: str, call: Callable[[wandb.Run], object]) -> None:
        self._begin()
        if self._thread is not None:  # else nothing takes calls, and a disabled run would collect them
            self._calls.put((what, call))

    def _work(self, start: Callable[[], wandb.Run]) -> None:
        """Starts the W&B run and makes its calls, in the thread."""
        step = "start"
        run = None
        try:
            run = start()
            while task := self._calls.get():
                step, call = task
                call(run)
        # Anything may go wrong in an outside service, and a run of hours must not end for it.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            self._fail(f"W&B could not {step}, the run goes on without it: {reason}")
            with suppress(Exception):
                if run:
                    run.finish(exit_code=1)

    def _fail(self, problem: str) -> None:
        """Keeps and logs the first problem: a call that is given up fails later, too."""
        if not self.problem:
            self.problem = f"{problem}; send the run again with: python run.py track={self._path}"
            log.warning("%s", self.problem)


def _start(path: Path, config: dict[str, Any], settings: WandbSettings, trial_id: str | None) -> wandb.Run:
    if trial_id:
        # Started by an agent of W&B's sweeps, all trials would be the agent's one run.
        for name in ("WANDB_RUN_ID", "WANDB_SWEEP_ID"):
            os.environ.pop(name, None)

    # Without this an offline run still asks the network for the error collector's address.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    # Some messages ignore the settings below.
    os.environ.setdefault("WANDB_SILENT", "true")
    # The environment, which W&B's processes inherit, no longer has it.
    api_key = secret(WANDB_KEY) if settings.mode == "online" else None
    # Imported late: it is slow to import, and `disabled` runs do without it.
    import wandb

    return wandb.init(
        dir=path,
        config=config,
        mode=settings.mode,
        project=settings.project,
        group=settings.group,
        job_type=config.get("job"),
        id=trial_id or path.name,
        name=path.name,
        resume="allow",
        # A sweep's process has one run after another.
        reinit="create_new",
        settings=wandb.Settings(
            api_key=api_key,
            silent=True,
            console="off",
            disable_git=True,
            disable_code=True,
        ),
    )


def _finish(run: wandb.Run, exit_code: int) -> None:
    """Ends the W&B run and waits until its log is on the disk.

    W&B's own call returns before its service writes the end of the log, and a process that is killed then loses it.
    """
    folder = Path(run.dir).resolve().parent
    run.finish(exit_code=exit_code)
    while is_written(folder):
        time.sleep(LOOK_S)


def is_written(folder: Path) -> bool:
    """True while a service of W&B has a file in a folder open, as the log of its run."""
    for process in psutil.process_iter(["name"]):
        # It may have ended, or be another account's.
        with suppress(psutil.Error):
            if process.info["name"] == SERVICE and folder in (Path(file.path).parent for file in process.open_files()):
                return True
    return False


def _tear_down(kill: bool) -> None:
    import wandb

    if kill:
        # It would keep this process's output open, and a pipe's reader waiting.
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if child.name() == SERVICE:
                    child.kill()

    with suppress(Exception, SystemExit):
        wandb.teardown()


def summarise(
    run: wandb.Run, path: Path, metrics: Mapping[str, Any], figures: Sequence[Path], usage: Usage | None
) -> None:
    """Logs metrics.json, figures, discussions, usage and learned graphs of the run folder `path`.

    Metrics become the table `methods`, and summary values `<method>/<column>`; the run's usage becomes `usage/<field>`.
    Discussions become the table `discussions`, whose rest is counted in `discussions/left_out`.
    """
    import wandb

    folder = RunFolder(path)
    methods: Mapping[str, Mapping[str, Any]] = metrics["methods"]
    # A method may lack columns of others: the success of an attack, or what its older records do not have.
    method_columns: dict[str, list[Any]] = {"method": list(methods)}
    for column in chain.from_iterable(methods.values()):
        if column not in method_columns:
            method_columns[column] = [row.get(column) for row in methods.values()]

    scores = sorted(folder.scores(), key=attrgetter("question", "method"))
    logged_scores = scores[:MOST_ROWS]
    discussion_columns: dict[str, list[Any]] = {}
    for name in COLUMNS:
        discussion_columns[name] = [getattr(scored, name) for scored in logged_scores]

    images = {f"figures/{figure.stem}": wandb.Image(str(figure)) for figure in figures}
    tables = {"methods": table_of(method_columns), "discussions": table_of(discussion_columns)}
    run.log({**tables, **images})

    groups: dict[str, Mapping[str, Any]] = {**methods, **metrics["paired"]}
    if usage is not None:
        groups["usage"] = asdict(usage)
    groups["discussions"] = {"shown": len(logged_scores), "left_out": len(scores) - len(logged_scores)}
    for method, row in metrics.get("judged", {"methods": {}})["methods"].items():
        groups[f"judged/{method}"] = row
    for group, values in groups.items():
        run.summary.update({f"{group}/{name}": value for name, value in values.items()})

    for graph in folder.all_learned():
        artifact = wandb.Artifact(f"{run.id[:80]}-{graph.name}"[:128], type="graph")
        for name in GRAPHS:
            file = graph.path / name
            if file.is_file():
                # Immutable: W&B reads the file in the run folder, and leaves no copy in the home folder.
                artifact.add_file(str(file), policy="immutable")
        run.log_artifact(artifact)


def table_of(columns: Mapping[str, Sequence[Any]]) -> wandb.Table:
    """Makes a W&B table of columns of equal length. W&B refuses a column whose cells differ in type."""
    import wandb

    cells: list[Sequence[Any]] = []
    for column in columns.values():
        is_numeric = all(value is None or isinstance(value, (int, float)) for value in column)
        if is_numeric:
            cells.append(column)
        else:
            cells.append([cell_text(value) for value in column])
    return wandb.Table(columns=list(columns), data=[list(row) for row in zip(*cells, strict=True)])


def cell_text(value: Any) -> str | None:
    """Writes any value of a record as a cell of text: intervals as `0.1 to 0.4`, several texts as `a | b`."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        is_text = all(isinstance(part, str) for part in value)
        separator = " | " if is_text else " to "
        text = separator.join(map(str, value))
    elif isinstance(value, Mapping):
        text = json.dumps(value)
    else:
        text = str(value)
    return text[:MOST_CHARACTERS]
