"""Traces grow to gigabytes, so all but the newest lines of a file are compressed, in parts that lie beside it.

    evaluate-full.jsonl            the newest lines, as they are written
    evaluate-full.jsonl.0001.gz    those before them, oldest first: `zcat evaluate-full.jsonl.*.gz` prints them all
    evaluate-full.jsonl.0001       the same lines until they are compressed

A file becomes a part by being renamed, so that no kill loses a line or doubles one, and others can read meanwhile.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from itertools import count, takewhile
from pathlib import Path
from typing import BinaryIO

from actors.errors import UserError
from experiments.datasets.packed import unpacked
from experiments.records.atomic import write_atomically

PART_BYTES = 2**24  # a file of so many bytes becomes a part
# A part is longer than that by one record at most, but what somebody else compressed could fill the memory.
MOST_BYTES = 2**27
READ_BYTES = 1 << 20
LEVEL = 6  # traces become a thirteenth; at the highest level a twentieth less, in half as much time again
DAMAGED = "restore it from a copy, or start a new run"


def files(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that match a pattern, in the order of their names."""
    # A kill may leave parts without the file that was renamed.
    parts = (re.fullmatch(r"(.+)\.\d{4,}(\.gz)?", path.name) for path in folder.glob(f"{pattern}.*"))
    return sorted({*folder.glob(pattern), *(folder / part[1] for part in parts if part)})


def opened(path: Path) -> Iterator[tuple[int, BinaryIO]]:
    """Each part of a file with its number, from 1, and at last the file itself, where there is one.

    Raises UserError where a part is damaged, or larger than any can be.
    """
    for number in count(1):
        # Opened before its part is looked for: where it is renamed in between, it is read as that part.
        if newest := _plain(path):
            with newest:
                if not has_part(path, number):
                    yield number, newest
                    return
        if not has_part(path, number):
            return
        with open_part(path, number) as part:
            yield number, part


def beginning(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The first `size` bytes that are left of a file, or all where it has fewer, a piece at a time."""
    while size and (piece := file.read(min(size, READ_BYTES))):
        yield piece
        size -= len(piece)


def _plain(path: Path) -> BinaryIO | None:
    """The file, where there is one. Raises UserError for a folder, or where a file stands for its folder."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except (IsADirectoryError, NotADirectoryError) as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {DAMAGED}") from error


def open_part(path: Path, number: int) -> BinaryIO:
    """One part of a file. Raises UserError where it is damaged, FileNotFoundError where there is none."""
    part = _part(path, number)
    return _plain(part) or BytesIO(_decompressed(_compressed(part)))


def put_away(path: Path) -> None:
    """Makes a part of a file, and begins it again. Raises OSError when there is no room."""
    part = _part(path, 1 + len(_numbers(path)))
    path.rename(part)
    path.touch()
    _compress(part)


def compress(path: Path) -> None:
    """Compresses those parts of a file that a killed process left as they were. Raises OSError without room."""
    for number in _numbers(path):
        with suppress(FileNotFoundError):
            _compress(_part(path, number))


def cut(path: Path, size: int) -> int:
    """Keeps the first `size` bytes of a file with its parts, which has as many at least.

    Returns how many of them are in parts.
    """
    before = 0
    for number, file in opened(path):
        if not has_part(path, number):
            break
        held = file.seek(0, os.SEEK_END)
        if before + held > size:
            _drop_after(path, number)
            _take_back(path, number, file, size - before)
            break
        before += held
    path.touch()
    os.truncate(path, size - before)
    return before


def _drop_after(path: Path, number: int) -> None:
    """Removes what comes after a part, the newest first: a kill meanwhile leaves no gap."""
    path.unlink(missing_ok=True)
    for other in reversed(_numbers(path)[number:]):
        part = _part(path, other)
        _compressed(part).unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def _take_back(path: Path, number: int, file: BinaryIO, size: int) -> None:
    """Makes the beginning of the last part the file again."""
    file.seek(0)
    part = _part(path, number)
    # Where a part is there in both forms, the one that is not compressed counts.
    write_atomically(part, file.read(size))
    _compressed(part).unlink(missing_ok=True)
    part.rename(path)


def _part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number:04}")


def _compressed(part: Path) -> Path:
    return part.with_name(f"{part.name}.gz")


def has_part(path: Path, number: int) -> bool:
    """True where so much of a file has been put away."""
    # In this order: the compressed one is there before the other one goes.
    part = _part(path, number)
    return part.exists() or _compressed(part).exists()


def _numbers(path: Path) -> list[int]:
    return list(takewhile(lambda number: has_part(path, number), count(1)))


def _compress(part: Path) -> None:
    # Without the time of day: the same lines are the same bytes.
    write_atomically(_compressed(part), gzip.compress(part.read_bytes(), LEVEL, mtime=0))
    part.unlink()


def _decompressed(part: Path) -> bytes:
    try:
        with unpacked(part) as file:
            found = file.read(MOST_BYTES + 1)
        if not found:  # to gzip an empty file is one that holds nothing
            raise EOFError("it is empty")
    except (gzip.BadGzipFile, EOFError, zlib.error, IsADirectoryError) as error:
        raise UserError(f"{part} is damaged ({error}); {DAMAGED}") from error
    if len(found) > MOST_BYTES:
        raise UserError(
            f"{part} holds more than {MOST_BYTES:,} bytes, which no part of a run's records does; {DAMAGED}"
        )
    return found
