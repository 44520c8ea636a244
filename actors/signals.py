"""SIGTERM and SIGHUP end a run as Ctrl-C does; a second one ends the process and its children at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import psutil

from actors.processes import kill

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], Any]


class Ending:
    """Which signal ends this process: `number` is 0 until SIGTERM or SIGHUP comes.

    `line` is written to stderr when a second one comes, as nothing else can be said then.
    """

    def __init__(self) -> None:
        self.number = 0
        self.line = ""

    def install(self) -> None:
        """Handles SIGTERM and SIGHUP from now on, except one that is ignored (`nohup`). For the main thread."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._end_at_once()
        self.number = number
        # Whoever handles Ctrl-C now knows how to stop what runs now: asyncio cancels its main task, for example.
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)
        else:
            # What a shell starts in the background ignores SIGINT.
            raise KeyboardInterrupt

    def _end_at_once(self) -> None:
        with suppress(OSError):
            # Not `print`, which the signal may have come in the middle of.
            os.write(2, self.line.encode())
        kill(psutil.Process().children(recursive=True))
        os._exit(128 + self.number)


@contextmanager
def held_back() -> Iterator[None]:
    """Holds the first of Ctrl-C, SIGTERM and SIGHUP back until the end of the block.

    A block that raises SystemExit counts as one that SIGTERM came in: that is what Ray's own handler does.
    """
    handlers = _handlers()
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received:
            handlers[number](number, frame)
        received.append(number)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    except SystemExit:
        received += [signal.SIGTERM] if signal.SIGTERM in handlers else []
        raise
    finally:
        _install(handlers)
        for number in received:
            handlers[number](number, None)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Installs the handlers of these signals again at the end: Ray sets its own in C and, when it ends, the default."""
    handlers = _handlers()
    try:
        yield
    finally:
        _install(handlers)


def _handlers() -> dict[int, Handler]:
    """Python's handlers of the signals that end a run. None in another thread than the main one, which gets none."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {int(number): signal.getsignal(number) for number in ENDING}
    return {number: handler for number, handler in handlers.items() if callable(handler)}


def _install(handlers: Mapping[int, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
