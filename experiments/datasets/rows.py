"""Reads rows of JSON Lines, JSON, CSV and Parquet files as mappings of column to value.

Parquet is read as `datasets` writes it: the names of a ClassLabel take the place of its numbers. A picture's content
can be left out, since pictures are most of such files.
"""

import ast
import json
import math
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_core import from_json

from actors.errors import UserError
from actors.received import received
from experiments.datasets.fields import validated
from experiments.datasets.reading import RECORDS, UNPACKED, raw_lines, read_items, read_table

SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet")
ARRAY = ".json"  # files with an array of objects, or with an object around one; a folder may hold others of this kind
BATCH = 256  # rows of a Parquet file in memory at once, each perhaps with a picture
CONTENT = ".bytes"  # end of the Parquet column with the content of a picture
PATH_LENGTH = 1024  # characters; a longer text in the place of a picture's path is its content in base64
FIRST = 100  # rows that show whether pictures lie in a file

Values = dict[str, Any]

JSON_ROW: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
CELLS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


class Row(NamedTuple):
    """A row of a file with its number there, from 1, and its place for errors."""

    number: int
    where: str
    values: Values


def is_absent(value: Any) -> bool:
    """True for null, blank text, an empty list and NaN, which pandas writes for a value that is not there."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or value == []


def is_base64(value: Any) -> bool:
    """True for a text with the content of a picture in base64. A path is shorter, and other texts have blanks."""
    return isinstance(value, str) and len(value) > PATH_LENGTH and " " not in value.strip()


class RowFile:
    """A file of rows. Raises UserError for one that is missing, broken or of another form."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def has_content(self) -> bool:
        """True for a Parquet file with the content of pictures."""
        return self.path.suffix == ".parquet" and any(path.endswith(CONTENT) for path in self._parquet_columns)

    @property
    def has_base64(self) -> bool:
        """True for a file with pictures in base64, as its first rows show."""
        return any(any(map(is_base64, row.values.values())) for row in islice(self.rows(), FIRST))

    def rows(self, numbers: Set[int] | None = None, *, content: bool = False) -> Iterator[Row]:
        """Yields the rows in their order.

        numbers: of the rows that are needed; others may be left out.
        content: with the content of pictures in Parquet; without it, a picture has its path alone.
        """
        if self.path.suffix == ".parquet":
            yield from self._parquet_rows(numbers, content)
        elif self.path.name.endswith((".jsonl", ".jsonl.gz")):
            for number, text in raw_lines(self.path):
                if numbers is None or number in numbers:
                    where = f"{self.path}, line {number}"
                    yield Row(number, where, validated(JSON_ROW, text, where, "a JSON object a line"))
        elif self.path.suffix == ARRAY:
            for number, (where, values) in enumerate(read_items(self.path, JSON_ROW, "object"), start=1):
                yield Row(number, where, values)
        else:
            separator = "\t" if self.path.suffix == ".tsv" else ","
            table = read_table(self.path, CELLS, quoted=True, separator=separator)
            for number, (where, cells) in enumerate(table, start=1):
                yield Row(number, where, {name: list_in_text(cell) for name, cell in cells.items()})

    def _parquet_rows(self, numbers: Set[int] | None, content: bool) -> Iterator[Row]:
        columns = None
        if not content:
            columns = [path for path in self._parquet_columns if not path.endswith(CONTENT)]
        number = 0
        with self._parquet_read() as file:
            label_names = self._label_names(file.schema_arrow.metadata or {})
            for group in range(file.num_row_groups):
                end = number + file.metadata.row_group(group).num_rows
                # Only the groups of rows that are needed are read.
                if numbers is not None and numbers.isdisjoint(range(number + 1, end + 1)):
                    number = end
                    continue
                for batch in file.iter_batches(BATCH, row_groups=[group], columns=columns):
                    for values in batch.to_pylist():
                        number += 1
                        for column, names in label_names.items():
                            values[column] = label_name(values.get(column), names)
                        yield Row(number, f"{self.path}, row {number}", values)

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

    def _label_names(self, metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
        """Returns the names of labels by column, as `datasets` keeps them. Raises UserError for damaged ones."""
        names_by_column: dict[str, list[str]] = {}
        with received(f"{self.path}: its features are damaged", "write it again"):
            description = json.loads(metadata.get(b"huggingface", b'{"info": {"features": {}}}'))
            for column, feature in description["info"]["features"].items():
                # Of a list of labels, those of its items. A list of objects is no object.
                if isinstance(feature, dict):
                    feature = feature.get("feature", feature)
                if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
                    names_by_column[column] = list(map(str, feature["names"]))
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


def label_name(label: Any, names: list[str]) -> Any:
    """Returns the name of a label, or the names of several. None for no label, which `datasets` writes as -1."""
    if isinstance(label, list):
        return [label_name(number, names) for number in label]
    if isinstance(label, int) and 0 <= label < len(names):
        return names[label]
    return None
