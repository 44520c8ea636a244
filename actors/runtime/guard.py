"""Ends a process that hangs or has been stopped, so that its parent notices. A small process watches it.

For processes that nothing else asks for a sign of life, such as the trials of Ray Tune.
"""

import subprocess
import sys
import threading
from contextlib import suppress

BEAT_S = 1.0
# Reads signs of life from its standard input. Both processes may have been stopped together, so it looks twice.
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
    """Kills this process after `hung_s` without a sign of life, until `close` or its end.

    The sign of life comes from a thread, so that a process counts as hung only if it runs nothing at all.
    """

    def __init__(self, process: int, hung_s: float, beat_s: float = BEAT_S) -> None:
        command = [sys.executable, "-I", "-S", "-c", GUARD, str(process), str(hung_s), str(beat_s)]
        self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, bufsize=0)
        self._closed = threading.Event()

        def beat() -> None:
            assert self._guard.stdin is not None
            with suppress(OSError):  # the guard has been killed
                while not self._closed.wait(beat_s):
                    self._guard.stdin.write(b".")

        self._thread = threading.Thread(target=beat, name="guard", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops watching."""
        self._closed.set()
        self._thread.join()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
