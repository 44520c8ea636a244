"""Reads the rows of a spreadsheet, with one clear line for each way in which it can be missing or broken."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.layouts.fields import checked_value
from experiments.datasets.layouts.limits import COLUMNS, MB, ROWS, SHEET

T = TypeVar("T")

Row = tuple[str, ...]


def read_placed(path: Path, schema: TypeAdapter[T]) -> Iterator[T]:
    """The rows of the first sheet below its header as records: the first columns are the fields, whatever their names.
    Empty rows are left out.

    Raises UserError for a file that is no .xlsx, for a sheet that is larger than allowed, for one of fewer columns and
    for a cell that is not of the schema, with its row.
    """
    names = list(schema.json_schema()["properties"])
    rows, columns = _cells(path), len(names)
    header = rows[0] if rows else ()
    if len(header) < columns:
        raise UserError(f"{path}: expected {columns} columns at least, found {len(header)}: download it again")
    return (
        checked_value(schema, dict(zip(names, row, strict=False)), f"{path}, row {number}")
        for number, row in enumerate(rows[1:], start=2)
        if any(row)
    )


def read_records(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The rows as dictionaries by the header's names; UserError where one of `columns` is not among these."""
    # An empty sheet has no header; with an empty one, the error below names the columns.
    header, *rows = _cells(path) or [()]
    if missing := [column for column in columns if column not in header]:
        raise UserError(f"{path} has no column {' or '.join(missing)}: copy it again from the release")
    return (dict(zip(header, row, strict=True)) for row in rows if any(row))


def _cells(path: Path) -> list[Row]:
    import openpyxl  # takes a third of a second, and hardly a data set has sheets

    try:
        _check_size(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl's, of styles and extensions that it leaves out
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
    # openpyxl raises whatever a damaged file makes it stumble on.
    except Exception as error:
        reason = type(error).__name__
        raise UserError(f"{path} is not an .xlsx spreadsheet ({reason}): download it again") from error
    # Without dimensions each row ends at its last cell.
    width = max(map(len, rows), default=0)
    return [row + ("",) * (width - len(row)) for row in rows]


def _check_size(path: Path) -> None:
    """Raises UserError for a file that unpacks to more than is allowed: it would all be read into memory."""
    with zipfile.ZipFile(path) as packed:
        size = sum(part.file_size for part in packed.infolist())
    if size > SHEET:
        raise UserError(f"{path} unpacks to {size // MB} MB, more than {SHEET // MB}: no official release has so much")


def _within_limits(values: Iterator[tuple[object, ...]], path: Path) -> list[Row]:
    rows: list[Row] = []
    size = 0
    # One by one: a cell far down or to the right is preceded by empty rows and cells without end.
    for cells in values:
        if len(cells) > COLUMNS or len(rows) >= ROWS:
            raise UserError(
                f"{path}, row {len(rows) + 1}: more than {COLUMNS} columns or {ROWS:,} rows; delete the cells that lie "
                "far off"
            )
        # One by one as well: many cells may share a long text, and each gets a copy of its own.
        row = []
        for cell in cells:
            row.append("" if cell is None else str(cell).strip())
            size += len(row[-1])
            if size > SHEET:
                raise UserError(
                    f"{path}, row {len(rows) + 1}: the cells hold more than {SHEET:,} characters, and no official "
                    "release has so many; download it again"
                )
        rows.append(tuple(row))
    return rows
