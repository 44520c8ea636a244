"""Runs calls in other processes side by side, and counts the cores for them."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from actors.signals import delayed_signals

R = TypeVar("R")


def cores() -> int:
    """Counts the cores that this process may use. A container has fewer than its machine."""
    # macOS knows no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def spawned(calls: Sequence[Callable[[], R]], at_once: int, begin: Callable[[], object]) -> Iterator[list[Future[R]]]:
    """Makes `at_once` calls at a time, and returns their results for the block, in their order.

    Calls that have not begun at its end, or at an interrupt, are dropped. `begin` is called first in each process.
    """
    # Spawned: a fork copies the locks of other libraries' threads without the threads.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(at_once, len(calls)) or 1, context, initializer=_begin, initargs=(begin,)) as pool:
        try:
            # A process that is interrupted while it starts would print a traceback.
            with delayed_signals():
                futures = [pool.submit(call) for call in calls]
            yield futures
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(begin: Callable[[], object]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer, once
    begin()
