"""Reads whether memory ran out on this machine or in this container, and makes garbage collection rare."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")


def kills(cgroup: Path = CGROUP, vmstat: Path = VMSTAT) -> int:
    """Counts the processes that the kernel has killed so far because memory ran out, here or in this container."""
    killed = 0
    for file in (cgroup / "memory.events", vmstat):
        with suppress(OSError, ValueError):  # there may be no such file
            counters = dict(line.split() for line in file.read_text().splitlines())
            killed = max(killed, int(counters.get("oom_kill", 0)))
    return killed


def collect_rarely() -> None:
    """Runs the garbage collector rarely. Turns and messages make no cycles, and scanning them takes a third of the time
    by default."""
    gc.set_threshold(100_000)
