"""Shows a run's progress: bars on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from actors.visible import visible

PLAIN_EVERY_S = 5.0  # often enough to see that a run is alive, seldom enough for a log


class Progress:
    """Shows several phases, one after another or side by side; a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._bars: RichProgress | None = None
        if self._console.is_terminal:
            self._bars = RichProgress(
                SpinnerColumn(finished_text="[green]\u2713"),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),  # narrow enough for rate, turns and time on a line of a hundred characters
                MofNCompleteColumn(),
                _Rate(),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=self._console,
            )

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bars:
            self._bars.stop()

    def phase(self, name: str, total: int, done: int = 0, note: str = "") -> Bar:
        """Starts a phase of `total` units.

        Args:
            done: units from before a resumption, which do not count in the rate.
            note: what the phase waits for, shown in place of the rate.
        """
        return Bar(self._console, self._bars, visible(name), total, done, visible(note))

    def print(self, line: str) -> None:
        """Prints a line above the bars."""
        # Texts may hold square brackets, which rich would read as markup.
        self._console.print(visible(line), markup=False, highlight=False, soft_wrap=True)


class Bar:
    """Progress of one phase: a bar on a terminal, plain lines elsewhere."""

    def __init__(
        self, console: Console, bars: RichProgress | None, name: str, total: int, done: int, note: str = ""
    ) -> None:
        self._console, self._bars = console, bars
        self._name, self._total, self._before, self._done = name, total, done, done
        # Monotonic: a clock that is set back must not give negative rates.
        self._begun = self._printed_at = time.monotonic()
        self._note = ""
        self._turns = 0
        self._task: TaskID | None = None
        if bars:
            self._task = bars.add_task(name, total=total, completed=done, turns=0)
        if note:
            self.advance(0, note)

    def advance(self, n: int = 1, note: str = "") -> None:
        """Counts `n` more units; shows a new note at once."""
        changed = note not in ("", self._note)
        self._done, self._note = self._done + n, note
        if self._bars and self._task is not None:
            self._bars.update(self._task, advance=n, description=f"{self._name}{note and f', {visible(note)}'}")
            return
        # The last unit is always printed: a log must end with the phase complete.
        self._print(at_once=changed or self._done >= self._total)

    def turn(self) -> None:
        """Counts a finished turn: a sign of life before the first unit is done."""
        self._turns += 1
        if self._bars and self._task is not None:
            self._bars.update(self._task, turns=self._turns)
        else:
            self._print()

    def _print(self, at_once: bool = False) -> None:
        """Prints a plain line, at most every `PLAIN_EVERY_S` seconds."""
        now = time.monotonic()
        if at_once or now - self._printed_at >= PLAIN_EVERY_S:
            self._printed_at = now
            line = f"{self._name}: {self._done:,}/{self._total:,}, {visible(self._note)}"
            if not self._note:
                fresh = self._done - self._before
                line = plain(self._name, self._done, self._total, fresh, now - self._begun, self._turns)
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Rate(ProgressColumn):
    """Units per second, and finished turns with their rate; rich has no such column."""

    def render(self, task: Task) -> Text:
        speed, elapsed_s = task.finished_speed or task.speed, task.finished_time or task.elapsed or 0.0
        rates = [] if speed is None else [_per_second(speed)]
        rates += [_turns(task.fields["turns"], elapsed_s)] if task.fields["turns"] else []
        return Text("  ".join(rates), style="progress.data.speed")


def plain(name: str, done: int, total: int, fresh: int, elapsed_s: float, turns: int = 0) -> str:
    """A line of progress. The `fresh` units and the turns took `elapsed_s`, from which the time left is estimated."""
    rate = fresh / elapsed_s if elapsed_s > 0 else 0.0
    # Without a rate there is no estimate, and `rstrip` takes away the comma before it.
    rest = f"took {_clock(elapsed_s)}" if done >= total else f"{_clock((total - done) / rate)} left" if rate else ""
    line = f"{name}: {done:,}/{total:,}, {_per_second(rate)}, {rest}".rstrip(", ")
    return f"{line}; {_turns(turns, elapsed_s)}" if turns else line


def _turns(turns: int, elapsed_s: float) -> str:
    return f"turns: {turns:,}, {_per_second(turns / elapsed_s if elapsed_s > 0 else 0.0)}"


def _per_second(rate: float) -> str:
    # One decimal would round the rate of a slow model to zero.
    return f"{rate:,.1f}/s" if rate >= 1 or not rate else f"{rate:.2g}/s"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
