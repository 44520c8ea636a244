"""Files of JSON lines that one process appends to while others read them.

A last line without its newline is still being written, or its writer was killed: readers ignore it, and a writer that
resumes the file cuts it off.

A file is plain (`x.jsonl`) while its run goes on. A long one is compressed once, when the run ends (`x.jsonl.gz`, the
same lines). Readers take the plain path and accept either form; where a kill has left both, the plain one counts.
"""

import errno
import gzip
import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO, FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, TypeVar

from actors.errors import UserError
from actors.file_locks import try_lock
from actors.received import BROKEN, MB, open_plain, reason_of
from actors.secrets import masked
from experiments.datasets.reading import unpacked
from experiments.records.digests import RunningDigest, digest_file, entries, new_hasher, remedy, trim
from experiments.records.run_files import disk_remedy, write_atomically

T = TypeVar("T")

MOST_BYTES = 2**36  # of a file; traces of 100,000 discussions have some 2**30
# A compressed file may unpack to so many times its size, or so many bytes: text of traces to 13 times.
MOST_RATIO = 100
LEAST_UNPACKED = 256 * MB
LINE_BYTES = 64_000_000  # far above any record; a file without line breaks must not fill the memory
READ_BYTES = 1 << 20
COMPRESS_BYTES = 2**24  # shorter files stay plain
LEVEL = 6  # traces become a thirteenth; at the highest level a twentieth less, in half as much time again
GZIP_HEADER = 16 + zlib.MAX_WBITS  # makes zlib write one, in which it leaves the time at 0
OPEN_ATTEMPTS = 8
LOOK_S = 0.05  # longer than a viewer holds the lock to see whether a run goes on
DAMAGED = "restore it from a copy, or start a new run"

# Of files that this process appends to, by path and inode. One that was cut or replaced is read again.
_running_digests: dict[tuple[str, int], RunningDigest] = {}


def compressed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def files(folder: Path, pattern: str) -> list[Path]:
    """Plain paths of the files that match a pattern in either form, sorted."""
    plain_paths = set(folder.glob(pattern))
    plain_paths.update(path.with_suffix("") for path in folder.glob(f"{pattern}.gz"))
    return sorted(plain_paths)


@contextmanager
def content(path: Path) -> Iterator[BinaryIO]:
    """Opens a file in either form, empty where there is none. Raises UserError, also while it is read, for damage."""
    with ExitStack() as stack:
        file: BinaryIO = BytesIO()
        # Several times: its writer may be replacing one form by the other.
        for form in (path, compressed(path)) * OPEN_ATTEMPTS:
            try:
                file = stack.enter_context(open_plain(form, MOST_BYTES))
                if form is not path:
                    most_bytes = max(LEAST_UNPACKED, MOST_RATIO * os.fstat(file.fileno()).st_size)
                    file = stack.enter_context(unpacked(form, most_bytes))
                break
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                raise UserError(f"{form} cannot be read ({reason_of(error)}); {DAMAGED}") from error

        try:
            if isinstance(file, gzip.GzipFile) and not file.peek(1):
                raise EOFError("it is empty")
            yield file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f"{form} is damaged ({error}); {DAMAGED}") from error


def pieces(path: Path, size: int = sys.maxsize) -> Iterator[bytes]:
    """Yields the first `size` bytes of a file's content, a piece at a time."""
    with content(path) as file:
        while size > 0:
            piece = file.read(min(size, READ_BYTES))
            if not piece:
                return
            yield piece
            size -= len(piece)


def lines(path: Path) -> Iterator[bytes]:
    """Yields the complete lines, each with its newline. Raises UserError like `placed`."""
    return (line for _, line in placed(path))


def placed(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields each complete line with the place of its first byte. Raises UserError for damage and endless lines."""
    with content(path) as file:
        place = 0
        while line := file.readline(LINE_BYTES):  # bytes: a half-written last line may end inside a character
            if not line.endswith(b"\n"):
                if len(line) == LINE_BYTES:
                    raise endless_line(path)
                return
            yield place, line
            place += len(line)


def endless_line(path: Path) -> UserError:
    return UserError(f"{path} has a line of more than {LINE_BYTES:,} bytes, which is no record")


def seekable(path: Path) -> BinaryIO:
    """Opens content to be read at any place, unpacked where it is compressed. Raises UserError for a damaged file."""
    if path.exists():
        try:
            return open_plain(path, MOST_BYTES)
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read ({reason_of(error)}); {DAMAGED}") from error
    try:
        with ExitStack() as stack:
            file = stack.enter_context(TemporaryFile())
            with content(path) as packed:
                shutil.copyfileobj(packed, file)
            stack.pop_all()  # its reader closes it
    except OSError as error:
        raise UserError(f"cannot unpack {compressed(path)}: {error}; make room for temporary files") from error
    return file


def records(
    path: Path, decode: Callable[[str], T], remedy: str, positions: Container[int] | None = None
) -> Iterator[T]:
    """Decodes the complete lines, or those at some positions, from 0. Raises UserError like `decoded`."""
    for position, line in enumerate(lines(path)):
        # Decoding is the expensive part; other lines are only skipped.
        if positions is None or position in positions:
            yield decoded(path, position + 1, line, decode, remedy)


def decoded(path: Path, number: int, line: bytes, decode: Callable[[str], T], remedy: str) -> T:
    """Decodes a line. `number` counts from 1. Raises UserError, ending in `remedy`, when it cannot be decoded."""
    try:
        return decode(line.decode())
    # JSON of another kind fails in `decode` in many ways; the user needs the file, the line and a remedy.
    except BROKEN as error:
        raise UserError(f"{path}, line {number}: not a record of this kind ({reason_of(error)}); {remedy}") from error


def lock(file: FileIO) -> None:
    """Keeps other processes from writing a file and its folder. Raises UserError, and closes it, where one does."""
    if try_lock(file):
        return
    time.sleep(LOOK_S)
    if not try_lock(file):
        file.close()
        folder = Path(str(file.name)).parent
        raise UserError(f"{folder} is being written by another process; wait for it or stop it")


def append(file: FileIO, line: str, sync: bool = False) -> int:
    """Adds a line to a file opened for appending without a buffer, and to its digest, without keys. With `sync` it
    is on disk afterwards.

    Returns the bytes added. Raises UserError when there is no room, and then removes what was written of the line.
    """
    content = masked(line.encode()) + b"\n"
    size_before = None
    name = str(file.name)
    try:
        status = os.fstat(file.fileno())
        size_before = status.st_size
        digest = _running_digests.pop((name, status.st_ino), None)
        # A deleted file still takes writes, which no reader would ever find.
        if not status.st_nlink:
            raise OSError(errno.ENOENT, "it was deleted during the run", file.name)
        # One call for the whole line, so that a killed run leaves at most its last line torn.
        if file.write(content) != len(content):
            # A nearly full disk takes a part of the line without an error.
            raise OSError(errno.ENOSPC, "no space left for a whole line", file.name)

        # A killed process loses nothing without it, but a power cut may.
        if sync:
            os.fsync(file.fileno())
        if digest and digest.size == size_before:
            digest.add(content)
        else:
            digest = RunningDigest.of(Path(name))
        # Not after an error: its last line may be incomplete.
        _running_digests[name, status.st_ino] = digest
    except OSError as error:
        if size_before is not None:
            with suppress(OSError):
                os.ftruncate(file.fileno(), size_before)
        raise UserError(f"cannot write {file.name}: {error}; make room and resume the run") from error

    return len(content)


def append_to(path: Path, line: str) -> None:
    """Adds a line to a file that is opened for it alone. Raises UserError like `append`."""
    try:
        with path.open("ab", buffering=0) as file:
            append(file, line)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error}; {disk_remedy(error)} and resume the run") from error


def cut(path: Path) -> None:
    """Cuts off an incomplete last line of a plain file. Raises UserError where it is longer than any record."""
    if not path.exists():
        return
    begins = max(0, path.stat().st_size - LINE_BYTES)
    # Only the end: a sparse file may have a size that no memory holds.
    with path.open("rb") as file:
        file.seek(begins)
        newline = file.read(LINE_BYTES).rfind(b"\n")

    if newline < 0 and begins:
        raise endless_line(path)
    # Without any newline `rfind` gives -1, and the file becomes empty.
    size = begins + newline + 1
    trim(path, size)
    os.truncate(path, size)


def cut_to(path: Path, size: int, without: Collection[int] = ()) -> None:
    """Keeps the first `size` bytes of a file, but for lines that begin at some places, and makes it plain.

    A file of which nothing goes stays compressed. Raises OSError without room.
    """
    packed = compressed(path)
    is_packed = packed.exists() and not path.exists()
    if is_packed and not without:
        with content(path) as file:
            file.seek(size)
            if not file.read(1):
                return

    def kept_lines() -> Iterator[bytes]:
        for place, line in placed(path):
            if place < size and place not in without:
                yield line

    if without:
        replace(path, kept_lines())
    else:
        trim(path, size)
        if is_packed:
            write_atomically(path, kept_lines())
        path.touch()
        os.truncate(path, size)

    packed.unlink(missing_ok=True)


def replace(path: Path, content: Iterable[bytes]) -> None:
    """Replaces the content of a file, and its digests. Raises OSError without room."""
    # A kill leaves no digests, and never those of another content.
    digest_file(path).unlink(missing_ok=True)
    write_atomically(path, content)
    RunningDigest.of(path)


def remove(path: Path) -> None:
    """Removes a plain file and its digests, if they are there."""
    for file in (digest_file(path), path):
        file.unlink(missing_ok=True)


def check_digests(path: Path, resumes: bool) -> None:
    """Raises UserError for a file, plain or compressed, that is not what its digests say. Without any, it passes.

    resumes: lines at its end may be gone, which a resumed run writes again.
    """
    covered = entries(path)
    entry = next(covered, None)
    hasher = new_hasher()
    size = 0
    covered_size = 0
    for number, (place, line) in enumerate(placed(path), start=1):
        if entry is None:
            return
        hasher.update(line)
        size = place + len(line)
        if size < entry.size:
            continue
        if size > entry.size or hasher.hexdigest() != entry.digest:
            raise UserError(f"{path}, line {number}: it is not what the run wrote; {remedy(path)}")
        covered_size = size
        entry = next(covered, None)

    is_there = path.exists() or compressed(path).exists()
    # Where lines alone are gone, the others end where one of the digests does.
    if entry and resumes and size > covered_size:
        raise UserError(f"{path}: its last line is not what the run wrote; {remedy(path)}")
    if entry and is_there and not resumes:
        raise UserError(f"{path} lacks lines that the run wrote; resume the run, or {remedy(path)}")


def make_plain(path: Path) -> None:
    """Makes a compressed file plain, so that it can be appended to. Raises OSError without room."""
    packed = compressed(path)
    if not packed.exists():
        return
    if not path.exists():
        write_atomically(path, pieces(path))
    packed.unlink()


def reopen_all(folder: Path) -> None:
    """Makes a folder, and readies the files in it to be appended to. Raises OSError without room or a parent folder."""
    # The parent is made by its recorder. One that was moved away must not appear again.
    folder.mkdir(exist_ok=True)
    for path in files(folder, "*.jsonl"):
        make_plain(path)
        cut(path)


def compress(path: Path, longer_than: int | None = None) -> None:
    """Compresses a finished file, if it is long. The same lines give the same bytes. Raises OSError without room."""
    least_bytes = COMPRESS_BYTES if longer_than is None else longer_than
    if not path.exists() or path.stat().st_size < least_bytes:
        return

    def packed_pieces() -> Iterator[bytes]:
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_HEADER)
        for piece in pieces(path):
            yield packer.compress(piece)
        yield packer.flush()

    write_atomically(compressed(path), packed_pieces())
    # Only now: a kill leaves one of them whole.
    path.unlink()
