"""Reads files of JSON lines that may grow, be replaced or be compressed while they are read."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
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
        self._file: BinaryIO | None = None
        self._places = [0]  # where each line begins, and where the next one will
        self.version = ""  # another one after the file was replaced or cut: earlier numbers count no more

    def __len__(self) -> int:
        return len(self._places) - 1

    def new(self) -> Iterator[bytes]:
        """Yields the lines that no earlier call has yielded; all of them, from 0, where `version` has changed.

        Raises UserError where the file is damaged.
        """
        if not self._is_current():
            self._restart()
        if self._file is None:
            return
        self._file.seek(self._places[-1])
        while line := self._file.readline(jsonl.LINE_BYTES):
            if not line.endswith(b"\n"):
                if len(line) == jsonl.LINE_BYTES:
                    raise UserError(f"{self.path} has a line of more than {jsonl.LINE_BYTES:,} bytes: it is no record")
                return
            self._places.append(self._places[-1] + len(line))
            yield line

    def line(self, number: int) -> bytes:
        """Reads one line. Raises UserError where there is none."""
        for _ in self.new():
            pass
        if self._file is None or not 0 <= number < len(self):
            raise UserError(f"{self.path} has no line {number + 1}; reload the page")
        self._file.seek(self._places[number])
        return self._file.readline(jsonl.LINE_BYTES)

    def _is_current(self) -> bool:
        return self.version == _version(self.path) and (
            self.path.suffix != ".jsonl" or not self.path.exists() or self.path.stat().st_size >= self._places[-1]
        )

    def _restart(self) -> None:
        if self._file:
            self._file.close()
        self._places = [0]
        self.version = _version(self.path)
        # A compressed file becomes a temporary one, in which any place can be read.
        self._file = jsonl.seekable(self.path) if self.version else None
        if self._file:
            weakref.finalize(self, self._file.close)


def _version(path: Path) -> str:
    """Names the file that holds a record now; empty without any."""
    for form in (path, jsonl.compressed(path)):
        if form.exists():
            return f"{form.stat().st_ino:x}{form.suffix}"
    return ""
