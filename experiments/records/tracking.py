"""Weights & Biases: the run's figures, offline unless configured. Its failures never end a run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from actors.messages import Usage

if TYPE_CHECKING:
    import wandb

log = logging.getLogger(__name__)

Mode = Literal["offline", "online", "disabled"]


@dataclass
class WandbSettings:
    """Weights & Biases; offline runs lie in the run folder and are uploaded with `wandb sync`."""

    mode: Literal["offline", "online", "disabled"] = "offline"
    project: str = "agora-mm"
    group: str | None = None


class Tracker:
    """One W&B run. Its id is the run folder's name, so that a resumed run continues it.

    `disabled` sends nothing and does not import W&B. `on_step` gets every training step as well. A failure is
    logged once and ends the tracking.
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
        if mode != "disabled":
            self._try("start", lambda: self._start(path, config, mode, project, group, resume_id or path.name))

    def log(self, step: Mapping[str, Any]) -> None:
        """Logs one training step: flat names to numbers, `stage` and `step` among them."""
        # Not through `_try`: a sweep counts on it, and its errors are the sweep's.
        self._on_step(step)
        if run := self._run:
            self._try("log", lambda: run.log(dict(step)))

    def summary(self, metrics: Mapping[str, Any], figures: Sequence[Path] = (), spent: Usage | None = None) -> None:
        """Logs metrics.json, as a table with a row per method and as summary values `<method>/<column>`, and figures.

        The usage actually `spent` becomes `usage/<field>`.
        """
        if run := self._run:
            self._try("summarise", lambda: _summarise(run, metrics, figures, spent))

    def finish(self, exit_code: int = 0) -> None:
        """Ends the W&B run; does nothing when called again."""
        if run := self._run:
            self._try("finish", lambda: run.finish(exit_code=exit_code))
            self._run = None

    def _start(
        self, path: Path, config: Mapping[str, Any], mode: Mode, project: str, group: str | None, resume_id: str
    ) -> None:
        # Without this an offline run still asks the network for the error collector's address.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
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

    def _try(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        # Anything may go wrong in another's service, and a run of hours must not end for it. One failure ends
        # tracking.
        except Exception as error:
            self._run = None
            log.warning("W&B could not %s, the run goes on without it: %s", what, " ".join(str(error).split()))


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
