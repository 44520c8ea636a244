"""Tables of results with notes below them, and texts of their cells."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.errors import visible

WIDTH_PLAIN = 110  # characters of a line in a log or a pipe, where no terminal gives a width
WIDEST = 400  # characters of a table that is not shown on a terminal

log = logging.getLogger(__name__)

Row = Mapping[str, Any]  # values of a row by name, from which its cells are written


class _Unknown(Exception):
    """A row has no value for its cell."""


class _CellFormatter(Formatter):
    """Fills a cell's format with a row. Besides Python's specifications there are `tenths` and `millions`."""

    def get_value(self, key: int | str, args: Sequence[Any], row: Mapping[Any, Any]) -> Any:
        value = row.get(key)
        # NaN alone differs from itself.
        if value is None or value != value:
            raise _Unknown(key)
        return value

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "tenths":
            return tenths(value)
        if format_spec == "millions":
            return f"{value / 1e6:.2f}"
        return str(super().format_field(value, format_spec))


def cell_text(form: str, row: Row) -> str:
    """Writes a cell: a format such as `{f1:.3f}`, filled with a row's values.

    Without one of them the cell has the text behind a bar, `{f1:.3f}|-`, or nothing.
    """
    text, _, otherwise = form.partition("|")
    try:
        return _CellFormatter().vformat(text, (), row)
    except _Unknown:
        return otherwise


def row_cells(forms: Iterable[str], row: Row) -> tuple[str, ...]:
    """Writes the cells of a row."""
    return tuple(cell_text(form, row) for form in forms)


def interval_form(mean: str, ci95: str) -> str:
    """Makes the format of a mean with its interval in brackets, or a dash, by the names of both."""
    return f"{{{mean}:.3f}} ({{{ci95}[0]:.3f}}-{{{ci95}[1]:.3f}})|-"


def with_interval(mean: float | None, ci95: Sequence[float] | None) -> str:
    """Writes a mean with its interval in brackets, or a dash without one."""
    return cell_text(interval_form("mean", "ci95"), {"mean": mean, "ci95": ci95})


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows with a cell for each column.

    columns: headers; their line breaks are for the printed table.
    names: leading columns that name a row, aligned left; the others hold numbers.
    total: the index of the row that sums up the others, printed in bold.
    spare: columns that a narrow terminal leaves out, in this order.
    brief: lines that are printed in place of the notes, where a report has those.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    title: str = ""
    names: int = 1
    total: int | None = None
    spare: Sequence[str] = ()
    brief: Sequence[str] = ()

    @property
    def headers(self) -> list[str]:
        """Columns in one line each."""
        return [" ".join(name.split()) for name in self.columns]

    @staticmethod
    def of(
        name: str,
        rows: Mapping[str, Row],
        cells: Mapping[str, str],
        notes: Sequence[str] = (),
        title: str = "",
        **more: Any,
    ) -> "ResultTable":
        """Makes a row for each of `rows`, whose keys are the first column, `name`.

        cells: by header, the format of a row's cell (`cell_text`).
        """
        body = [(key, *row_cells(cells.values(), row)) for key, row in rows.items()]
        return ResultTable((name, *cells), body, notes, title=title, **more)

    def print(self, console: Console | None = None, further: Iterable[str] = ()) -> None:
        """Prints title, table, notes and `further` ones. The console is standard output if None.

        Where there are `brief` lines, notes go to the log. A terminal that is too narrow gets no `spare` columns, or
        the cells of a row below each other. Elsewhere the table has all columns, and lines of text have 110 characters.
        """
        console = console or Console()
        text_width = console.width if console.is_terminal else WIDTH_PLAIN
        grid = self._grid()
        if not console.is_terminal:
            # A new console: the caller's must keep its width. A file can hold a line of any length.
            console = Console(file=console.file, width=max(text_width, _width(grid)))

        left_out = 0
        while _width(grid) > console.width and left_out < len(self.spare):
            left_out += 1
            grid = self._grid(self.spare[:left_out])
        if _width(grid) > console.width:
            grid = self._list()
            left_out = 0

        lines = [*self.notes, *further]
        if self.brief:
            for line in lines:
                log.info(line)
            lines = [*self.brief]
        missing = [" ".join(name.split()) for name in self.spare[:left_out] if name in self.columns]
        if missing:
            lines.append(f"No room for {', '.join(missing)}: see the report, or use a wider terminal.")

        # As Text: rich would read square brackets as markup, and names between colons as emoji.
        if self.title:
            console.print(Text(visible(self.title), "bold"), width=text_width)
        if self.rows:
            console.print(grid)
            console.print()
        for line in lines:
            console.print(Text(visible(line)), width=text_width)

    def _grid(self, left_out: Sequence[str] = ()) -> Table:
        """Lays out rows and columns, without the ones in `left_out`."""
        # One blank on each side: two columns are two apart.
        grid = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
        places = [i for i, name in enumerate(self.columns) if name not in left_out]
        for i in places:
            header = Text("\n".join(map(visible, self.columns[i].split("\n"))))
            side: Any = "left" if i < self.names else "right"
            grid.add_column(header, justify=side, no_wrap=True, vertical="bottom")
        for number, row in enumerate(self.rows):
            cells = [Text(visible(row[i])) for i in places]
            grid.add_row(*cells, style="bold" if number == self.total else None)
        return grid

    def _list(self) -> Table:
        """Lays out the cells of each row below each other."""
        grid = Table.grid(padding=(0, 2))
        for row in self.rows:
            grid.add_row(Text(" ".join(map(visible, row[: self.names])), "bold"))
            for name, cell in zip(self.headers[self.names :], row[self.names :], strict=True):
                grid.add_row(Text(f"  {visible(name)}"), Text(visible(cell)))
        return grid


def _width(grid: Table) -> int:
    return Console(width=WIDEST).measure(grid).maximum


def tenths(number: float) -> str:
    """Writes a number with one decimal, which is left out where it is zero."""
    return f"{number:,.1f}".removesuffix(".0")


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Shortens each key to as few last parts as are unique."""
    short = {}
    for key in keys:
        # A key that is the ending of another one (`model` of `judge.model`) has no ending for itself and stays.
        short[key] = key
        parts = key.split(".")
        for start in range(len(parts)):
            ending = ".".join(parts[start:])
            if len([name for name in keys if f".{name}".endswith(f".{ending}")]) == 1:
                short[key] = ending
    return short


def plain(value: Any) -> str:
    """Writes a setting's value as short text, for names and tables."""
    match value:
        case None:
            return "null"
        # Lower case as in the YAML and on the command line, where such a value can be pasted back.
        case bool():
            return str(value).lower()
        case list():
            # A plus sign: commas separate settings in a trial's name.
            return "+".join(map(plain, value)) or "none"
        case dict():
            return "+".join(f"{key}={plain(part)}" for key, part in value.items()) or "none"
        case _:
            return str(value)


def shown(value: Any) -> str:
    """Writes a setting's value for readers. None is the default of a trial that does not set it."""
    return "default" if value is None else plain(value)
