"""Running digests of files that grow: `<file>.digest` has a line for each line that was appended.

A line is `<size> <digest>`: the BLAKE2b of the first `size` bytes. It is written behind its data, so that a kill in
between leaves one line of data that no digest covers. A digest has no key: it finds damage, and no forger.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from actors.errors import UserError
from actors.received import open_plain, reason_of

SUFFIX = ".digest"
READ_BYTES = 1 << 20
MOST_BYTES = 1 << 30  # the digests of 20 million lines
_LINE = re.compile(rb"(0|[1-9]\d{0,18}) ([0-9a-f]{32})\n")
_LINE_BYTES = 64  # more than any line has

new_hasher = partial(hashlib.blake2b, digest_size=16)


class DigestLine(NamedTuple):
    """The digest of the first `size` bytes of a file."""

    size: int
    digest: str

    @property
    def line(self) -> bytes:
        return f"{self.size} {self.digest}\n".encode()


def digest_file(path: Path) -> Path:
    return path.with_name(f"{path.name}{SUFFIX}")


def remedy(path: Path) -> str:
    """States what to do about a file that is not what its digests say."""
    return f"restore both from a copy, or delete {digest_file(path)} if you trust {path.name} as it is"


def entries(path: Path) -> Iterator[DigestLine]:
    """Reads the digests of a file, but for an incomplete last one. Raises UserError for any other line."""
    try:
        file = open_plain(digest_file(path), MOST_BYTES)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise UserError(f"{digest_file(path)} cannot be read ({reason_of(error)}); {remedy(path)}") from error
    with file:
        while (line := file.readline(_LINE_BYTES)).endswith(b"\n") or len(line) == _LINE_BYTES:
            entry = _LINE.fullmatch(line)
            if entry is None:
                raise UserError(f"{digest_file(path)} is damaged; {remedy(path)}")
            yield DigestLine(int(entry[1]), entry[2].decode())


def trim(path: Path, size: int) -> int:
    """Removes the digests of more than `size` bytes, before the file itself is cut. Returns the largest size left."""
    covered_size = 0
    digest_bytes = 0
    for entry in entries(path):
        if entry.size > size:
            break
        covered_size = entry.size
        digest_bytes += len(entry.line)

    if digest_file(path).exists():
        os.truncate(digest_file(path), digest_bytes)
    return covered_size


class RunningDigest:
    """The digest of a file that this process appends to. `size` bytes are hashed."""

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._path = path
        self._hasher = new_hasher()

    @classmethod
    def of(cls, path: Path) -> Self:
        """Hashes a plain file, and covers all of it. Raises OSError without room."""
        digest = cls(path)
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                digest._hash(piece)
        if trim(path, digest.size) < digest.size:
            digest.add(b"")
        return digest

    def add(self, data: bytes) -> None:
        """Covers data that was appended. Raises OSError without room."""
        self._hash(data)
        entry = DigestLine(self.size, self._hasher.hexdigest())
        with digest_file(self._path).open("ab", buffering=0) as file:
            if file.write(entry.line) != len(entry.line):
                # A nearly full disk takes a part of the line without an error.
                raise OSError(errno.ENOSPC, "no space left for a whole line", str(file.name))

    def _hash(self, data: bytes) -> None:
        self._hasher.update(data)
        self.size += len(data)
