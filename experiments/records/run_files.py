"""Writes, checks and removes files of a run folder, and explains errors of its disk."""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.received import MB, read_plain, received
from actors.secrets import masked

DEPTH = 64  # of nested folders; W&B's folder in a trial has about 8 levels
# W&B's folder in a run or a trial has links to its latest run and log. The project neither reads nor writes them, and
# W&B itself replaces old links.
WANDB = re.compile(r"(trials/[^/]+/)?wandb/")
# Files that a run, or a sweep and its trials, writes before the first question. Files of records count while empty.
BEGINNING = re.compile(r"(trials/[^/]+/)?(config\.yaml|starts\.jsonl(\.digest)?|run\.log|model\.json|wandb/.*)|tune/.*")

# Bytes of a file that is read whole, by its ending, far above what runs write.
WHOLE_BYTES = {
    ".yaml": 16 * MB,
    ".json": 64 * MB,
    ".png": 16 * MB,
    ".svg": 32 * MB,
    ".safetensors": 1024 * MB,
}
RESTORE = "restore it from a copy"

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
BARRED = {errno.EROFS, errno.EACCES, errno.EPERM}
WRONG_KIND = {errno.EISDIR, errno.EEXIST}
LOST = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.EIO}


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replaces a file, without keys. Readers find the old content or the new one, even after a power cut.

    Raises OSError.
    """
    # In the same folder: a rename is atomic only within one file system.
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        if isinstance(content, bytes):
            file.write(masked(content))
        else:
            file.writelines(map(masked, content))
        file.flush()
        # Before the rename, or a power cut could leave the new name with an empty file.
        os.fsync(file.fileno())

    os.replace(partial, path)
    # Without this a power cut may undo the rename, which is an entry of the folder.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_whole(path: Path) -> bytes:
    """Reads a whole file of a run folder. Raises UserError where it is missing, no plain file or too large."""
    with received(path, RESTORE):
        return read_plain(path, WHOLE_BYTES[path.suffix])


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object of a run folder. Raises UserError as `read_whole`, and for any other content."""
    content = read_whole(path)
    with received(path, RESTORE):
        return {**json.loads(content)}


def check_plain(folder: Path) -> None:
    """Raises UserError for a run folder with links, pipes or devices, which could lead writes anywhere."""
    for inside, folders, files in os.walk(folder):
        folders.sort()  # the error must not depend on the file system
        depth = Path(inside).relative_to(folder).parts
        if len(depth) > DEPTH:
            raise UserError(
                f"{folder} has more than {DEPTH} nested folders, which no run makes; delete {depth[0]} in it, or name "
                "an intact run folder"
            )

        for name in sorted((*folders, *files)):
            path = Path(inside, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                if not WANDB.match(path.relative_to(folder).as_posix()):
                    raise UserError(
                        f"{path} is a link to {os.readlink(path)}: a run folder has plain files only; put the file "
                        "itself there, or delete the link"
                    )
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise UserError(f"{path} is no plain file: a run folder has plain files only; delete it")


def is_recorded(folder: Path) -> bool:
    """Tells whether a run folder holds more than the files that every start writes."""
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            continue
        is_empty_record = path.suffix in (".jsonl", ".digest") and not path.lstat().st_size
        if not is_empty_record and not BEGINNING.fullmatch(path.relative_to(folder).as_posix()):
            return True
    return False


def discard(folder: Path, parents: list[Path]) -> None:
    """Removes the folder of a refused run unless it has records, and then empty folders among `parents`."""
    # A folder that cannot be removed stays: the reason of the refusal is the error to show.
    with suppress(OSError):
        if not is_recorded(folder):
            shutil.rmtree(folder)
    for parent in parents:
        with suppress(OSError):
            parent.rmdir()


def disk_remedy(error: OSError) -> str:
    """Returns the remedy for a file that could not be written."""
    if error.errno in WRONG_KIND:
        return "restore it from a copy"
    if error.errno in BARRED:
        return "make it writable"
    return "make room"


def disk_failure(error: BaseException, folder: Path) -> str:
    """Names the failure of the run's disk that an error comes from, and a remedy. Empty for any other error.

    Files outside the run's folder may be missing or closed for other reasons.
    """
    failure = _os_error(error)
    if failure is None or failure.errno not in FULL | BARRED | WRONG_KIND | LOST:
        return ""
    if not folder.is_dir():
        return f"{folder} no longer exists: it was moved or deleted during the run; put it back, or name its new place"

    problem = f"cannot write {failure.filename or folder}: {failure.strerror}"
    if failure.errno in FULL:
        return f"{problem}; make room"
    if failure.filename is not None and folder not in Path(str(failure.filename)).absolute().parents:
        return ""
    if failure.errno in WRONG_KIND:
        return f"{problem}; a file and a folder have changed places: restore it from a copy"
    if failure.errno in BARRED:
        return f"{problem}; make it writable"

    return f"{problem}; check that disk"


def _os_error(error: BaseException) -> OSError | None:
    """Finds the first OSError among an error, its causes and the members of its groups."""
    waiting: list[BaseException | None] = [error]
    visited = set[int]()
    while waiting:
        cause = waiting.pop(0)
        # An error that was taken out of its group and raised again refers back to the group.
        if cause is None or id(cause) in visited:
            continue

        visited.add(id(cause))
        if isinstance(cause, OSError):
            return cause

        if isinstance(cause, BaseExceptionGroup):
            waiting[:0] = cause.exceptions
        else:
            # A file that cannot be closed after a failed write raises an error with the first one as its context.
            waiting.insert(0, cause.__cause__ or cause.__context__)

    return None
