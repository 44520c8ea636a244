"""Ends processes that other code started, names what stops them from starting, and collects garbage rarely."""

import asyncio
import gc
import resource
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from actors.secrets import hide

# Of `ended`: how long it waits, and how often it looks.
WAIT_S = 5.0
POLL_S = 0.05
CGROUP = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")
# Of `low_limits`, by the option of `ulimit`: the limit, and the number that is usual. None: unlimited.
LIMITS = {"n": (resource.RLIMIT_NOFILE, 1024), "u": (resource.RLIMIT_NPROC, 1024), "v": (resource.RLIMIT_AS, None)}
WORDS = {"n": "open files", "u": "processes", "v": "kB of addresses"}
UNITS = {"v": 1024}


def descendants(children: Iterable[BaseProcess]) -> list[psutil.Process]:
    """Returns children of this process, with all that they have started so far."""
    processes: list[psutil.Process] = []
    for child in children:
        with suppress(psutil.NoSuchProcess):
            # It may end between these two calls.
            root = psutil.Process(child.pid)
            processes += [root, *root.children(recursive=True)]
    return [process for process in processes if not _is_tracker(process)]


def kill(processes: Iterable[psutil.Process]) -> None:
    """Sends SIGKILL to each process that still runs, and waits for none.

    Python's trackers of shared memory are spared: they free what the others leave, and end by themselves.
    """
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            # Not every list is one of `descendants`, which leaves trackers out.
            if not _is_tracker(process):
                # SIGKILL, since a process that is stopped or hangs handles no other signal.
                process.kill()


async def ended(processes: Iterable[psutil.Process]) -> bool:
    """Waits until all have ended. False where some have not after WAIT_S. A killed one first frees its memory."""
    running = list(processes)
    for _ in range(round(WAIT_S / POLL_S)):
        running = [process for process in running if runs(process)]
        if not running:
            return True
        await asyncio.sleep(POLL_S)
    return False


def runs(process: psutil.Process) -> bool:
    """True until the process has ended. A zombie has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _is_tracker(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("resource_tracker" in argument for argument in process.cmdline())
    return False


def kills(cgroup: Path = CGROUP, vmstat: Path = VMSTAT) -> int:
    """Counts the processes that the kernel has killed for memory, here or in this container."""
    killed = 0
    for file in (cgroup / "memory.events", vmstat):
        with suppress(OSError, ValueError):  # there may be no such file
            counters = dict(line.split() for line in file.read_text().splitlines())
            killed = max(killed, int(counters.get("oom_kill", 0)))
    return killed


def low_limits() -> str:
    """Names limits of this shell below which processes of Ray may not start, with a remedy. Empty without such."""
    low = []
    for option, (kind, usual) in LIMITS.items():
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY and (usual is None or most < usual):
            low.append(f"`ulimit -{option}` allows {most // UNITS.get(option, 1):,} {WORDS[option]}")
    return f"{' and '.join(low)}, which may be too few: start it in a shell that allows more" if low else ""


def begin_program() -> None:
    """Readies a process of the program: garbage is collected rarely, and keys that are read leave its environment."""
    collect_rarely()
    hide()


def collect_rarely() -> None:
    """Runs the garbage collector rarely. Messages make no cycles, and by default scanning them takes a third of the
    time."""
    gc.set_threshold(100_000)
