"""Reading a benchmark's files, with one clear line for each way in which they can be missing or broken."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from actors.errors import UserError

T = TypeVar("T")

Record = dict[str, Any]


def number_text(value: float) -> str:
    """The text of a computed answer, without floating-point noise (300, not 300.0; 1.144)."""
    return f"{value:.10g}"


def row_cells(headers: Iterable[str], values: Iterable[str]) -> list[str]:
    """A table row as `header = value` parts, without empty cells. Raises ValueError for a row of another width."""
    # Strict: a row of another width would put values under wrong headers.
    cells = zip(headers, values, strict=True)
    return [f"{header} = {value}" if header else value for header, value in cells if value]


def find(root: Path, name: str, release: str, *, packed: bool = False) -> Path:
    """`root / name`, or with `packed` also `root / name.gz`; the plain file wins where both exist.

    `release` says where the benchmark's release has the file. Raises UserError when there is none.
    """
    if not root.is_dir():
        raise UserError(f"data folder {root} does not exist: give the folder that holds {name} ({release})")
    candidates = [root / name, root / f"{name}.gz"] if packed else [root / name]
    for path in candidates:
        if path.is_file():
            return path
    alternative = " (or .gz)" if packed else ""
    raise UserError(f"missing data file {root / name}{alternative}: copy it there from {release}")


def read_lines(path: Path, parse: Callable[[Record], T | None]) -> Iterator[T]:
    """The objects of a .jsonl or .jsonl.gz file as `parse` reads them, one at a time; None is left out.

    Raises UserError with file and line for a line that is not a JSON object, for one that `parse` cannot read
    (KeyError, TypeError, ValueError or a UserError of its own), and for a compressed file that ends too early.
    """
    number = 0  # for the error below, when not even the first line can be unpacked
    try:
        # In bytes: a line that is not UTF-8 then fails in json.loads and is reported with its number.
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    value = _from_line(line, parse, f"{path}, line {number}")
                    if value is not None:
                        yield value
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path} is truncated or not a gzip file (after line {number}: {error}): download it again"
        ) from error


def _from_line(line: bytes, parse: Callable[[Record], T], where: str) -> T:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where}: broken JSON ({error}); the file may be truncated, download it again") from error
    if not isinstance(record, dict):
        raise UserError(f"{where}: expected a JSON object, found {type(record).__name__}")
    return from_record(record, parse, where)


def from_record(record: Record, parse: Callable[[Record], T], where: str) -> T:
    """`parse(record)`; a record of the wrong form is a UserError that starts with `where`."""
    try:
        return parse(record)
    except UserError as error:
        # A loader's own message says more than the ones below: it only lacks the place.
        raise UserError(f"{where}: {error}") from error
    except KeyError as error:
        raise UserError(f"{where}: the record has no {error} as the official release has") from error
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise UserError(f"{where}: the record is not of the official release's form ({error})") from error


def read_json(path: Path, kind: type[T]) -> T:
    """A whole JSON file whose top level is a `kind` (dict or list); UserError when broken or truncated."""
    try:
        content = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}, line {error.lineno}: broken JSON ({error.msg}); the file may be truncated, download it again"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error}): download it again") from error
    if not isinstance(content, kind):
        raise UserError(f"{path}: expected a JSON {kind.__name__} at the top, found {type(content).__name__}")
    return content


def check_image(path: Path) -> None:
    """Decode a picture once and forget it; UserError when that fails. A JPEG is decoded at an eighth of its size."""
    try:
        with Image.open(path) as picture:
            picture.draft("RGB", (1, 1))  # much faster, and every byte is still read
            picture.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        # Pillow's own message repeats the path and may hold several lines.
        reason = type(error).__name__
        raise UserError(f"image {path} cannot be decoded ({reason}): copy it again or remove it") from error
