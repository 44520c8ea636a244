"""Tables of results with notes below them, and texts of their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.visible import visible

Cell = Callable[[Mapping[str, Any]], str]  # from a row's measures to the text of its cell

WIDTH_PLAIN = 110  # characters of a line in a log or a pipe, where no terminal gives a width
WIDEST = 400  # characters of a table that is not shown on a terminal


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows with a cell for each column.

    Args:
        columns: headers; their line breaks are for the printed table.
        names: leading columns that name a row, aligned left; the others hold numbers.
        total: the index of the row that sums up the others, printed in bold.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    title: str = ""
    names: int = 1
    total: int | None = None

    @staticmethod
    def of(
        name: str,
        rows: Mapping[str, Mapping[str, Any]],
        cells: Mapping[str, Cell],
        notes: Sequence[str] = (),
        title: str = "",
    ) -> ResultTable:
        """Makes a row of cells, by header, for each of `rows`, whose keys are the first column, `name`."""
        body = [(key, *(cell(row) for cell in cells.values())) for key, row in rows.items()]
        return ResultTable((name, *cells), body, notes, title)

    def print(self, console: Console | None = None, further: Iterable[str] = ()) -> None:
        """Prints title, table, notes and `further` ones on the console (standard output if None).

        Where that is no terminal, lines have up to 110 characters, except that the table is never cut short.
        """
        console, grid = console or Console(), self._grid()
        if not console.is_terminal:
            # A new console: the caller's must keep its width.
            console = Console(file=console.file, width=WIDTH_PLAIN)
        narrow = console.width
        if self.title:
            console.print(visible(self.title), style="bold", markup=False, highlight=False)
        if not console.is_terminal:
            unlimited = console.options.update(max_width=WIDEST)
            # A file can hold a line of any length, and a table cut short would lose its last columns.
            console.width = max(narrow, console.measure(grid, options=unlimited).maximum)
        console.print(grid)
        console.width = narrow
        console.print()
        for note in (*self.notes, *further):
            # Notes contain square brackets, which rich would read as markup.
            console.print(visible(note), markup=False, highlight=False)

    def _grid(self) -> Table:
        grid = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
        for i, name in enumerate(self.columns):
            header = Text("\n".join(map(visible, name.split("\n"))))
            grid.add_column(header, justify="left" if i < self.names else "right", no_wrap=True, vertical="bottom")
        for i, row in enumerate(self.rows):
            # As Text: rich would read square brackets as markup.
            grid.add_row(*(Text(visible(cell)) for cell in row), style="bold" if i == self.total else None)
        return grid


def number(key: str, form: str = ".3f", missing: str = "", scale: float = 1) -> Cell:
    """Makes the cells of a measure: its number over `scale`, or `missing` where a row has none."""

    def cell(row: Mapping[str, Any]) -> str:
        value = row.get(key)
        return missing if value is None else f"{value if scale == 1 else value / scale:{form}}"

    return cell


def with_interval(mean: float | None, ci95: Sequence[float] | None) -> str:
    """A mean with its interval in brackets, or a dash without one."""
    if mean is None or ci95 is None:
        return "-"
    low, high = ci95
    return f"{mean:.3f} ({low:.3f}-{high:.3f})"


def tenths(number: float) -> str:
    """A number with one decimal, which is left out where it is zero."""
    return f"{number:,.1f}".removesuffix(".0")


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Shortens keys to their last part, or to as many last parts as are unique."""
    short = {}
    for key in keys:
        parts = key.split(".")
        # From the shortest ending on.
        endings = (".".join(parts[-n:]) for n in range(1, len(parts) + 1))
        short[key] = next(
            # A key that is the ending of another one (`model` of `judge.model`) has no ending for itself and stays.
            (end for end in endings if sum(other == end or other.endswith(f".{end}") for other in keys) == 1),
            key,
        )
    return short


def plain(value: Any) -> str:
    """A setting's value as short text, for names and tables."""
    match value:
        case None:
            return "null"
        # Lower case as in the YAML and on the command line, where such a value can be pasted back.
        case bool():
            return str(value).lower()
        case list():
            # A plus sign, because commas separate settings in a trial's name.
            return "+".join(map(plain, value)) or "none"
        case dict():
            return "+".join(f"{key}={plain(part)}" for key, part in value.items()) or "none"
        case _:
            return str(value)


def shown(value: Any) -> str:
    """A setting's value for readers, where None is the default of a trial that does not set it."""
    return "default" if value is None else plain(value)
