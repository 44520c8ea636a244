"""A run in a place of its own, with what can befall it and what it leaves behind."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.instruments.benchmarks.around import Around
from tests.instruments.benchmarks.recorded import records, records_in
from tests.support.paths import ROOT

MARK = "DISTURBED_RUN"  # in the environment of every process that a run starts
LONGEST_S = 400.0
ENDS_S = 20.0  # workers may outlive the process that started them by a few seconds
DISK_MB = 700  # runs ask for 500 before they begin
OWN_SHM = 'mount --bind "$0/shm" /dev/shm && exec "$@"'


class Disturbed:
    """A run whose files, temporary files and shared memory lie below `place`. Left over ones end with the block."""

    def __init__(self, place: Path, words: list[str], around: type[Around] = Around) -> None:
        self._place, self._mark = place, uuid.uuid4().hex
        for name in ("runs", "shm", "tmp", "ray"):
            (place / name).mkdir()
        # Before the file systems, which would stay mounted where it cannot be had.
        self.around: Any = around(place)
        self.around.mount(place / "runs", DISK_MB)
        Around.mount(self.around, place / "shm", self.around.shm_mb)
        self._words = [*words, *self.around.words, f"output={place / 'runs'}"]
        self._begin(self._words)

    def __enter__(self) -> Disturbed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes():
            with suppress(psutil.Error):
                process.kill()
        self._driver.wait()
        for name in ("runs", "shm"):
            subprocess.run(["umount", "--lazy", str(self._place / name)], check=True)
        self.around.close()

    def _begin(self, words: list[str]) -> None:
        environment = {**os.environ, MARK: self._mark, "TMPDIR": str(self._place / "tmp"), "WANDB_MODE": "offline"}
        environment |= {"RAY_TMPDIR": str(self._place / "ray"), **self.around.environment}
        own_shm = ["unshare", "--mount", "sh", "-c", OWN_SHM, str(self._place)]
        with (self._place / "out").open("wb") as out, (self._place / "error").open("wb") as error:
            self._driver = psutil.Popen(
                [*self.around.command, *own_shm, sys.executable, "run.py", *words],
                cwd=ROOT,
                env=environment,
                stdout=out,
                stderr=error,
                start_new_session=True,
            )

    @property
    def folder(self) -> Path:
        """The run folder, wherever it is by now; the place of all run folders before there is one."""
        found = sorted((self._place / "runs").glob("*/config.yaml"))
        return found[0].parent if found else self._place / "runs"

    @property
    def ended(self) -> bool:
        return self._driver.poll() is not None

    @property
    def code(self) -> int:
        return int(self._driver.wait())

    @property
    def said(self) -> str:
        """What it wrote to stderr."""
        return (self._place / "error").read_text(errors="replace").strip()

    @property
    def said_in_one_line(self) -> bool:
        # A process that is killed says nothing.
        return self.said.count("\n") == 0

    def reach(self, records: int) -> None:
        """Returns once its agents are up and it has written so many records, or has ended. -1: once it has a folder."""
        deadline = time.monotonic() + LONGEST_S
        while not self.ended and time.monotonic() < deadline:
            if records < 0 and self.folder.name != "runs":
                return
            ready = re.search(r"starting replicas and agents: (\d+)/\1,", (self._place / "out").read_text())
            if ready and 0 <= records <= records_in(self.folder):
                return
            time.sleep(0.02)  # counting records takes a while itself

    def wait(self) -> None:
        """Returns once it has ended; one that hangs is killed and counts as failed."""
        try:
            self._driver.wait(LONGEST_S)
        except psutil.TimeoutExpired:
            with (self._place / "error").open("a") as error:
                error.write(f"\nit hung for {LONGEST_S:g} s\n.")
            self._driver.kill()

    def resume(self) -> None:
        """Makes room and goes on."""
        (self._place / "runs" / "filler").unlink(missing_ok=True)
        self.around.renew()
        # One that was refused before it began has no folder.
        begun = (self.folder / "config.yaml").exists()
        self._begin([f"resume={self.folder}", *self.around.named] if begun else self._words)

    def kill(self, title: str, chance: random.Random) -> None:
        """Kills one of its processes."""
        self._signal(title, chance, signal.SIGKILL)

    def stop(self, title: str, chance: random.Random) -> None:
        """Stops one of its processes for good."""
        self._signal(title, chance, signal.SIGSTOP)

    def _signal(self, title: str, chance: random.Random, how: signal.Signals) -> None:
        named = [process for process in self._processes() if re.match(title, _title(process)) and not _stopped(process)]
        if not named:
            raise LookupError(f"there was no {title}")
        with suppress(psutil.NoSuchProcess):
            chance.choice(sorted(named, key=_age)).send_signal(how)

    def kill_driver(self) -> None:
        self._driver.kill()

    def pause_driver(self) -> None:
        """Stops the first process for a while."""
        self._driver.suspend()
        time.sleep(8)
        self._driver.resume()

    def interrupt(self, times: int = 1) -> None:
        """Ctrl-C, which a terminal sends to all processes."""
        for _ in range(times):
            with suppress(ProcessLookupError):
                os.killpg(self._driver.pid, signal.SIGINT)
            time.sleep(1)

    def terminate(self) -> None:
        self._driver.terminate()

    def fill(self) -> None:
        """Leaves no byte free on the disk that it writes to."""
        with suppress(OSError), (self._place / "runs" / "filler").open("wb", buffering=0) as filler:
            # The last million bytes are written, as others write meanwhile.
            os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(self._place / "runs").free - 1_000_000)
            filler.seek(0, os.SEEK_END)
            while True:
                filler.write(bytes(1 << 12))

    def move(self) -> None:
        """Moves the run folder."""
        folder = self.folder
        folder.rename(folder.with_name(f"{folder.name}-moved"))

    def tear(self, chance: random.Random) -> None:
        """Kills the first process, and has the last record of each file end in its middle."""
        self._driver.kill()
        self._driver.wait()
        for file in records(self.folder):
            whole = file.read_bytes()
            last = whole.rstrip(b"\n").rfind(b"\n") + 1
            # The checkpoint vouches for learning's; a torn one comes after these.
            keep = len(whole) if "learned" in file.parts else last
            file.write_bytes(whole[:keep] + whole[last : last + chance.randrange(1, max(2, len(whole) - last))])

    def left(self) -> list[str]:
        """What is there after its end: processes, shared memory and temporary files."""
        deadline = time.monotonic() + ENDS_S
        while self._processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        left: list[str] = self.around.left()
        left += [f"the process {_title(process)[:60]}" for process in self._processes()]
        for process in self._processes():
            with suppress(psutil.Error):
                process.kill()
        left += [f"in shared memory {file.name}" for file in (self._place / "shm").iterdir()]
        if self.code >= 0:  # who is killed removes nothing
            left += [f"the temporary file {file.name}" for file in (self._place / "tmp").iterdir()]
        if not self.code:  # else its logs may tell why
            left += [f"Ray's {file.name}" for file in (self._place / "ray").glob("*/ray/session_*")]
        for name in ("shm", "tmp", "ray"):
            for file in (self._place / name).iterdir():
                shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink()
        return left

    def _processes(self) -> list[psutil.Process]:
        """All that it has started and that have not ended."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self._mark:
                    found.append(process)
        return found


def _title(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _stopped(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return True


def _age(process: psutil.Process) -> tuple[float, int]:
    with suppress(psutil.Error):
        return process.create_time(), process.pid
    return 0.0, process.pid
