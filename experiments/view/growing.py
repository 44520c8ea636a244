"""Reads files of JSON lines that may grow, be replaced or be compressed while they are read."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from actors.errors import UserError
from experiments.records import jsonl


class Lines:
    """The complete lines of a file of a run, by number from 0.

    Only the place of each line is kept, so that one of a million is found at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = ""  # another one after the file was replaced or cut: earlier numbers count no more
        self._cuts = 0
        self._form = ""
        self._unpacked: BinaryIO | None = None
        self._places = [0]  # where each line begins, and where the next one will

    def new(self) -> Iterator[bytes]:
        """Yields the lines that no earlier call has yielded; all of them, from 0, where `version` has changed.

        Raises UserError where the file is damaged.
        """
        form = _form(self.path)
        if form != self._form or (self.path.exists() and self.path.stat().st_size < self._places[-1]):
            # A compressed file becomes a temporary one, in which any place can be read.
            self._unpacked = jsonl.seekable(self.path) if form.endswith(".gz") else None
            if self._unpacked:
                weakref.finalize(self, self._unpacked.close)
            self._cuts += 1
            self._form, self.version, self._places = form, f"{form}-{self._cuts}", [0]
        with self._content() as file:
            file.seek(self._places[-1])
            while (line := file.readline(jsonl.LINE_BYTES)).endswith(b"\n"):
                self._places.append(self._places[-1] + len(line))
                yield line
        if len(line) == jsonl.LINE_BYTES:
            raise UserError(f"{self.path} has a line of more than {jsonl.LINE_BYTES:,} bytes, which is no record")

    def line(self, number: int) -> bytes:
        """Reads one line. Raises UserError where there is none."""
        deque(self.new(), maxlen=0)
        if not 0 <= number < len(self._places) - 1:
            raise UserError(f"{self.path} has no line {number + 1}; reload the page")
        with self._content() as file:
            file.seek(self._places[number])
            return file.readline(jsonl.LINE_BYTES)

    @contextmanager
    def _content(self) -> Iterator[BinaryIO]:
        if self._unpacked:
            yield self._unpacked
        else:
            with self.path.open("rb") if self._form else BytesIO() as file:
                yield file


def _form(path: Path) -> str:
    """Names the file that holds a record now; empty without any."""
    for form in (path, jsonl.compressed(path)):
        if form.exists():
            return f"{form.stat().st_ino:x}{form.suffix}"
    return ""
