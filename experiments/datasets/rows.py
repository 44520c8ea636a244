"""Reads rows of JSON Lines, CSV and Parquet files as mappings of column to value, all or some of them.

Parquet is read as `datasets` writes it: the names of a ClassLabel take the place of its numbers. A picture's content
can be left out, since pictures are most of such files.
"""

import ast
import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_core import from_json

from actors.errors import UserError
from actors.received import BROKEN
from experiments.datasets.fields import RECORD, validated
from experiments.datasets.reading import RECORDS, UNPACKED, raw_lines, read_table

SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet")
BATCH = 256  # rows of a Parquet file in memory at once, each perhaps with a picture
CONTENT = ".bytes"  # end of the Parquet column with the content of a picture

Values = dict[str, Any]

JSON_ROW: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
CELLS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


class Row(NamedTuple):
    """A row of a file with its number there, from 1. unit, place: where it lies, `line 3`."""

    path: Path
    number: int
    unit: str
    place: int
    values: Values

    @property
    def where(self) -> str:
        """Place of the row, for errors."""
        return f"{self.path}, {self.unit} {self.place}"


def is_absent(value: Any) -> bool:
    """True for null, blank text, an empty list and NaN, which pandas writes for a value that is not there."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or value == []


class RowFile:
    """A file of rows. Raises UserError for one that is missing, broken or of another form."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_parquet(self) -> bool:
        return self.path.suffix == ".parquet"

    @cached_property
    def has_content(self) -> bool:
        """True for a Parquet file with the content of pictures."""
        return self.is_parquet and any(path.endswith(CONTENT) for path in self._parquet_columns)

    def rows(self, numbers: Collection[int] | None = None, *, content: bool = False) -> Iterator[Row]:
        """Yields the rows with some numbers, or all, in their order.

        content: with the content of pictures in Parquet; without it, a picture has its path alone.
        """
        name = self.path.name
        if self.is_parquet:
            return self._parquet_rows(numbers, content)
        if name.endswith((".jsonl", ".jsonl.gz")):
            return self._line_rows(numbers)
        return self._table_rows(numbers)

    def _line_rows(self, numbers: Collection[int] | None) -> Iterator[Row]:
        for number, text in raw_lines(self.path, RECORD):
            if numbers is None or number in numbers:
                values = validated(JSON_ROW, text, f"{self.path}, line {number}", "a JSON object a line")
                yield Row(self.path, number, "line", number, values)

    def _table_rows(self, numbers: Collection[int] | None) -> Iterator[Row]:
        separator = "\t" if self.path.suffix == ".tsv" else ","
        rows = read_table(self.path, CELLS, quoted=True, separator=separator)
        for number, (where, values) in enumerate(rows, start=1):
            if numbers is None or number in numbers:
                line = int(where.rpartition(" ")[2])
                cells = {name: list_in_text(cell) for name, cell in values.items()}
                yield Row(self.path, number, "line", line, cells)

    def _parquet_rows(self, numbers: Collection[int] | None, content: bool) -> Iterator[Row]:
        columns = None
        if not content:
            columns = [path for path in self._parquet_columns if not path.endswith(CONTENT)]
        first = 1
        with self._parquet_read() as file:
            names_of_labels = self._labels(file.schema_arrow.metadata or {})
            for group in range(file.num_row_groups):
                end = first + file.metadata.row_group(group).num_rows
                # Only the groups of rows that are asked for are read.
                if numbers is None or any(first <= number < end for number in numbers):
                    number = first
                    for batch in file.iter_batches(BATCH, row_groups=[group], columns=columns):
                        for values in batch.to_pylist():
                            if numbers is None or number in numbers:
                                for column, names in names_of_labels.items():
                                    values[column] = named(values.get(column), names)
                                yield Row(self.path, number, "row", number, values)
                            number += 1
                first = end

    @cached_property
    def _parquet_columns(self) -> list[str]:
        """Lists the columns of a Parquet file, down to their innermost parts."""
        with self._parquet_read() as file:
            if file.metadata.num_rows > RECORDS:
                raise UserError(f"{self.path} has more than {RECORDS:,} rows: divide it among several runs")
            for group in range(file.num_row_groups):
                if file.metadata.row_group(group).total_byte_size > UNPACKED:
                    raise UserError(
                        f"{self.path}: its row group {group} is larger than 4 GiB; write it in smaller ones"
                    )
            return [file.schema.column(number).path for number in range(len(file.schema.names))]

    @contextmanager
    def _parquet_read(self) -> Iterator[Any]:
        """Opens the file. Raises UserError where it cannot be read, also inside of the block."""
        import pyarrow  # takes a third of a second
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(self.path) as file:
                yield file
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(f"{self.path} is no Parquet file, or a damaged one ({reason}): write it again") from error

    def _labels(self, metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
        """Returns the names of labels by column, as `datasets` keeps them. Raises UserError for damaged ones."""
        text = metadata.get(b"huggingface")
        names_by_column: dict[str, list[str]] = {}
        if text is None:
            return names_by_column
        try:
            for column, feature in json.loads(text)["info"]["features"].items():
                # Of a list of labels, those of its items.
                of_items = feature.get("feature", feature) if isinstance(feature, dict) else {}
                if isinstance(of_items, dict) and of_items.get("_type") == "ClassLabel":
                    names_by_column[column] = list(map(str, of_items["names"]))
        except BROKEN as error:
            raise UserError(f"{self.path}: its features are damaged ({error!r}); write it again") from error
        return names_by_column


def list_in_text(cell: str) -> Any:
    """Reads the list of a cell in JSON, or as Python prints it. Any other text stays."""
    text = cell.strip()
    if not (text.startswith(("[", "{")) and text.endswith(("]", "}"))):
        return cell
    for read in (from_json, ast.literal_eval):  # neither runs code
        try:
            value = read(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        return value if isinstance(value, (list, dict)) else cell
    return cell


def named(label: Any, names: list[str]) -> Any:
    """Returns the name of a label, or the names of several. None for no label, which `datasets` writes as -1."""
    if isinstance(label, list):
        return [named(number, names) for number in label]
    if isinstance(label, int) and 0 <= label < len(names):
        return names[label]
    return None
