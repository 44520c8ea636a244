"""The memory of this machine, or of the container that this process is in: what is free, and whether it ran out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")


def available_bytes(cgroup: Path = CGROUP) -> int:
    """Bytes that processes can still have: the machine's, or what a container's limit leaves of them."""
    available: int = psutil.virtual_memory().available
    with suppress(OSError, ValueError):
        # "max", of a container without a limit, is no number.
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
        # Of what it uses, the cache of files is given up first.
        reclaimable = _counters(cgroup / "memory.stat").get("inactive_file", 0)
        available = min(available, max(0, limit - used + reclaimable))
    return available


def kills(cgroup: Path = CGROUP, vmstat: Path = VMSTAT) -> int:
    """How many processes the kernel has killed so far because memory ran out, here or in this container."""
    return max(_counters(cgroup / "memory.events").get("oom_kill", 0), _counters(vmstat).get("oom_kill", 0))


def _counters(file: Path) -> dict[str, int]:
    """Lines of a name and a number; nothing where there is no such file."""
    counters = {}
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, number = line.partition(" ")
            counters[name] = int(number)
    return counters
