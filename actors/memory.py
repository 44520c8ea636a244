"""Memory: what this machine, or the container that this process is in, has free, whether it ran out, and how often this
process looks for what it can give back."""

from __future__ import annotations

import gc
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


def collect_rarely() -> None:
    """Run the garbage collector rarely: turns and messages are frozen and make no cycles, and by default a third of the
    time goes into scanning them."""
    gc.set_threshold(100_000)
