"""Reads the files of a release one record at a time. A broken file gets one line.

Every reader validates records by a layout (`fields`) and yields them with their place in the file, which begins errors
about them. All raise UserError for a file that is missing, truncated, too large, not UTF-8 or of another form.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, cast

import ijson
from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.fields import MB, RECORD, ROW, Id, validated

T = TypeVar("T")
Quoting = Literal[0, 3]  # csv.QUOTE_MINIMAL, csv.QUOTE_NONE
R = TypeVar("R")

# Limits are far above what the official releases hold; the largest of these are in brackets.
RECORDS = 2_000_000  # records of a file (218,285 passages of MultimodalQA)
UNPACKED = 4096 * MB  # bytes of a file, unpacked (hundreds of MB: the passages, and WebQA's questions)
WHOLE = 64 * MB  # bytes of a file that is read as a whole (13 MB, TAT-QA's training file)
NESTING = 100  # levels of a JSON text (8, WebQA)
PADDING = 2**16  # zeros after a member of a gzip file
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ITEM = "item"  # of an array, in ijson

MEMBER_NAME = TypeAdapter(Id)


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


def each(records: Iterable[tuple[str, T]], make: Callable[[T], R]) -> Iterator[R]:
    """Yields something made of every record. Errors begin with the record's place."""
    for where, record in records:
        with placed(where):
            result = make(record)
        yield result


def once(id: str, ids: set[str], noun: str = "id") -> None:
    """Adds an id to `ids`. Raises UserError for one that is there already."""
    if id in ids:
        raise UserError(f"{noun} {id} is there twice: remove one, or give it another id")
    ids.add(id)


class ShortPadding(FileIO):
    """Gzip file. Raises gzip.BadGzipFile for more than `PADDING` zeros after a member.

    `gzip` skips such zeros one at a time: gigabytes of them, which need no room on a disk, would take hours.
    """

    zeros = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.zeros = self.zeros + 1 if content == b"\0" else 0
        if self.zeros > PADDING:
            raise gzip.BadGzipFile(f"more than {PADDING:,} zeros follow a member of it")
        return content


class ShortContent(gzip.GzipFile):
    """Content of a gzip file. Raises gzip.BadGzipFile behind its first `most_bytes`."""

    most_bytes = UNPACKED

    def read(self, size: int | None = -1) -> bytes:
        return self._within(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._within(super().readline(size))

    def _within(self, content: bytes) -> bytes:
        if self.tell() > self.most_bytes:
            raise gzip.BadGzipFile(f"it unpacks to more than {self.most_bytes:,} bytes")
        return content


@contextmanager
def unpacked(path: Path, most_bytes: int = 2 * UNPACKED) -> Iterator[BinaryIO]:
    """Opens the content of a gzip file. Reading it raises what `gzip.open` raises."""
    with ShortPadding(path) as file, ShortContent(fileobj=file) as content:
        content.most_bytes = most_bytes
        yield cast("BinaryIO", content)


class Limited:
    """Content of a release's file, without its byte order mark.

    Raises UserError for a record of more than `most` bytes, and for a file of more than `RECORDS` records or `UNPACKED`
    bytes. Call `begin` before every record but the first.
    """

    def __init__(self, path: Path, file: BinaryIO, most: int) -> None:
        self._path = path
        self._file = file
        self._most = most
        self._record_bytes = 0
        self._file_bytes = 0
        self._records = 1

    def begin(self) -> None:
        self._record_bytes = 0
        self._records += 1

    def read(self, size: int = -1) -> bytes:
        return self._counted(self._file.read(size))

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines, each with its newline."""
        while line := self._counted(self._file.readline(self._most - self._record_bytes + 1)):
            yield line

    def _counted(self, content: bytes) -> bytes:
        if not self._file_bytes:
            content = content.removeprefix(BYTE_ORDER_MARK)
        self._record_bytes += len(content)
        self._file_bytes += len(content)
        if self._record_bytes > self._most or self._file_bytes > UNPACKED or self._records > RECORDS:
            raise UserError(
                f"{self._path}, record {self._records:,}: larger than {self._most // MB} MB, or the file has more than "
                f"{RECORDS:,} records or {UNPACKED // MB:,} MB, as no official release has: download it again"
            )

        return content


@contextmanager
def limited(path: Path, most: int = RECORD) -> Iterator[Limited]:
    """Opens a file, plain or gzipped, whose records have `most` bytes at most."""
    with reading(path), ExitStack() as stack:
        opened = unpacked(path) if path.suffix == ".gz" else path.open("rb")
        yield Limited(path, stack.enter_context(opened), most)


def read_lines(path: Path, layout: type[T]) -> Iterator[tuple[str, T]]:
    """Yields the records of a .jsonl or .jsonl.gz file with their places. Blank lines are left out."""
    schema = TypeAdapter(layout)
    for number, text in raw_lines(path):
        where = f"{path}, line {number}"
        yield where, validated(schema, text, where)


def raw_lines(path: Path, most: int = RECORD) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file, plain or gzipped, with their numbers from 1. Blank lines are left out."""
    with limited(path, most) as file:
        for number, line in enumerate(file, start=1):
            if text := line.strip():
                yield number, text
                file.begin()


def read_bytes(path: Path, most: int = WHOLE) -> bytes:
    """Reads a small file as a whole, without a byte order mark."""
    with limited(path, most) as file:
        return file.read(most + 1)


def read_json(path: Path, layout: TypeAdapter[T]) -> T:
    """Reads a small JSON file as one record."""
    return validated(layout, read_bytes(path), str(path))


def read_members(path: Path, layout: TypeAdapter[T], noun: str) -> Iterator[tuple[str, str, T]]:
    """Yields place, name and value of every member of a file's JSON object, one at a time. `noun` is one, in errors.

    Raises UserError also for an object without members, and for a name that is there twice.
    """
    names = set[str]()
    with limited(path) as file:
        # From the file in C: from events in Python it takes eight times as long.
        members = ijson.kvitems(file, "", use_float=True)
        for name, value in _unbroken(members, path, noun):
            where = f"{path}, {noun} {validated(MEMBER_NAME, name, str(path))}"
            with placed(str(path)):
                once(name, names, noun)
            yield where, name, validated(layout, value, where)
            file.begin()

    if not names:
        raise UserError(f"{path}: expected a JSON object with one {noun} at least; download it again")


def read_items(path: Path, layout: TypeAdapter[T], noun: str) -> Iterator[tuple[str, T]]:
    """Yields place and value of every item of a file's JSON array, one at a time. `noun` is one, in errors.

    The array is the whole file, or the only member of its object that is an array of objects.
    Raises UserError also for a file without such an array, or with several.
    """
    number = 0
    prefix = _prefix_of_items(path)
    with limited(path) as file:
        items = ((None, value) for value in ijson.items(file, prefix, use_float=True))
        for number, (_, value) in enumerate(_unbroken(items, path, noun), start=1):
            where = f"{path}, {noun} {number}"
            yield where, validated(layout, value, where)
            file.begin()

    if not number:
        raise UserError(f"{path}: expected a JSON array with one {noun} at least, [{{...}}, {{...}}]; correct it")


def _prefix_of_items(path: Path) -> str:
    """Returns the name that ijson gives the items of a file's array: `item`, or `data.item` in `{"data": [{`.

    Raises UserError where several members of the file's object are arrays of objects.
    """
    # Names of arrays: empty for the whole file, or of a member of its object.
    arrays: set[str] = set()
    arrays_of_objects: set[str] = set()
    # A broken file gets its error where the items are read.
    with limited(path) as file, suppress(ijson.JSONError, ValueError, MemoryError):
        for prefix, event, _ in ijson.parse(file):
            parent, _, last = prefix.rpartition(".")
            if event == "start_array" and "." not in prefix:
                arrays.add(prefix)
            elif event == "start_map" and last == ITEM and parent in arrays:
                if not parent:
                    return ITEM
                arrays_of_objects.add(parent)
                file.begin()

    if len(arrays_of_objects) > 1:
        names = ", ".join(sorted(arrays_of_objects))
        raise UserError(
            f"{path} has several arrays of objects ({names}): write a file for each, and name the one to read"
        )
    return ".".join([*arrays_of_objects, ITEM])


def _unbroken(values: Iterator[tuple[Any, Any]], path: Path, noun: str) -> Iterator[tuple[Any, Any]]:
    """Yields names and values of a JSON file. Raises UserError where it is broken, and where values are too deep."""
    values_read = 0
    try:
        for name, value in values:
            check_nesting(value)
            yield name, value
            values_read += 1
    except UnicodeDecodeError:
        raise
    # Besides ijson's own: limits of nesting (a MemoryError in its C code) and of the digits of a number.
    except (ijson.JSONError, ValueError, MemoryError) as error:
        message = error.args[0] if error.args else ""
        reason = repr(message).partition("\\n")[0]
        raise UserError(
            f"{path}, after {values_read:,} times {noun}: broken JSON ({reason}); the file may be truncated, "
            "download it again"
        ) from None


def check_nesting(value: Any) -> None:
    """Raises ValueError for lists and objects inside each other that validation could not follow."""
    level = [value]
    for _ in range(NESTING):
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                inner += part.values()
            elif isinstance(part, list):
                inner += part
        if not inner:
            return
        level = inner
    raise ValueError(f"more than {NESTING} levels")


def read_table(path: Path, layout: TypeAdapter[T], *, quoted: bool, separator: str = "\t") -> Iterator[tuple[str, T]]:
    """Yields the rows of a file of separated values with their places, by the names in its first row.

    quoted: quotation marks enclose a field, which may then go over several lines.
    Raises UserError also for a file without rows, for two columns of one name, and for a row of too few values or,
    where quoted, too many.
    """
    is_empty = True
    names = set[str]()
    # The limit belongs to the module: a picture is one field, and the default is 128 KiB.
    csv.field_size_limit(ROW)
    with limited(path, ROW) as file:
        # Lines keep their ends: the reader of rows tells them from those inside of a field.
        lines = (line.decode() for line in file)
        quoting: Quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        rows = csv.DictReader(lines, delimiter=separator, quoting=quoting)
        try:
            # A blank line is no header.
            while rows.fieldnames == []:
                rows.fieldnames = None
            for name in filter(None, rows.fieldnames or ()):
                with placed(str(path)):
                    once(name, names, "column")
            for row in rows:
                where = f"{path}, line {rows.line_num}"
                file.begin()
                if None in row.values() or (quoted and None in row):
                    raise UserError(
                        f"{where}: another number of values than columns: correct the line, or download the file"
                    )
                is_empty = False
                yield where, validated(layout, row, where)
        except csv.Error as error:
            raise UserError(f"{path}, line {rows.line_num} is not of a table ({error}): download it again") from error

    if is_empty:
        if names:
            raise UserError(f"{path} is empty below the names of its columns: add a row, or download it again")
        raise UserError(f"{path} is empty: download it again")


def row_cells(headers: Iterable[str], values: Iterable[str]) -> list[str]:
    """Writes a table row as `header = value`, without empty cells. Raises UserError for a row of another width."""
    headers = list(headers)
    values = list(values)
    # A row of another width would put values under wrong headers.
    if len(headers) != len(values):
        raise UserError(f"a table row of {len(values)} cells under {len(headers)} headers: expected as many")
    cells: list[str] = []
    for header, value in zip(headers, values, strict=True):
        if value and header:
            cells.append(f"{header} = {value}")
        elif value:
            cells.append(value)

    return cells
