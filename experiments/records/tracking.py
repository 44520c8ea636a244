"""Weights & Biases: the run's figures, offline by default. It never ends a run and never delays its end for long.

All calls of W&B run one after another in one thread. The first that fails ends the tracking; the end of a run waits for
the thread `FINISH_S` seconds at most (`STOP_S` after an error). Either is one warning in the run's log.
"""

from __future__ import annotations

import logging
import netrc
import os
import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

import psutil

from actors.errors import UserError
from actors.messages import Usage
from actors.settings import setting
from experiments.records.recorder import RunFolder

if TYPE_CHECKING:
    import wandb

log = logging.getLogger(__name__)

FINISH_S, STOP_S = 120.0, 10.0  # seconds for W&B to store or upload at the end of a run: a good one, any other
TEARDOWN_S = 2.0  # seconds for W&B's service to end after a failure
SERVICE = "wandb-core"  # the process that works for W&B
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

    def check_values(self, key: str) -> None:
        """Raises UserError for names that W&B would refuse when the run has started."""
        for name, value in (("project", self.project), ("group", self.group)):
            if value is not None and not re.fullmatch(r"[^/\\#?%:\x00-\x1f]{1,128}", value):
                raise UserError(f"{key}.{name}: expected 1 to 128 characters, and none of / \\ # ? % : or a line break")

    def check_key(self) -> None:
        """Raises UserError where runs are to be uploaded without a key: W&B would write nothing anywhere."""
        if self.mode != "online" or os.environ.get("WANDB_API_KEY"):
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
    id of a trial of a sweep, whatever ids the environment names.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        settings: WandbSettings,
        trial_id: str | None = None,
        on_step: Callable[[Mapping[str, Any]], None] = lambda step: None,
    ) -> None:
        self._on_step = on_step
        self._path = path
        self._calls: queue.SimpleQueue[tuple[str, Callable[[wandb.Run], object]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failed = self._given_up = False
        self._axes: set[str] = set()
        if settings.mode != "disabled":
            start = (path, dict(config), settings, trial_id)
            self._thread = threading.Thread(target=self._work, args=start, name="tracking", daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # An interrupted run has not gone well either.
        self.finish(exit_code=1 if kind else 0)

    def log(self, step: Mapping[str, Any]) -> None:
        """Logs a training step's numbers as `<method>/<name>` over the method's `total_steps`. Learners take turns in
        one run.
        """
        # Here and not in the thread: a sweep counts on it, and its errors are the sweep's.
        self._on_step(step)
        logged = dict(step)

        def send(run: wandb.Run) -> None:
            for axis in (name for name in logged if name.endswith(AXIS) and name not in self._axes):
                run.define_metric(f"{axis.removesuffix(AXIS)}/*", step_metric=axis)
                self._axes.add(axis)
            run.log(logged)

        self._call("log", send)

    def summary(self, metrics: Mapping[str, Any], figures: Sequence[Path] = (), used: Usage | None = None) -> None:
        """Logs metrics.json, figures, discussions, usage and learned graphs."""
        self._call("summarise", lambda run: summarise(run, self._path, metrics, figures, used))

    def finish(self, exit_code: int = 0) -> None:
        """Ends the W&B run within the time that it has. Does nothing when called again."""
        self._call("finish", lambda run: run.finish(exit_code=exit_code))
        self._calls.put(None)
        thread, self._thread = self._thread, None
        if thread is None:
            return
        wait_s = STOP_S if exit_code else FINISH_S
        thread.join(wait_s)
        self._given_up = thread.is_alive()
        if self._given_up:
            log.warning("W&B did not end within %g s, the run ends without it: sync %s later", wait_s, self._path)
        if self._given_up or self._failed:
            # Otherwise W&B would wait for its service again when this process exits.
            teardown = threading.Thread(target=_tear_down, args=(self._given_up,), name="tracking", daemon=True)
            teardown.start()
            teardown.join(TEARDOWN_S)

    def _call(self, what: str, call: Callable[[wandb.Run], object]) -> None:
        if self._thread is not None:  # else nothing takes calls, and a disabled run would collect them
            self._calls.put((what, call))

    def _work(self, *start: Any) -> None:
        what, run = "start", None
        try:
            run = _start(*start)
            while task := self._calls.get():
                what, call = task
                call(run)
        # Anything may go wrong in an outside service, and a run of hours must not end for it.
        except Exception as error:
            self._failed = True
            if not self._given_up:  # one warning is enough
                reason = " ".join(str(error).split()) or type(error).__name__
                log.warning("W&B could not %s, the run goes on without it: %s", what, reason)
            with suppress(Exception):
                if run:
                    run.finish(exit_code=1)


def _start(path: Path, config: dict[str, Any], settings: WandbSettings, trial_id: str | None) -> wandb.Run:
    if trial_id:
        # Started by an agent of W&B's sweeps, all trials would be the agent's one run.
        for name in ("WANDB_RUN_ID", "WANDB_SWEEP_ID"):
            os.environ.pop(name, None)
    # Without this an offline run still asks the network for the error collector's address.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    # Some messages ignore the settings below.
    os.environ.setdefault("WANDB_SILENT", "true")
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
        settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
    )


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
    run: wandb.Run, path: Path, metrics: Mapping[str, Any], figures: Sequence[Path], used: Usage | None
) -> None:
    """Logs metrics.json, figures, discussions, usage and learned graphs of the run folder `path`.

    Metrics become the table `methods`, and summary values `<method>/<column>`; the run's usage becomes `usage/<field>`.
    Discussions become the table `discussions`, whose rest is counted in `discussions/left_out`.
    """
    import wandb

    methods: Mapping[str, Mapping[str, Any]] = metrics["methods"]
    # A method may lack columns of others: the success of an attack, or what its older records do not have.
    columns = list(dict.fromkeys(column for row in methods.values() for column in row))
    rows = [[method, *(_cell(row.get(column)) for column in columns)] for method, row in methods.items()]
    images = {f"figures/{path.stem}": wandb.Image(str(path)) for path in figures}
    scores = sorted(RunFolder(path).scores(), key=attrgetter("question", "method"))
    shown = [[_cell(getattr(scored, name)) for name in COLUMNS] for scored in scores[:MOST_ROWS]]
    run.log(
        {
            "methods": wandb.Table(columns=["method", *columns], data=rows),
            "discussions": wandb.Table(columns=list(COLUMNS), data=shown),
            **images,
        }
    )
    groups: dict[str, Mapping[str, Any]] = {**methods, **metrics["paired"], "usage": asdict(used) if used else {}}
    groups["discussions"] = {"shown": len(shown), "left_out": len(scores) - len(shown)}
    for method, row in metrics.get("judged", {"methods": {}})["methods"].items():
        groups[f"judged/{method}"] = row
    run.summary.update({f"{group}/{name}": value for group, row in groups.items() for name, value in row.items()})
    for graph in RunFolder(path).all_learned():
        artifact = wandb.Artifact(f"{run.id[:80]}-{graph.name}"[:128], type="graph")
        for file in (graph.path / name for name in GRAPHS):
            if file.is_file():
                # Immutable: W&B reads the file in the run folder, and leaves no copy in the home folder.
                artifact.add_file(str(file), policy="immutable")
        run.log_artifact(artifact)


def _cell(value: Any) -> Any:
    """Writes a cell of a W&B table, whose columns have one type each: intervals and several answers become text."""
    if isinstance(value, list):
        return f"{value[0]} to {value[1]}"
    if isinstance(value, tuple):
        value = " | ".join(value)
    return value[:MOST_CHARACTERS] if isinstance(value, str) else value
