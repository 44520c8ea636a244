"""What went wrong with the disk that a run is written to, in one line for its user."""

from __future__ import annotations

import errno
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
BARRED = {errno.EROFS, errno.EACCES, errno.EPERM}
ANOTHER_KIND = {errno.EISDIR, errno.EEXIST}
LOST = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.EIO}


def disk_failure(error: BaseException, folder: Path) -> str:
    """What is wrong, and what to do before the run can go on, where the disk is what an error comes from; else nothing.

    `folder` is the run's. Other files than its own may be missing, or be closed to the user, for other reasons.
    """
    found = _of_system(error)
    if found is None or found.errno not in FULL | BARRED | ANOTHER_KIND | LOST:
        return ""
    if not folder.is_dir():
        return f"{folder} is there no more: it was moved or deleted during the run; put it back, or name its new place"
    what = f"cannot write {found.filename or folder}: {found.strerror}"
    if found.errno in FULL:
        return f"{what}; make room"
    if found.filename is not None and folder not in Path(str(found.filename)).absolute().parents:
        return ""
    if found.errno in ANOTHER_KIND:
        return f"{what}; there is a folder where a file belongs, or a file in a folder's place: restore it from a copy"
    return f"{what}; make it writable" if found.errno in BARRED else f"{what}; look after that disk"


def _of_system(error: BaseException | None, seen: frozenset[int] = frozenset()) -> OSError | None:
    """The operating system's error that one comes from, or that one in its group comes from."""
    # An error that was taken out of its group and raised again has come from that group, which holds it.
    if error is None or id(error) in seen:
        return None
    if isinstance(error, OSError):
        return error
    # What fails to close a file, for it could not be written to before, raises an error of its own.
    before = error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__ or error.__context__,)
    return next(filter(None, (_of_system(each, seen | {id(error)}) for each in before)), None)
