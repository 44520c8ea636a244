"""Ends processes that other code started, stopped and hanging ones too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.process import BaseProcess

import psutil

WAIT_S = 5.0
LOOK_S = 0.05


def descendants(children: Iterable[BaseProcess]) -> list[psutil.Process]:
    """Children of this process, with all that they have started so far."""
    found: list[psutil.Process] = []
    for child in children:
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(child.pid)
            found += [root, *root.children(recursive=True)]
    return [process for process in found if not _is_tracker(process)]


def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to each that still runs, stopped ones too; none is waited for.

    Python's trackers of shared memory are spared: they give back what the others leave, and end by themselves.
    """
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if not _is_tracker(process):
                process.kill()


async def ended(processes: Iterable[psutil.Process]) -> bool:
    """Wait until all have ended; False when some have not after a while (a killed one first gives back its memory)."""
    left = list(processes)
    for _ in range(round(WAIT_S / LOOK_S)):
        left = [process for process in left if runs(process)]
        if not left:
            return True
        await asyncio.sleep(LOOK_S)
    return False


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended; one that has, and that no parent has asked about yet, does not count as running."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _is_tracker(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("resource_tracker" in argument for argument in process.cmdline())
    return False
