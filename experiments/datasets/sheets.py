"""Reads the rows of a spreadsheet as typed records."""

import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.fields import MB, adapter, validated

T = TypeVar("T")

# Limits are far above what the official releases hold; the largest of these are in brackets.
SHEET = 16 * MB  # bytes of a spreadsheet, unpacked (0.2 MB, MH's question list)
ROWS = 100_000  # rows (238 questions of MH)
COLUMNS = 256  # columns (10 of MH's question list)


def read_sheet(path: Path, layout: type[T] | TypeAdapter[T], *, by_name: bool) -> Iterator[tuple[str, T]]:
    """Yields the rows of the first sheet below its header as records, with their places; empty rows are left out.

    by_name: columns are found by the header's names; otherwise the first columns are the fields, whatever their names.
    Raises UserError for a file that is no .xlsx, a sheet that is too large, a missing column and a cell that is not of
    the layout.
    """
    schema = adapter(layout)
    names = list(schema.json_schema()["properties"])
    header, *rows = _cells(path) or [()]
    if not by_name and len(header) < len(names):
        raise UserError(f"{path}: expected {len(names)} columns at least, found {len(header)}: download it again")
    if by_name and (missing := [name for name in names if name not in header]):
        raise UserError(f"{path} has no column {' or '.join(missing)}: copy it again from the release")
    for number, row in enumerate(rows, start=2):
        if any(row):
            where = f"{path}, row {number}"
            yield where, validated(schema, dict(zip(header if by_name else names, row, strict=False)), where)


def _cells(path: Path) -> list[tuple[str, ...]]:
    import openpyxl  # takes a third of a second, and few data sets have sheets

    try:
        # All of it is unpacked into memory.
        with zipfile.ZipFile(path) as packed:
            size = sum(part.file_size for part in packed.infolist())
        if size > SHEET:
            raise UserError(f"{path} unpacks to {size // MB} MB, more than {SHEET // MB}: download it again")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions, which are not read
            # data_only: a formula's stored result in place of its text.
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # some programs write a wrong one, and rows beyond it would be lost
                rows = _within_limits(sheet.values, path)
            finally:
                book.close()
    except UserError:
        raise
    # openpyxl raises any exception on a damaged file.
    except Exception as error:
        reason = type(error).__name__
        raise UserError(f"{path} is not an .xlsx spreadsheet ({reason}): download it again") from error
    # Without dimensions each row ends at its last cell.
    width = max(map(len, rows), default=0)
    return [row + ("",) * (width - len(row)) for row in rows]


def _within_limits(values: Iterator[tuple[object, ...]], path: Path) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    size = 0
    # One by one: a cell far down or to the right follows empty rows and cells without end.
    for cells in values:
        where = f"{path}, row {len(rows) + 1}"
        if len(cells) > COLUMNS or len(rows) >= ROWS:
            raise UserError(f"{where}: more than {COLUMNS} columns or {ROWS:,} rows; delete the cells that lie far off")
        row = []
        for cell in cells:
            row.append("" if cell is None else str(cell).strip())
            # Many cells may share a long text, of which each gets a copy.
            size += len(row[-1])
            if size > SHEET:
                raise UserError(f"{where}: the cells hold more than {SHEET:,} characters; download the file again")
        rows.append(tuple(row))
    return rows
