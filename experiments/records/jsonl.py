"""Files of JSON lines that one process appends to while others read them.

A last line without its newline is still being written, or its writer was killed: readers ignore it, and a
writer that resumes the file cuts it off.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO, FileIO
from pathlib import Path
from typing import TypeVar

from actors.errors import UserError
from experiments.records import parts

T = TypeVar("T")

REASON_CHARACTERS = 300
LINE_BYTES = 64_000_000  # no record has so many; a file without line breaks must not fill the memory


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line begins: the number of its part, and the byte in that."""

    part: int
    offset: int


def lines(path: Path, after: int = 0) -> Iterator[bytes]:
    """The complete lines after the first `after` bytes, each with its newline, from all parts of a file.

    None where there is no file. Raises UserError for a line that no record can be, and for a damaged part.
    """
    return (line for _, line in placed(path, after))


def placed(path: Path, after: int = 0) -> Iterator[tuple[Place, bytes]]:
    """The complete lines, as `lines` gives them, each with its place."""
    for part, file in parts.opened(path):
        offset = file.seek(min(after, file.seek(0, os.SEEK_END)))
        after -= offset
        while line := file.readline(LINE_BYTES):  # bytes: a half-written last line may end inside a character
            if not line.endswith(b"\n"):
                if len(line) == LINE_BYTES:
                    raise UserError(f"{path} has a line of more than {LINE_BYTES:,} bytes, which is no record")
                return
            yield Place(part, offset), line
            offset += len(line)


def line_at(path: Path, place: Place) -> bytes:
    """The line that begins at a place."""
    with BytesIO(_part(path, place.part)) if parts.has_part(path, place.part) else path.open("rb") as file:
        file.seek(place.offset)
        return file.readline(LINE_BYTES)


@lru_cache(maxsize=2)  # who asks for single lines asks for them in nearly the order in which they stand
def _part(path: Path, number: int) -> bytes:
    with parts.open_part(path, number) as file:
        return file.read()


def records(path: Path, decode: Callable[[str], T], remedy: str, only: Container[int] | None = None) -> Iterator[T]:
    """The complete lines, decoded; `only` are the positions to decode, from 0. Raises UserError like `decoded`."""
    for position, line in enumerate(lines(path)):
        # Decoding is what costs; lines that are not needed are only skipped.
        if only is None or position in only:
            yield decoded(path, position + 1, line, decode, remedy)


def decoded(path: Path, number: int, line: bytes, decode: Callable[[str], T], remedy: str) -> T:
    """One decoded line; `number` counts from 1. Raises UserError, ending in `remedy`, when it cannot be decoded."""
    try:
        return decode(line.decode())
    # JSON of another kind fails in `decode` in many ways; the user needs the file, the line and a remedy.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # The text of a ValueError says more than its kind.
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        reason = " ".join(reason.split())[:REASON_CHARACTERS]
        raise UserError(f"{path}, line {number}: not a record of this kind ({reason}); {remedy}") from error


def append(file: FileIO, line: str, sync: bool = False) -> None:
    """Adds a line to a file opened for appending without a buffer; with `sync` it is on disk when this returns.

    Raises UserError when there is no room for it. Of a line that was not written whole nothing stays: another may
    follow once there is room.
    """
    content = line.encode() + b"\n"
    before = None
    try:
        status = os.fstat(file.fileno())
        before = status.st_size
        # A file without a name takes what is written, and nobody will ever read it.
        if not status.st_nlink:
            raise OSError(errno.ENOENT, "it was deleted during the run", file.name)
        # One call for the whole line, so that a killed run leaves at most its last line torn.
        if file.write(content) != len(content):
            # A nearly full disk takes a part of the line without an error.
            raise OSError(errno.ENOSPC, "no space left for a whole line", file.name)
        # Without it a killed process loses nothing, but a power cut may: for that a write must have reached the disk.
        if sync:
            os.fsync(file.fileno())
    except OSError as error:
        if before is not None:
            with suppress(OSError):
                os.ftruncate(file.fileno(), before)
        raise UserError(f"cannot write {file.name}: {error}; make room and resume the run") from error


def cut(path: Path) -> None:
    """Cuts off an incomplete last line, so that the next one is not appended to it.

    Raises UserError where what follows the last newline is longer than any record.
    """
    if path.exists():
        size = path.stat().st_size
        begins = max(0, size - LINE_BYTES)
        # Of the end alone: a file may have a size that no memory holds and be nearly empty.
        with path.open("rb") as file:
            file.seek(begins)
            newline = file.read(LINE_BYTES).rfind(b"\n")
        if newline < 0 and begins:
            raise UserError(f"{path} has a line of more than {LINE_BYTES:,} bytes, which is no record")
        # Without any newline `rfind` gives -1, and the file becomes empty.
        os.truncate(path, begins + newline + 1)
