"""Reads the files of a release one record at a time. A broken file gets one line.

Every reader validates records by a layout (`fields`) and yields them with their place in the file, which begins errors
about them. All raise UserError for a file that is missing, truncated, too large, not UTF-8 or of another form.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import ijson
from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.fields import ID, MB, RECORD, ROW, adapter, validated

T = TypeVar("T")
R = TypeVar("R")

# Limits are far above what the official releases hold; the largest of these are in brackets.
RECORDS = 2_000_000  # records of a file (218,285 passages of MultimodalQA)
UNPACKED = 4096 * MB  # bytes of a file, unpacked (hundreds of MB: the passages, and WebQA's questions)
WHOLE = 32 * MB  # bytes of a file that is read as a whole (0.5 MB, ScienceQA's pid_splits.json)
NESTING = 100  # levels of a JSON text (8, WebQA)
PADDING = 2**16  # zeros after a member of a gzip file
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Puts the place of a record before errors about it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns failures of reading a file into a UserError that names it."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is truncated or not a gzip file ({error}): download it again") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8, or download it again") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}): copy it again") from error


def each(rows: Iterable[tuple[str, T]], make: Callable[[T], R]) -> Iterator[R]:
    """Yields something made of every record. Errors begin with the record's place."""
    for where, row in rows:
        with placed(where):
            made = make(row)
        yield made


def once(id: str, seen: set[str], noun: str = "id") -> None:
    """Adds an id to `seen`. Raises UserError for one that is there already."""
    if id in seen:
        raise UserError(f"{noun} {id} is there twice: remove one, or give it another id")
    seen.add(id)


class ShortPadding(FileIO):
    """Gzip file. Raises gzip.BadGzipFile for more than `PADDING` zeros after a member.

    `gzip` skips such zeros one at a time: gigabytes of them, which need no room on a disk, would take hours.
    """

    zeros = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.zeros = self.zeros + 1 if found == b"\0" else 0
        if self.zeros > PADDING:
            raise gzip.BadGzipFile(f"more than {PADDING:,} zeros follow a member of it")
        return found


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """Opens the content of a gzip file. Reading it raises what `gzip.open` raises."""
    with ShortPadding(path) as file, gzip.GzipFile(fileobj=file) as content:
        yield cast("BinaryIO", content)


class Limited:
    """Content of a release's file, without its byte order mark.

    Raises UserError for a record of more than `most` bytes, and for a file of more than `RECORDS` records or `UNPACKED`
    bytes. Call `begin` before every record but the first.
    """

    def __init__(self, path: Path, file: BinaryIO, most: int) -> None:
        self._path, self._file, self._most = path, file, most
        self._left, self._size, self._records = most, 0, 1

    def begin(self) -> None:
        self._left, self._records = self._most, self._records + 1

    def read(self, size: int = -1) -> bytes:
        return self._counted(self._file.read(size))

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines, each with its newline."""
        return iter(lambda: self._counted(self._file.readline(self._left + 1)), b"")

    def _counted(self, found: bytes) -> bytes:
        found = found if self._size else found.removeprefix(BYTE_ORDER_MARK)
        self._left -= len(found)
        self._size += len(found)
        if self._left < 0 or self._size > UNPACKED or self._records > RECORDS:
            raise UserError(
                f"{self._path}, record {self._records:,}: larger than {self._most // MB} MB, or the file has more than "
                f"{RECORDS:,} records or {UNPACKED // MB:,} MB, as no official release has: download it again"
            )
        return found


@contextmanager
def limited(path: Path, most: int = RECORD) -> Iterator[Limited]:
    """Opens a file, plain or gzipped, whose records have `most` bytes at most."""
    with reading(path), unpacked(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield Limited(path, file, most)


def read_lines(path: Path, layout: type[T] | TypeAdapter[T]) -> Iterator[tuple[str, T]]:
    """Yields the records of a .jsonl or .jsonl.gz file with their places. Blank lines are left out."""
    schema = adapter(layout)
    with limited(path) as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}, line {number}"
            if text := line.strip():
                yield where, validated(schema, text, where)
                file.begin()


def read_bytes(path: Path, most: int = WHOLE) -> bytes:
    """Reads a small file as a whole, without a byte order mark."""
    with limited(path, most) as file:
        return file.read(most + 1)


def read_json(path: Path, layout: type[T] | TypeAdapter[T]) -> T:
    """Reads a small JSON file as one record."""
    return validated(adapter(layout), read_bytes(path), str(path))


def read_members(
    path: Path, layout: type[T] | TypeAdapter[T], noun: str, inside: str = "", *, of_list: bool = False
) -> Iterator[tuple[str, str, T]]:
    """Yields place, name and value of every member of a file's JSON object, or of the object `inside`.

    `noun` is a member in errors. With `of_list`, members are the elements of a list, and their numbers (from 0) are the
    names. Raises UserError also for none, and for a name that is there twice. No more than one value is in memory.
    """
    seen, schema, depth = set[str](), adapter(layout), 0

    def shallow(events: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        nonlocal depth
        for event, value in events:
            depth += (event in ("start_map", "start_array")) - (event in ("end_map", "end_array"))
            if depth > NESTING:  # which would fill the memory
                raise ValueError(f"more than {NESTING} levels")
            yield event, value

    with limited(path) as file:
        try:
            events = ijson.parse(shallow(ijson.basic_parse(file, use_float=True)))
            if of_list:
                elements = ijson.items(events, f"{inside}.item" if inside else "item")
                members = ((str(number), value) for number, value in enumerate(elements))
            else:
                members = ijson.kvitems(events, inside)
            for name, value in members:
                where = f"{path}, {noun} {name[:ID]}"
                if not name or not name.isprintable() or len(name) > ID:
                    raise UserError(f"{where}: expected a name in one line, of at most {ID} characters")
                with placed(str(path)):
                    once(name, seen, noun)
                yield where, name, validated(schema, value, where)
                file.begin()
        except UnicodeDecodeError:
            raise
        # Besides ijson's own: limits of nesting and of the digits of a number.
        except (ijson.JSONError, ValueError) as error:
            text = error.args[0] if error.args else ""
            reason = (text.decode(errors="replace") if isinstance(text, bytes) else str(text)).partition("\n")[0]
            raise UserError(
                f"{path}, after {len(seen):,} times {noun}: broken JSON ({reason.strip()}); the file may be truncated, "
                "download it again"
            ) from None
    if not seen:
        form, where = "list" if of_list else "object", f" under {inside!r}" if inside else ""
        raise UserError(f"{path}: expected a JSON {form}{where} with one {noun} at least; download it again")


def read_elements(path: Path, layout: type[T] | TypeAdapter[T], noun: str, inside: str = "") -> Iterator[tuple[str, T]]:
    """Yields place and value of every element of a file's JSON list, or of the list `inside`, as `read_members`."""
    return ((where, value) for where, _, value in read_members(path, layout, noun, inside, of_list=True))


def read_table(path: Path, layout: type[T] | TypeAdapter[T], *, quoted: bool) -> Iterator[tuple[str, T]]:
    """Yields the rows of a tab-separated file with their places, by the names in its first row.

    quoted: quotation marks enclose a field, which may then go over several lines.
    Raises UserError also for a file without rows or without a column that the layout requires, and for a row of too few
    values.
    """
    schema, header, empty = adapter(layout), list[str](), True
    # The limit belongs to the module: a picture is one field, and the default is 128 KiB.
    csv.field_size_limit(ROW)
    with limited(path, ROW) as file:
        # Lines keep their ends: the reader of rows tells them from those inside of a field.
        lines = (line.decode() for line in file)
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
        try:
            for values in filter(None, rows):
                where = f"{path}, line {rows.line_num}"
                file.begin()
                if not header:
                    if missing := [name for name in schema.json_schema()["required"] if name not in values]:
                        raise UserError(
                            f"{path} has no column {missing[0]!r} as the official release has: copy it again"
                        )
                    header = values
                    continue
                if len(values) < len(header) or (quoted and len(values) > len(header)):
                    raise UserError(
                        f"{where}: {len(values)} values under {len(header)} columns; the file may be truncated, "
                        "download it again"
                    )
                empty = False
                yield where, validated(schema, dict(zip(header, values, strict=False)), where)
        except csv.Error as error:
            where = f"{path}, line {rows.line_num}"
            raise UserError(f"{where} is not of a table ({error}): download it again") from error
    if empty:
        raise UserError(f"{path} is empty: download it again")


def row_cells(headers: Iterable[str], values: Iterable[str]) -> list[str]:
    """Writes a table row as `header = value`, without empty cells. Raises UserError for a row of another width."""
    headers, values = list(headers), list(values)
    # A row of another width would put values under wrong headers.
    if len(headers) != len(values):
        raise UserError(f"a table row of {len(values)} cells under {len(headers)} headers: expected as many")
    return [f"{header} = {value}" if header else value for header, value in zip(headers, values, strict=True) if value]
