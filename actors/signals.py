"""Ends a run at SIGTERM and SIGHUP as at Ctrl-C. A second signal ends it at once, a lost reader does not."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

import psutil

from actors.processes import kill
from actors.secrets import masked

log = logging.getLogger(__name__)

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 10.0  # a run that takes longer to end prints how to end it at once
STILL_ENDING = "still ending; once more Ctrl-C, or the same signal, ends it at once\n"
Handler = Callable[[int, FrameType | None], Any]


class Ending:
    """Records which signal ends this process: `number` is 0 until SIGTERM or SIGHUP. A second one writes `line`."""

    def __init__(self) -> None:
        self.number = 0
        self.line = ""
        self._sent = -1
        self._read = threading.Event()

    def install(self) -> None:
        """Handles SIGTERM and SIGHUP in the main thread, together with Ctrl-C. An ignored signal (`nohup`) stays
        ignored."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
        received, sent = socket.socketpair()
        sent.setblocking(False)
        # Python writes a byte in C for each signal, so that the watcher reads it whatever the main thread hangs in.
        self._sent = sent.detach()
        signal.set_wakeup_fd(self._sent, warn_on_full_buffer=False)
        # A forked child would write its own signals there.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        threading.Thread(target=self._watch, args=(received,), name="signals", daemon=True).start()

    def settle(self) -> None:
        """Ends the process if a second signal has come, else returns. To be called before the end is printed and at the
        end, as a second signal interrupts what the first has begun."""
        if self._sent >= 0:
            self._read.clear()
            os.write(self._sent, b"\0")
            self._read.wait()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            return  # the watcher has it as well
        self.number = number
        # The present handler of Ctrl-C knows how to stop what runs now: asyncio's cancels its main task.
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)
        else:
            # A process that a shell starts in the background ignores SIGINT.
            raise KeyboardInterrupt

    def _watch(self, received: socket.socket) -> None:
        """Ends the process at the second signal of ENDING. Prints how to end it, where the first takes long."""
        first_signal = 0
        while True:
            try:
                number = received.recv(1)[0]
            except TimeoutError:
                _write(STILL_ENDING)
                received.settimeout(None)
                continue
            if number in ENDING and first_signal:
                _write(self.line)
                kill(psutil.Process().children(recursive=True))
                os._exit(128 + first_signal)
            if number in ENDING:
                first_signal = number
                received.settimeout(PATIENCE_S)
            elif not number:
                self._read.set()


def _write(line: str) -> None:
    with suppress(OSError):
        # Not `print`, which the signal may have interrupted.
        os.write(2, line.encode())


@contextmanager
def delayed_signals() -> Iterator[None]:
    """Delays the first of Ctrl-C, SIGTERM and SIGHUP until the end of the block. Ray's SystemExit counts as SIGTERM."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received:
            handlers[number](number, frame)
        received.append(number)

    try:
        with restored_handlers() as handlers:
            for number in handlers:
                signal.signal(number, note)
            yield
    except SystemExit:
        received += [signal.SIGTERM] if signal.SIGTERM in handlers else []
        raise
    finally:
        for number in received:
            handlers[number](number, None)


@contextmanager
def restored_handlers() -> Iterator[dict[int, Handler]]:
    """Yields Python's handlers of these signals, and installs them again at the end.

    Ray sets its own in C, and the default when it ends. There are none in another thread than the main one.
    """
    handlers: dict[int, Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for ending_signal in ENDING:
            handler = signal.getsignal(ending_signal)
            if callable(handler):
                handlers[int(ending_signal)] = handler
    try:
        yield handlers
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class Unbroken:
    """Standard output of a run, without keys, that goes on without its reader, as after `python run.py ... | head`.

    Python raises BrokenPipeError for every line after that, and rich ends the process without a word.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._safely(lambda: self._stream.write(masked(text)))
        return len(text)

    def flush(self) -> None:
        self._safely(self._stream.flush)

    def _safely(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            log.warning("the reader of the output has ended; the run goes on without it")
            # Buffered output goes there, too.
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())
