"""Reads whether memory ran out on this machine or in this container, and makes garbage collection rare."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")


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
