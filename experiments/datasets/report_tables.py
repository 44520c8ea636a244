"""Turns tables of financial reports into sources, one for each row with the names of its columns."""

import re
from collections.abc import Iterator, Sequence

from actors.errors import UserError
from actors.messages import Kind, Source
from experiments.datasets.reading import row_cells

# A year, alone or in a date, but not in 2,019 or $2019; FY18, F19, Q4 2018.
_PERIOD = re.compile(r"(?<![\d,.$€£¥])(?:19|20)\d\d(?![\d,.]*\d)|\b(?:FY|F|Q[1-4])\s?[’']?\d\d\b")
_UNIT = re.compile(r"[$€£¥%]|\b(?:thousand|million|billion|percent)s?\b", re.IGNORECASE)
_LEFT_OUT = re.compile(r"\(\w\)|[A-Z]{1,3}(?=[$€£¥])|\W")  # of an amount: footnotes, currencies, punctuation
_NO_AMOUNT = ("", "na", "nm", "nil", "none")  # "" is left of a dash


def row_sources(table: str, rows: Sequence[Sequence[str]]) -> Iterator[Source]:
    """Rows below the header, with their headers: "Label; 2019 = $100; 2018 = $82".

    A row with a label alone ("Assets") heads the rows that follow: their label becomes "Assets: Inventories".
    Raises UserError for a row without cells or of another width than its header.
    """
    if not all(rows):
        raise UserError(f"table {table} has a row without cells: expected as many as in its header")
    first = header_rows(rows)
    head, section = list(rows[:first]), ""
    # A header's last row may be the label of the first section.
    if first and is_section(head[-1]) and any(any(row[1:]) for row in head[:-1]):
        section = next(cell for cell in head.pop() if cell.strip()).rstrip(":")
    if len({len(row) for row in head}) > 1:
        raise UserError(f"table {table} has a header whose rows are of different widths")
    headers = [" ".join(cell for cell in column if cell) for column in zip(*head, strict=True)]
    # Ids are places in the whole table, header rows included.
    for number, row in enumerate(rows[first:], start=first):
        label, values = row[0].rstrip(":"), row[1:]
        if is_section(row):
            section = next(cell for cell in row if cell.strip()).rstrip(":")
            continue
        cells = row_cells(headers[1:], values)
        name = ": ".join(part for part in (section, label) if part)
        if cells:
            title = headers[0] or "Table"
            yield Source(f"{table}:{number}", table, Kind.TABLE, title, "; ".join([name, *cells] if name else cells))


def header_rows(rows: Sequence[Sequence[str]]) -> int:
    """Counts the rows at the top that name columns: all before the first row of data, with a label and a value.

    The first row names columns in any case; so does a later row with a label and without an amount that has a unit ("($
    in millions)", "£m"), a value in a column without a name, or the table's first years or other periods.
    """
    named, periods_above = set[int](), False
    for number, row in enumerate(rows):
        values = {place: cell for place, cell in enumerate(row) if place and cell.strip()}
        periods = any(map(_PERIOD.search, values.values()))
        names = any(map(is_unit, row)) or not values.keys() <= named or (periods and not periods_above)
        if number and row[0] and any(row[1:]) and (not names or any(map(is_amount, values.values()))):
            return number
        named |= values.keys()
        periods_above |= periods
    return len(rows)


def is_amount(cell: str) -> bool:
    """True for a number, with whatever sign and currency, or for a sign that there is none."""
    left = _LEFT_OUT.sub("", cell).lower()
    number = left.removesuffix("x").isdigit() or left in _NO_AMOUNT
    return number and not is_unit(cell) and not _PERIOD.search(cell)


def is_unit(cell: str) -> bool:
    """True for the unit of a column or a table, without a number of it."""
    return _UNIT.search(cell) is not None and not re.search(r"[\d–—−-]", cell.replace("000", ""))


def is_section(row: Sequence[str]) -> bool:
    """True for a row with a label alone. In another column than the first the label ends with a colon."""
    filled = [place for place, cell in enumerate(row) if cell.strip()]
    return len(filled) == 1 and (filled == [0] or row[filled[0]].rstrip().endswith(":"))
