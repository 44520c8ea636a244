"""Reads the rows of a spreadsheet, with one clear line for each way in which it can be missing or broken."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from actors.errors import UserError

Row = tuple[str, ...]


def read_rows(path: Path, columns: int) -> Iterator[Row]:
    """The rows of the first sheet below its header, every cell as text ("" where there is none), empty rows left out.

    Raises UserError for a file that is no .xlsx and for one of fewer columns.
    """
    rows = _cells(path)
    header = rows[0] if rows else ()
    if len(header) < columns:
        raise UserError(f"{path}: expected {columns} columns at least, found {len(header)}: download it again")
    return (row for row in rows[1:] if any(row))


def read_records(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The rows as dictionaries by the header's names; UserError where one of `columns` is not among these."""
    # An empty sheet has no header; with an empty one, the error below names the columns.
    header, *rows = _cells(path) or [()]
    if missing := [column for column in columns if column not in header]:
        raise UserError(f"{path} has no column {' or '.join(missing)}: copy it again from the release")
    return (dict(zip(header, row, strict=True)) for row in rows if any(row))


def _cells(path: Path) -> list[Row]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # openpyxl's, of styles and extensions that it leaves out
            # data_only: a formula's stored result in place of its text.
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write a wrong one, and rows beyond it would be lost
            rows = [tuple("" if cell is None else str(cell).strip() for cell in row) for row in sheet.values]
        finally:
            book.close()
    except (BadZipFile, InvalidFileException, KeyError, IndexError, OSError) as error:
        reason = type(error).__name__
        raise UserError(f"{path} is not an .xlsx spreadsheet ({reason}): download it again") from error
    # Without dimensions each row ends at its last cell.
    width = max(map(len, rows), default=0)
    return [row + ("",) * (width - len(row)) for row in rows]
