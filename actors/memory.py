"""Reads how much memory is free on this machine or in this container, and whether it ran out."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")


def available_bytes(cgroup: Path = CGROUP) -> int:
    """Returns the bytes still available to processes, within the container's limit if there is one."""
    available: int = psutil.virtual_memory().available
    with suppress(OSError, ValueError):
        # A container without a limit has "max", which is no number.
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
        # The kernel gives up the cache of files first.
        reclaimable = _counters(cgroup / "memory.stat").get("inactive_file", 0)
        available = min(available, max(0, limit - used + reclaimable))
    return available


def kills(cgroup: Path = CGROUP, vmstat: Path = VMSTAT) -> int:
    """Counts the processes that the kernel has killed so far because memory ran out, here or in this container."""
    return max(_counters(cgroup / "memory.events").get("oom_kill", 0), _counters(vmstat).get("oom_kill", 0))


def _counters(file: Path) -> dict[str, int]:
    """Reads lines of a name and a number; none where there is no such file."""
    counters = {}
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, number = line.partition(" ")
            counters[name] = int(number)
    return counters


def collect_rarely() -> None:
    """Runs the garbage collector rarely. Turns and messages make no cycles, and scanning them takes a third of the time
    by default."""
    gc.set_threshold(100_000)
