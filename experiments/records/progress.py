"""Shows a run's progress: bars on a terminal, a plain line every few seconds elsewhere."""

import io
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Self, TypeVar

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actors.errors import visible

T = TypeVar("T")

LINE = 110  # characters of a folded line
PLAIN_EVERY_S = 5.0  # often enough to see that a run is alive, seldom enough for a log
WATCHED_EVERY_S = 1.0
SILENT_AFTER_S = 5.0
LONGEST_SILENCE_S = 60.0
SHOWN_AFTER_S = 1.0  # most steps that are shown by `counted` and `waiting` are over by then
BAR_WIDTH = 24  # narrow enough for rate, turns and time on a line of a hundred characters


class Progress:
    """Shows several phases, one after another or side by side; a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._bars: list[Bar] = []
        self._printed: set[str] = set()
        self._is_interrupted = False
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(console=self._console, get_renderable=self._table)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        else:
            self._watcher = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._watcher.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()
        if self._watcher:
            self._over.set()
            self._watcher.join()

    def _watch(self) -> None:
        """Prints lines of phases in which nothing ends for long."""
        while not self._over.wait(WATCHED_EVERY_S):
            for bar in list(self._bars):
                bar.show_silence()

    def phase(self, name: str, total: int | None, completed: int = 0, note: str = "") -> "Bar":
        """Starts a phase of `total` units; None where their number is not known yet.

        completed: units from before a resumption, which do not count in the rate.
        note: what the phase waits for, shown in place of the rate.
        """
        line_console = None if self._live else self._console
        bar = Bar(line_console, visible(name), total, completed)
        self._bars.append(bar)
        if note:
            bar.advance(0, note)
        return bar

    def interrupt(self) -> None:
        """Ends `counted` in other threads at its next item, as Ctrl-C reaches the main thread alone."""
        self._is_interrupted = True

    def counted(self, name: str, items: Iterable[T], total: int | None) -> Iterator[T]:
        """Yields items, and shows their number and rate unless they are over within a second.

        Raises KeyboardInterrupt after `interrupt`, so that builders keep what they have, as after Ctrl-C.
        """
        started_at = time.monotonic()
        number = 0
        bar: Bar | None = None
        for item in items:
            if self._is_interrupted:
                raise KeyboardInterrupt
            yield item
            number += 1
            if bar is not None:
                bar.advance()
            elif time.monotonic() - started_at > SHOWN_AFTER_S:
                bar = self.phase(name, total)
                bar.began(started_at, number)
        if bar is not None and total is None:
            bar.total = number
            bar.advance(0)

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Shows a step of unknown length, and how long it has taken, unless it is over within a second."""
        over = threading.Event()
        is_done = threading.Event()

        def show() -> None:
            seconds = SHOWN_AFTER_S
            if over.wait(seconds):
                return
            bar = self.phase(name, total=1, note=f"{seconds:.0f} s")
            while not over.wait(PLAIN_EVERY_S):
                seconds += PLAIN_EVERY_S
                bar.advance(0, f"{seconds:.0f} s")
            # An interrupted step is over without being done.
            if is_done.is_set():
                bar.advance()

        thread = threading.Thread(target=show, name=name, daemon=True)
        thread.start()
        try:
            yield
            is_done.set()
        finally:
            over.set()
            thread.join()

    def _table(self) -> Table:
        """Draws a bar for each phase under way. One line counts finished ones, so that a run fits a screen."""
        finished_bars = [bar for bar in self._bars if bar.is_finished]
        open_bars = [bar for bar in self._bars if not bar.is_finished]
        room = self._console.width - BAR_WIDTH - 1
        table = Table.grid(padding=(0, 1))

        # The last phase stays, so that the screen is never without one.
        for bar in open_bars or finished_bars[-1:]:
            # What follows the rate, and then the bar itself, is left out where figures would be cut.
            line = bar.line
            while len(line) > room and "; " in line:
                line = line.rpartition("; ")[0]
            if len(line) > room:
                table.add_row("", Text(line))
            elif bar.total:
                table.add_row(ProgressBar(bar.total, bar.completed, width=BAR_WIDTH), Text(line))
            else:
                table.add_row(ProgressBar(1, 1, width=BAR_WIDTH), Text(line))

        if len(finished_bars) > 1:
            table.add_row("", Text(f"phases that are over: {len(finished_bars)}", "dim"))
        return table

    def print(self, line: str) -> None:
        """Prints a line above the bars. One that trials of a sweep repeat is printed once."""
        if line not in self._printed:
            self._printed.add(line)
            # As Text: rich would read square brackets as markup, and names between colons as emoji.
            self._console.print(Text(visible(line)), soft_wrap=True)


def silent() -> Progress:
    """Makes a progress that shows nothing."""
    return Progress(Console(file=io.StringIO(), quiet=True))


class Bar:
    """Progress of one phase. Prints plain lines where it has a console."""

    def __init__(self, console: Console | None, name: str, total: int | None, completed: int) -> None:
        self.total = total
        self.completed = completed
        self._console = console
        self._name = name
        self._completed_at_start = completed
        # Monotonic: a clock that is set back must not give negative rates.
        self._started_at = time.monotonic()
        self._printed_at = self._started_at
        self._advanced_at = self._started_at
        self._note = ""
        self._is_begun = False
        self._turns = 0

    @property
    def is_finished(self) -> bool:
        return self.total is not None and self.completed >= self.total

    def began(self, at: float, units: int) -> None:
        """Counts the units since an earlier beginning, and shows them at once."""
        self._started_at = at
        self._is_begun = True
        self.completed += units
        self._print(at_once=True)

    def advance(self, units: int = 1, note: str = "") -> None:
        """Counts more units; shows a new note at once."""
        is_new_note = note not in ("", self._note)
        self.completed += units
        self._note = note
        # The last unit is always printed: a log must end with the phase complete.
        self._print(at_once=is_new_note or self.is_finished)

    def ask(self) -> None:
        """Begins the phase's time with its first turn or judgement. Until then it waits for other phases."""
        if not self._is_begun:
            self._is_begun = True
            self._started_at = time.monotonic()
            self._printed_at = self._started_at
            self._advanced_at = self._started_at

    def turn(self) -> None:
        """Counts a finished turn: a sign of life before the first unit is done."""
        self._turns += 1
        self._print()

    def show_silence(self) -> None:
        """Prints the line of a phase in which nothing has ended since the last one, at growing intervals."""
        silent_s = self._silent_s
        due_s = min(max(SILENT_AFTER_S, silent_s / 2), LONGEST_SILENCE_S)
        if self._console and silent_s >= SILENT_AFTER_S and time.monotonic() - self._printed_at >= due_s:
            self._show()

    @property
    def _silent_s(self) -> float:
        """Seconds since the last unit or turn. 0 in a phase that has not begun, is over, or has a note."""
        if not self._is_begun or self.is_finished or self._note:
            return 0.0
        return time.monotonic() - self._advanced_at

    @property
    def line(self) -> str:
        """Phase in one line: its note, or its rate and the time left."""
        if self._note:
            return f"{self._name}: {_share(self.completed, self.total)}, {visible(self._note)}"
        until = self._advanced_at if self.is_finished else time.monotonic()
        line = plain(
            self._name,
            completed=self.completed,
            total=self.total,
            new_units=self.completed - self._completed_at_start,
            elapsed_s=until - self._started_at,
            turns=self._turns,
        )
        silent_s = self._silent_s
        return f"{line}; nothing new for {silent_s:.0f} s" if silent_s >= SILENT_AFTER_S else line

    def _print(self, at_once: bool = False) -> None:
        """Prints a plain line, at most every `PLAIN_EVERY_S` seconds."""
        self._advanced_at = time.monotonic()
        if self._console and (at_once or self._advanced_at - self._printed_at >= PLAIN_EVERY_S):
            self._show()

    def _show(self) -> None:
        assert self._console is not None
        self._printed_at = time.monotonic()
        self._console.print(Text(self.line), soft_wrap=True)


def plain(name: str, *, completed: int, total: int | None, new_units: int, elapsed_s: float, turns: int = 0) -> str:
    """Formats progress as a line. The `new_units` and the turns took `elapsed_s`, which gives the time left."""
    line = f"{name}: {_share(completed, total)}, {_rate(new_units, elapsed_s)}"
    if total is None:
        pass  # there is no estimate
    elif completed >= total:
        line += f", took {timedelta(seconds=round(elapsed_s))}"
    elif new_units and elapsed_s > 0:  # without a rate there is no estimate
        line += f", {timedelta(seconds=round((total - completed) * elapsed_s / new_units))} left"
    return f"{line}; turns: {turns:,}, {_rate(turns, elapsed_s)}" if turns else line


def _share(completed: int, total: int | None) -> str:
    return f"{completed:,}" if total is None else f"{completed:,}/{total:,}"


def _rate(count: int, elapsed_s: float) -> str:
    rate = count / elapsed_s if elapsed_s > 0 else 0.0
    # One decimal would round the rate of a slow model to zero.
    return f"{rate:.2g}/s" if 0 < rate < 1 else f"{rate:,.1f}/s"
