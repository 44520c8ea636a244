"""Shows a run's progress: bars on a terminal, a plain line every few seconds elsewhere."""

import time
from datetime import timedelta
from textwrap import fill
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actors.errors import visible

LINE = 110  # characters of a folded line
PLAIN_EVERY_S = 5.0  # often enough to see that a run is alive, seldom enough for a log
BAR_WIDTH = 24  # narrow enough for rate, turns and time on a line of a hundred characters


class Progress:
    """Shows several phases, one after another or side by side; a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._bars: list[Bar] = []
        self._printed: set[str] = set()
        self._live = Live(console=self._console, get_renderable=self._table) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def phase(self, name: str, total: int, done: int = 0, note: str = "") -> "Bar":
        """Starts a phase of `total` units.

        done: units from before a resumption, which do not count in the rate.
        note: what the phase waits for, shown in place of the rate.
        """
        bar = Bar(None if self._live else self._console, visible(name), total, done)
        self._bars.append(bar)
        if note:
            bar.advance(0, note)
        return bar

    def _table(self) -> Table:
        """Draws a bar for each phase under way. One line counts finished ones, so that a run fits a screen."""
        over = [bar for bar in self._bars if bar.done >= bar.total]
        table = Table.grid(padding=(0, 1))
        # The last phase stays, so that the screen is never without one.
        for bar in [bar for bar in self._bars if bar not in over] or over[-1:]:
            line, room = bar.line, self._console.width - BAR_WIDTH - 1
            # The turns, and then the bar itself, are left out where figures would be cut.
            if len(line) > room:
                line = line.rpartition("; ")[0] or line
            drawn = ProgressBar(max(1, bar.total), bar.done if bar.total else 1, width=BAR_WIDTH)
            table.add_row(drawn if len(line) <= room else "", Text(line))
        if len(over) > 1:
            table.add_row("", Text(f"phases that are over: {len(over)}", "dim"))
        return table

    def print(self, line: str, folded: bool = False) -> None:
        """Prints a line above the bars, which may be folded. One that trials of a sweep repeat is printed once."""
        if line not in self._printed:
            self._printed.add(line)
            # As Text: rich would read square brackets as markup, and names between colons as emoji.
            self._console.print(Text(fill(visible(line), LINE) if folded else visible(line)), soft_wrap=True)


class Bar:
    """Progress of one phase. Prints plain lines where it has a console."""

    def __init__(self, console: Console | None, name: str, total: int, done: int) -> None:
        self.total, self.done = total, done
        self._console, self._name, self._before = console, name, done
        # Monotonic: a clock that is set back must not give negative rates.
        self._begun = self._printed_at = self._last = time.monotonic()
        self._note = ""
        self._turns = 0

    def advance(self, n: int = 1, note: str = "") -> None:
        """Counts `n` more units; shows a new note at once."""
        changed = note not in ("", self._note)
        self.done, self._note = self.done + n, note
        # The last unit is always printed: a log must end with the phase complete.
        self._print(at_once=changed or self.done >= self.total)

    def turn(self) -> None:
        """Counts a finished turn: a sign of life before the first unit is done."""
        self._turns += 1
        self._print()

    @property
    def line(self) -> str:
        """Phase in one line: its note, or its rate and the time left."""
        if self._note:
            return f"{self._name}: {self.done:,}/{self.total:,}, {visible(self._note)}"
        now = self._last if self.done >= self.total else time.monotonic()
        return plain(self._name, self.done, self.total, self.done - self._before, now - self._begun, self._turns)

    def _print(self, at_once: bool = False) -> None:
        """Prints a plain line, at most every `PLAIN_EVERY_S` seconds."""
        self._last = time.monotonic()
        if self._console and (at_once or self._last - self._printed_at >= PLAIN_EVERY_S):
            self._printed_at = self._last
            self._console.print(Text(self.line), soft_wrap=True)


def plain(name: str, done: int, total: int, fresh: int, elapsed_s: float, turns: int = 0) -> str:
    """Formats progress as a line. The `fresh` units and the turns took `elapsed_s`, which gives the time left."""
    rate = fresh / elapsed_s if elapsed_s > 0 else 0.0
    # Without a rate there is no estimate, and `rstrip` takes away the comma before it.
    clock = timedelta(seconds=round(elapsed_s if done >= total else (total - done) / rate if rate else 0))
    rest = f"took {clock}" if done >= total else f"{clock} left" if rate else ""
    each_s = turns / elapsed_s if elapsed_s > 0 else 0.0
    # One decimal would round the rate of a slow model to zero.
    rates = [f"{each:,.1f}/s" if each >= 1 or not each else f"{each:.2g}/s" for each in (rate, each_s)]
    line = f"{name}: {done:,}/{total:,}, {rates[0]}, {rest}".rstrip(", ")
    return f"{line}; turns: {turns:,}, {rates[1]}" if turns else line
