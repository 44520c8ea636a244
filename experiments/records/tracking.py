"""Weights & Biases: the run's figures, offline unless configured. It never ends a run, nor lets it wait for long.

All calls of W&B are made one after another in a thread of their own, so that one that fails or hangs costs no more than
what would have come after it.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psutil

from actors.errors import UserError
from actors.messages import Usage
from actors.processes import kill

if TYPE_CHECKING:
    import wandb

log = logging.getLogger(__name__)

FINISH_S, STOP_S = 120.0, 10.0  # what W&B gets to store or upload at the end of a run: of a good one, of any other
GOODBYE_S = 2.0  # what it gets to take note that its service was killed
DYING_S = 2.0  # for how long a process that was killed may still be there, until its memory is given back
LOOK_S = 0.05  # between two looks at it
SERVICE = "wandb-core"  # the process that does W&B's work
Act = Callable[[], object]

Mode = Literal["offline", "online", "disabled"]


@dataclass
class WandbSettings:
    """Weights & Biases; offline runs lie in the run folder and are uploaded with `wandb sync`."""

    mode: Literal["offline", "online", "disabled"] = "offline"
    project: str = "agora-mm"
    group: str | None = None

    def check_values(self, key: str) -> None:
        """Raises UserError for names that W&B would refuse when the run has started."""
        for name, value in (("project", self.project), ("group", self.group)):
            if value is not None and not re.fullmatch(r"[^/\\#?%:\x00-\x1f]{1,128}", value):
                raise UserError(f"{key}.{name}: expected 1 to 128 characters, and none of / \\ # ? % : or a line break")


class Tracker:
    """One W&B run. Its id is the run folder's name, so that a resumed run continues it.

    `disabled` sends nothing and does not import W&B. `on_step` gets every training step as well. A failure is
    logged once and ends the tracking, as does an end that W&B does not come to in time.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        mode: Mode = "offline",
        project: str = "agora-mm",
        group: str | None = None,
        resume_id: str | None = None,
        on_step: Callable[[Mapping[str, Any]], None] = lambda step: None,
    ) -> None:
        self._run: wandb.Run | None = None
        self._on_step = on_step
        self._path = path
        self._acts: queue.SimpleQueue[tuple[str, Act] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left = self._failed = False
        if mode != "disabled":
            self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)
            self._thread.start()
            self._do("start", lambda: self._start(path, config, mode, project, group, resume_id or path.name))

    def log(self, step: Mapping[str, Any]) -> None:
        """Logs one training step: flat names to numbers, `stage` and `step` among them."""
        # Here and not in the thread: a sweep counts on it, and its errors are the sweep's.
        self._on_step(step)
        logged = dict(step)
        self._do("log", lambda: self._started.log(logged))

    def summary(self, metrics: Mapping[str, Any], figures: Sequence[Path] = (), spent: Usage | None = None) -> None:
        """Logs metrics.json, as a table with a row per method and as summary values `<method>/<column>`, and figures.

        The usage actually `spent` becomes `usage/<field>`.
        """
        self._do("summarise", lambda: _summarise(self._started, metrics, figures, spent))

    def finish(self, exit_code: int = 0) -> None:
        """Ends the W&B run, or what there is of it in time; does nothing when called again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._acts.put(("finish", lambda: self._started.finish(exit_code=exit_code)))
        self._acts.put(None)
        wait_s = STOP_S if exit_code else FINISH_S
        thread.join(wait_s)
        self._left = thread.is_alive()
        if self._left:
            log.warning("W&B did not end within %g s, and was left: `wandb sync` uploads %s", wait_s, self._path)
        # One that has died would be missed at exit, in a traceback.
        if self._left or (self._failed and not _serves()):
            _end_service()

    @property
    def _started(self) -> wandb.Run:
        assert self._run is not None
        return self._run

    def _start(
        self, path: Path, config: Mapping[str, Any], mode: Mode, project: str, group: str | None, resume_id: str
    ) -> None:
        # Without this an offline run still asks the network for the error collector's address.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        # What it says beside the settings below, which are the run's alone.
        os.environ.setdefault("WANDB_SILENT", "true")
        # Imported late: it is slow to import, and `disabled` runs do without it.
        import wandb

        self._run = wandb.init(
            dir=path,
            config=dict(config),
            mode=mode,
            project=project,
            group=group,
            id=resume_id,
            name=path.name,
            resume="allow",
            # A sweep's process has one run after another, and each is a run of its own.
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        )

    def _do(self, what: str, act: Act) -> None:
        if self._thread is not None:
            self._acts.put((what, act))

    def _work(self) -> None:
        """Makes the calls as they come, until the last one or one that fails."""
        while task := self._acts.get():
            what, act = task
            try:
                act()
            # Anything may go wrong in another's service, and a run of hours must not end for it.
            except Exception as error:
                self._failed = True
                reason = " ".join(str(error).split()) or type(error).__name__
                if not self._left:  # which was said
                    log.warning("W&B could not %s, the run goes on without it: %s", what, reason)
                return


def _serves() -> bool:
    """Whether the process that does W&B's work for this one lives, and goes on to."""
    until = time.monotonic() + DYING_S
    while _lives():
        if time.monotonic() >= until:
            return True
        time.sleep(LOOK_S)
    return False


def _lives() -> bool:
    with suppress(psutil.Error):
        services = [child for child in psutil.Process().children() if child.name() == SERVICE]
        return any(service.status() != psutil.STATUS_ZOMBIE for service in services)
    return False


def _end_service() -> None:
    """Ends the process that W&B waits for, so that it does not wait at the end of this one as well."""
    with suppress(psutil.Error, OSError):
        for service in psutil.Process().children():
            if service.name() == SERVICE:
                kill([*service.children(recursive=True), service])
                _remove_sockets(f"wandb*-{service.pid}-*")
    # Of one that has died and is known by no number any more.
    _remove_sockets(f"wandb-{os.getpid()}-*")
    # It cannot say goodbye to it any more, and will not try to at exit. In a thread, which may wait for ever for what
    # the service was asked, or want to end the process with the service's exit code.
    goodbye = threading.Thread(target=_teardown, name="tracking", daemon=True)
    goodbye.start()
    goodbye.join(GOODBYE_S)


def _remove_sockets(pattern: str) -> None:
    """Removes the sockets of a service that was ended, which it would have removed."""
    for file in Path(tempfile.gettempdir()).glob(pattern):
        if file.is_dir():
            shutil.rmtree(file, ignore_errors=True)
        else:
            with suppress(OSError):
                file.unlink()


def _teardown() -> None:
    import wandb

    with suppress(Exception, SystemExit):
        wandb.teardown()


def _summarise(run: wandb.Run, metrics: Mapping[str, Any], figures: Sequence[Path], spent: Usage | None) -> None:
    import wandb

    methods: Mapping[str, Mapping[str, Any]] = metrics["methods"]
    # A method may lack what others have: the success of an attack, or what its older records do not hold.
    columns = list(dict.fromkeys(column for row in methods.values() for column in row))
    rows = [[method, *(_plain(row.get(column)) for column in columns)] for method, row in methods.items()]
    images = {f"figures/{path.stem}": wandb.Image(str(path)) for path in figures}
    run.log({"methods": wandb.Table(columns=["method", *columns], data=rows), **images})
    groups: dict[str, Mapping[str, Any]] = {**methods, **metrics["paired"], "usage": asdict(spent) if spent else {}}
    for method, row in metrics.get("judged", {"methods": {}})["methods"].items():
        groups[f"judged/{method}"] = row
    run.summary.update({f"{group}/{name}": value for group, row in groups.items() for name, value in row.items()})


def _plain(value: Any) -> Any:
    """A value as a cell of a W&B table: an interval becomes text, because a column holds one type."""
    return f"{value[0]} to {value[1]}" if isinstance(value, list) else value
