"""Gzipped files of others, which may hold anything."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

PADDING = 2**16  # bytes


class _Members:
    """The bytes of a gzip file as `gzip` asks for them.

    It takes away zeros after each member one at a time: gigabytes of them, which take no room on a disk, would take
    hours. Raises gzip.BadGzipFile for more than `PADDING`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zeros = 0

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size)
        self._zeros = self._zeros + 1 if found == b"\0" else 0
        if self._zeros > PADDING:
            raise gzip.BadGzipFile(f"more than {PADDING:,} zeros follow a member of it")
        return found


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """A gzipped file's content. Reading it raises what `gzip.open` does, without its endless reading of zeros."""
    with path.open("rb") as file, gzip.GzipFile(fileobj=cast("BinaryIO", _Members(file)), mode="rb") as content:
        yield cast("BinaryIO", content)
