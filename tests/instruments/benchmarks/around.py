"""What a disturbed run has around it: nothing, a clock of its own, or less than it needs."""

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Around:
    """Nothing. Others add words to the run's command line, variables to its environment, or programs that start it.

    Of the words, those that are `named` are said again when the run is resumed.
    """

    shm_mb = 2048

    def __init__(self, place: Path) -> None:
        self.words: list[str] = []
        self.named: list[str] = []
        self.environment: dict[str, str] = {}
        self.command: list[str] = []

    @staticmethod
    def missing() -> str:
        """What this machine lacks for it; nothing where it can be had."""
        return ""

    def mount(self, folder: Path, mb: int) -> None:
        """Gives a folder a file system of so many megabytes."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", str(folder)], check=True)

    def renew(self) -> None:
        """Makes whole what a fault has broken for good, before the run is resumed."""

    def left(self) -> list[str]:
        """What the run has left there."""
        return []

    def close(self) -> None:
        """Ends it."""


class Clock(Around):
    """A clock that jumps: all processes of the run are told another time of day.

    Their monotonic clocks, file times and everything outside of the run stay as they are.
    """

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self._file, library = place / "clock", place / "clock.so"
        self._file.write_bytes(struct.pack("l", 0))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "DISTURBED_CLOCK": str(self._file)}

    @staticmethod
    def missing() -> str:
        return "" if shutil.which("cc") else "cc"

    def jump(self, seconds: int) -> None:
        """Moves the clock by so much, once more each time."""
        # In place, for the processes have the file mapped.
        with self._file.open("r+b") as file:
            (before,) = struct.unpack("l", file.read())
            file.seek(0)
            file.write(struct.pack("l", before + seconds))


class SmallSharedMemory(Around):
    """One megabyte of shared memory, also after the run is resumed."""

    shm_mb = 1


class FewFiles(Around):
    """Programs may open 64 files each, until the run is resumed."""

    limit = "ulimit -n 64"

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.command = ["sh", "-c", f'{self.limit} && exec "$@"', "sh"]

    def renew(self) -> None:
        self.command = []


class LittleMemory(FewFiles):
    """Programs may have two gigabytes of addresses each, less than Ray's take, until the run is resumed."""

    limit = "ulimit -v 2000000"
