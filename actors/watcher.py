"""Has another process kill processes that this one must not leave behind, and this one where it hangs."""

import atexit
import math
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROGRAM = Path(__file__).with_name("watcher_program.py")
BEAT_S = 1.0
SECOND_LOOK_BEATS = 5


class Watcher:
    """Kills `processes` when this one ends, however it ends, or is closed.

    Python would wait at its end for the children that `multiprocessing` started, and SIGKILL would leave them behind.

    silence_s: after so many seconds without a sign of life of this process, `processes` are killed, and this one where
        it is among them. The sign comes from a thread, so that a process counts as hung only if it runs nothing at all.
        Infinite: it needs to give none.
    """

    def __init__(self, processes: Iterable[int], silence_s: float = math.inf, beat_s: float = BEAT_S) -> None:
        limits = (silence_s, SECOND_LOOK_BEATS * beat_s)
        # Without this folder and other packages, so that it starts fast.
        command = [sys.executable, "-I", "-S", str(PROGRAM), *map(str, limits), *map(str, processes)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, bufsize=0)
        self._beat_s = beat_s
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if not math.isinf(silence_s):
            self._thread = threading.Thread(target=self._give_signs, name="watcher", daemon=True)
            self._thread.start()
        atexit.register(self.close)

    def _give_signs(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the other process has been killed
            while not self._closing.wait(self._beat_s):
                self._process.stdin.write(b".")

    def close(self) -> None:
        """Ends the watching, and kills `processes` except this one."""
        atexit.unregister(self.close)
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._process.communicate()  # closes its input and waits for it
