"""Reads files and texts that may come from anybody: plain files of a limited size, and errors of one line."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from actors.errors import UserError

MB = 2**20
REASON_CHARACTERS = 300
# What reading and decoding a broken text raises: among ValueErrors are broken JSON and UTF-8, and numbers of thousands
# of digits; RecursionError is of values nested too deep.
BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


def open_plain(path: Path, most_bytes: int) -> BinaryIO:
    """Opens a regular file to be read.

    A size costs nothing in a sparse file, so the apparent one is checked. Raises FileNotFoundError where there is
    nothing, and ValueError for anything but a regular file and for one of more than `most_bytes`.
    """
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "it is not a regular file"
    elif status.st_size > most_bytes:
        problem = f"it has {status.st_size:,} bytes, and a file of its kind at most {most_bytes:,}"
    if problem:
        os.close(descriptor)
        raise ValueError(problem)
    return os.fdopen(descriptor, "rb")


def read_plain(path: Path, most_bytes: int) -> bytes:
    """Reads a regular file whole. Raises as `open_plain`."""
    with open_plain(path, most_bytes) as file:
        content = file.read(most_bytes + 1)
    # It may have grown since.
    if len(content) > most_bytes:
        raise ValueError(f"it has more than {most_bytes:,} bytes")
    return content


@contextmanager
def received(source: object, remedy: str) -> Iterator[None]:
    """Turns all that reading and decoding a broken text raises into a UserError of one line.

    source: begins the line: the text's file, and the place in it. remedy: ends it.
    """
    try:
        yield
    except BROKEN as error:
        raise UserError(f"{source}: {reason_of(error)}; {remedy}") from error


def reason_of(error: Exception) -> str:
    """Describes an error about a text in a short line."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
    elif isinstance(error, ValueError):
        # Its text is more precise than its class.
        reason = str(error)
    else:
        reason = repr(error)
    return " ".join(reason.split())[:REASON_CHARACTERS]
