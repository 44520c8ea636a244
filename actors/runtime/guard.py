"""Ends a process that has been stopped or hangs, so that whoever started it takes notice: a small process watches it.

For processes that nobody asks for a sign of life, such as those that Ray Tune starts.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress

BEAT_S = 1.0
# Reads the signs of life from its standard input. Both may have been stopped together, hence the second look.
GUARD = """
import os, select, signal, sys
guarded, hung_s, beat_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
alive = lambda within_s: select.select([0], [], [], within_s)[0]
while alive(hung_s) or alive(5 * beat_s):
    if not os.read(0, 4096):
        sys.exit()
os.kill(guarded, signal.SIGKILL)
"""


class Guard:
    """Watches this process from now until `close`, or its end. It is killed after `hung_s` without a sign of life.

    A sign of life comes from a thread, so that only a process counts as hung that runs nothing at all.
    """

    def __init__(self, process: int, hung_s: float, beat_s: float = BEAT_S) -> None:
        command = [sys.executable, "-I", "-S", "-c", GUARD, str(process), str(hung_s), str(beat_s)]
        self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, bufsize=0)
        self._closed = threading.Event()
        self._beat_s = beat_s
        self._thread = threading.Thread(target=self._beat, name="guard", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()
        self._thread.join()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def _beat(self) -> None:
        assert self._guard.stdin is not None
        with suppress(OSError):  # the guard has been killed: nobody watches any more
            while not self._closed.wait(self._beat_s):
                self._guard.stdin.write(b".")
