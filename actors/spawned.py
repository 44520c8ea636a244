"""Runs calls in other processes side by side, and counts the cores for them."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import ParamSpec, TypeVar

from actors.signals import delayed_signals

P = ParamSpec("P")
R = TypeVar("R")


def cores() -> int:
    """Counts the cores that this process may use. A container has fewer than its machine."""
    # macOS knows no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SpawningPool(ProcessPoolExecutor):
    """A pool whose processes end with this one, also where it is killed, and leave Ctrl-C to it.

    `begin` is called first in each process.
    """

    def __init__(self, processes: int, begin: Callable[[], object]) -> None:
        # Spawned: a fork copies the locks of other libraries' threads without the threads.
        super().__init__(processes, get_context("spawn"), initializer=_begin, initargs=(begin,))

    def submit(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        # A process starts with this mask: one that is interrupted while it imports would print a traceback.
        earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(call, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)


@contextmanager
def spawned(calls: Sequence[Callable[[], R]], at_once: int, begin: Callable[[], object]) -> Iterator[list[Future[R]]]:
    """Makes `at_once` calls at a time, and returns their results for the block, in their order.

    Calls that have not begun at its end, or at an interrupt, are dropped. `begin` is called first in each process.
    """
    with SpawningPool(min(at_once, len(calls)) or 1, begin) as pool:
        try:
            # A process that is interrupted while it starts would print a traceback.
            with delayed_signals():
                futures = [pool.submit(call) for call in calls]
            yield futures
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(begin: Callable[[], object]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer, once
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    begin()


def _end_with_parent() -> None:
    """Ends this process once its parent has ended: the pool would wait for calls, and hold standard output open."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
