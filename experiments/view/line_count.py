"""Counts the lines of a file that grows."""

import os
from pathlib import Path

from actors.received import open_plain
from experiments.records import jsonl


class LineCount:
    """Counts the complete lines of a plain file that grows, but those with some bytes, from where it ended before."""

    def __init__(self, path: Path, without: bytes) -> None:
        self._path = path
        self._without = without
        self._file = 0
        self._place = 0
        self._lines = 0

    def count(self) -> int:
        """Raises UserError for a line that is longer than any record."""
        try:
            file = open_plain(self._path, jsonl.MOST_BYTES)
        except FileNotFoundError:
            return 0
        with file:
            status = os.fstat(file.fileno())
            # It was replaced, or cut by a resumed run.
            if status.st_ino != self._file or status.st_size < self._place:
                self._file = status.st_ino
                self._place = 0
                self._lines = 0
            size = jsonl.READ_BYTES
            while True:
                file.seek(self._place)
                piece = file.read(size)
                end = piece.rfind(b"\n") + 1
                if end:
                    self._lines += piece.count(b"\n")
                    if self._without:
                        self._lines -= piece.count(self._without, 0, end)
                    self._place += end
                elif len(piece) < size:
                    return self._lines
                elif size >= jsonl.LINE_BYTES:
                    raise jsonl.endless_line(self._path)
                else:
                    size *= 8
