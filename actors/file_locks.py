"""Locks between processes, also on file systems without locks: Lustre without `flock`, NFS without `lockd`."""

import errno
import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock, SoftFileLock

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

LOG = logging.getLogger(__name__)


def try_lock(file: IO[bytes], operation: int = fcntl.LOCK_EX) -> bool:
    """Locks an open file until it is closed. False where another process has the lock.

    The kernel releases the lock when the process dies, so no stale lock stops a resumption. Where there are no locks,
    every file counts as free.
    """
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        LOG.info("%s cannot be locked (%s): start no second process that writes it", file.name, error.strerror)
    return True


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Holds a lock for a block, in which no other process or thread holds it. Waits for it.

    Where there are no locks, a file next to `path` that exists is one. A process that finds a dead one's removes it.
    Raises OSError where the file cannot be written.
    """
    # Not bound to a thread: one that waits in a thread, so as not to hold up an event loop, is released outside of it.
    lock: FileLock | SoftFileLock = FileLock(path, thread_local=False)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        lock = SoftFileLock(f"{path}.held", thread_local=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
