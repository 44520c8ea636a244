"""Reads the lines of a text file, plain or gzipped, one at a time and none longer than is allowed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.errors import UserError
from experiments.datasets.layouts.limits import LINES, MB, UNPACKED
from experiments.datasets.packed import unpacked


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what goes wrong while a file is read into a UserError that names it."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is truncated or not a gzip file ({error}): download it again") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8, or download it again") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}): copy it again") from error


def byte_lines(path: Path, most: int) -> Iterator[bytes]:
    """The lines of a file with their ends, of at most `most` bytes each; a byte order mark before them is left out.

    Raises UserError for a longer line, for a file of too many lines or bytes, and for a broken one.
    """
    size = 0
    with reading(path), unpacked(path) if path.suffix == ".gz" else path.open("rb") as file:
        number = 0
        while line := file.readline(most + 1):
            number += 1
            size += len(line)
            if len(line) > most:
                raise UserError(
                    f"{path}, line {number} is longer than {most // MB} MB: no official release has such; "
                    "download it again"
                )
            if number > LINES or size > UNPACKED:
                raise UserError(
                    f"{path} has more than {LINES:,} lines or {UNPACKED // MB:,} MB: no official release has so much; "
                    "download it again"
                )
            yield line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


class TextLines:
    """The lines of a UTF-8 file, for a reader that takes several for one row; `begin` is called before every row.

    A row may have so many characters at most.
    """

    def __init__(self, path: Path, most: int) -> None:
        self._path = path
        self._most = most
        self._left = most
        self.number = 0

    def begin(self) -> None:
        self._left = self._most

    def __iter__(self) -> Iterator[str]:
        # Ends of lines stay as they are: a reader of rows tells them from those inside of a field.
        with reading(self._path), open(self._path, encoding="utf-8-sig", newline="") as file:
            while line := file.readline(self._left + 1):
                self.number += 1
                self._left -= len(line)
                if self._left < 0 or self.number > LINES:
                    raise UserError(
                        f"{self._path}, line {self.number}: a row of more than {self._most // MB} MB, or more than "
                        f"{LINES:,} lines: no official release has so much; download it again"
                    )
                yield line
