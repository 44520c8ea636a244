"""Reads the rows of a spreadsheet as typed records."""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.fields import MB, validated

T = TypeVar("T")

# Limits are far above what the official releases hold; the largest of these are in brackets.
SHEET = 16 * MB  # bytes of a spreadsheet, unpacked (0.2 MB, MH's question list)
ROWS = 100_000  # rows (238 questions of MH)
COLUMNS = 256  # columns (10 of MH's question list)


def read_sheet(path: Path, layout: type[T], *, by_name: bool) -> Iterator[tuple[str, T]]:
    """Yields the rows of the first sheet below its header as records, with their places. Empty rows are left out.

    by_name: columns are found by the header's names; otherwise the first columns are the fields, whatever their names.
    Raises UserError for a file that is no .xlsx, a sheet that is too large, and a row that is not of the layout.
    """
    schema = TypeAdapter(layout)
    rows = read_cells(path)
    width = max(map(len, rows), default=0)
    columns = rows[0] if by_name and rows else list(schema.json_schema()["properties"])

    for number, row in enumerate(rows[1:], start=2):
        if any(row):
            where = f"{path}, row {number}"
            # Each row ends at its last cell.
            cells = row + [""] * (width - len(row))
            yield where, validated(schema, dict(zip(columns, cells, strict=False)), where)


def read_cells(path: Path) -> list[list[str]]:
    """Reads the first sheet as text, without the empty cells at the end of a row. Raises as `read_sheet`."""
    import openpyxl  # takes a third of a second, and few data sets have sheets

    rows: list[list[str]] = []
    characters = 0
    try:
        # All of it is unpacked into memory.
        with zipfile.ZipFile(path) as packed:
            size = sum(part.file_size for part in packed.infolist())
        if size > SHEET:
            raise UserError(f"{path} unpacks to {size // MB} MB, more than {SHEET // MB}: download it again")

        # Warnings are about styles and extensions, which are not read. data_only: a formula's stored result, not its
        # text.
        with (
            warnings.catch_warnings(action="ignore"),
            closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book,
        ):
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write a wrong one, and rows beyond it would be lost
            # One by one: a cell far down or to the right follows empty rows and cells without end.
            for values in sheet.values:
                where = f"{path}, row {len(rows) + 1}"
                if len(values) > COLUMNS or len(rows) >= ROWS:
                    raise UserError(
                        f"{where}: more than {COLUMNS} columns or {ROWS:,} rows; delete the cells that lie far off"
                    )

                cells: list[str] = []
                for value in values:
                    cell = "" if value is None else str(value).strip()
                    cells.append(cell)
                    # Many cells may share a long text, of which each gets a copy.
                    characters += len(cell)
                    if characters > SHEET:
                        raise UserError(f"{where}: the cells hold more than {SHEET:,} characters; download it again")

                rows.append(cells)
    except UserError:
        raise
    # openpyxl raises any exception on a damaged file.
    except Exception as error:
        reason = type(error).__name__
        raise UserError(f"{path} is not an .xlsx spreadsheet ({reason}): download it again") from error

    return rows
