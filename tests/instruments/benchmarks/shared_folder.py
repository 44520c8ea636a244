"""A folder as a network's file system may show it: without locks, and with new files that others see late.

    python -m tests.instruments.benchmarks.shared_folder <folder with the files> <where they appear>

A file system in user space (FUSE). `flock` and record locks fail with ENOLCK, as on NFS without its lock service. A
file that is new or has a new name is seen at once by the process that made it, and by others `LATE_S` later. Files do
not change their size late.
"""

import errno
import fcntl
import importlib.util
import os
import subprocess
import sys
import time
from contextlib import suppress
from ctypes.util import find_library
from pathlib import Path
from typing import Any

from tests.instruments.benchmarks.around import Around
from tests.support.paths import ROOT

LATE_S = 1.5
MOUNTED_S = 30.0
# Nothing is kept by the kernel: each look asks the program.
OPTIONS = {"allow_other": True, "entry_timeout": 0, "attr_timeout": 0, "negative_timeout": 0, "auto_cache": True}


class SharedFolder(Around):
    """The place of a run's folders is a shared one until the run is resumed."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self._behind = place / "behind"
        self._behind.mkdir()
        self._program: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str:
        lacks = [] if importlib.util.find_spec("mfusepy") else ["mfusepy (PyPI)"]
        lacks += [] if find_library("fuse") or find_library("fuse3") else ["libfuse (Debian's libfuse2)"]
        lacks += [] if Path("/dev/fuse").exists() else ["/dev/fuse"]
        return ", ".join(lacks)

    def mount(self, folder: Path, mb: int) -> None:
        super().mount(self._behind, mb)
        program = [sys.executable, "-m", "tests.instruments.benchmarks.shared_folder", str(self._behind), str(folder)]
        self._program = subprocess.Popen(program, cwd=ROOT, start_new_session=True)
        deadline = time.monotonic() + MOUNTED_S
        while not os.path.ismount(folder):
            if self._program.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"nothing was mounted at {folder}")
            time.sleep(0.05)

    def close(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.wait()
        subprocess.run(["umount", "--lazy", str(self._behind)], check=True)


def serve(behind: str, folder: str) -> None:
    """Mounts the folder, and returns when it is unmounted."""
    from mfusepy import FUSE, Operations, fuse_get_context

    made: dict[str, tuple[int, float]] = {}  # by name: the process that made it, and when

    def process() -> int:
        """The process that asks. FUSE names its thread."""
        thread = fuse_get_context()[2]
        with suppress(OSError):
            status = Path(f"/proc/{thread}/status").read_text()
            return int(status.partition("Tgid:")[2].split()[0])
        return int(thread)

    def is_late(name: str) -> bool:
        maker, at = made.get(name, (0, 0.0))
        return time.monotonic() - at < LATE_S and maker != process()

    class Folder(Operations):  # type: ignore[misc]
        """The files behind, opened by name for each request but reads and writes."""

        use_ns = True

        def _seen(self, name: str) -> str:
            if is_late(name):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            return behind + name

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            status = os.lstat(self._seen(path)) if fh is None else os.fstat(fh)
            found = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
            return found | {name: found[f"{name}_ns"] for name in ("st_atime", "st_mtime", "st_ctime")}

        def readdir(self, path: str, fh: int) -> list[str]:
            names = os.listdir(self._seen(path))
            return [".", "..", *(name for name in names if not is_late(f"{path.rstrip('/')}/{name}"))]

        def create(self, path: str, mode: int, fi: object = None) -> int:
            made[path] = process(), time.monotonic()
            return os.open(behind + path, os.O_RDWR | os.O_CREAT, mode)

        def open(self, path: str, flags: int) -> int:
            return os.open(self._seen(path), flags & ~os.O_APPEND)

        def mkdir(self, path: str, mode: int) -> int:
            os.mkdir(behind + path, mode)
            made[path] = process(), time.monotonic()
            return 0

        def rename(self, old: str, new: str) -> int:
            if not os.path.lexists(behind + new):
                made[new] = process(), time.monotonic()
            os.rename(self._seen(old), behind + new)
            return 0

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return os.pread(fh, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            return os.pwrite(fh, data, offset)

        def truncate(self, path: str, length: int, fh: int | None = None) -> int:
            os.truncate(self._seen(path) if fh is None else fh, length)
            return 0

        def unlink(self, path: str) -> int:
            os.unlink(self._seen(path))
            return 0

        def rmdir(self, path: str) -> int:
            os.rmdir(self._seen(path))
            return 0

        def link(self, target: str, source: str) -> int:
            os.link(self._seen(source), behind + target)
            made[target] = process(), time.monotonic()
            return 0

        def symlink(self, target: str, source: str) -> int:
            os.symlink(source, behind + target)
            return 0

        def readlink(self, path: str) -> str:
            return os.readlink(self._seen(path))

        def chmod(self, path: str, mode: int) -> int:
            os.chmod(self._seen(path), mode)
            return 0

        def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
            os.utime(self._seen(path), ns=times)
            return 0

        def statfs(self, path: str) -> dict[str, int]:
            status = os.statvfs(behind + path)
            return {name: getattr(status, name) for name in dir(status) if name.startswith("f_")}

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            os.fsync(fh)
            return 0

        def release(self, path: str, fh: int) -> int:
            os.close(fh)
            return 0

        def flock(self, path: str, fh: int, op: int) -> int:
            return 0 if op & fcntl.LOCK_UN else -errno.ENOLCK

        def lock(self, path: str, fh: int, cmd: int, lock: object) -> int:
            return -errno.ENOLCK

    FUSE(Folder(), folder, foreground=True, nothreads=True, **OPTIONS)


if __name__ == "__main__":
    serve(*sys.argv[1:])
