"""Runs calls in other processes side by side, and counts the cores for them."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import ParamSpec, TypeVar

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
        self._children: set[BaseProcess] = set()

    def submit(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        # A process starts with this mask: one that is interrupted while it imports would print a traceback.
        earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        earlier_children = set(active_children())
        try:
            return super().submit(call, *args, **kwargs)
        finally:
            self._children |= set(active_children()) - earlier_children
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)

    def kill(self) -> None:
        """Ends the processes, and the calls that they work on, at once."""
        for process in self._children:
            process.kill()


@contextmanager
def spawned(calls: Sequence[Callable[[], R]], at_once: int, begin: Callable[[], object]) -> Iterator[list[Future[R]]]:
    """Makes `at_once` calls at a time, and returns their results for the block, in their order.

    At the end of the block, calls that have not begun are dropped. After an error or an interrupt in it, so are those
    under way. `begin` is called first in each process.
    """
    with SpawningPool(min(at_once, len(calls)) or 1, begin) as pool:
        try:
            yield [pool.submit(call) for call in calls]
        except BaseException:
            # Their results are lost, and they may take minutes.
            pool.kill()
            raise
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
