"""A run in a session of its own, which a terminal could interrupt as a whole."""

import os
import signal
import subprocess
import time
from pathlib import Path

from actors.signals import STILL_ENDING


def interrupt(process: subprocess.Popen[str]) -> str:
    """Interrupts all processes of a session, as a terminal does, and returns their stderr once all of them have ended.

    Asserts that the first ended with 130 and without a traceback.
    """
    os.killpg(process.pid, signal.SIGINT)
    return _ended(process, 130)


def terminate(process: subprocess.Popen[str]) -> str:
    """Sends SIGTERM to the first process of a session, as `kill` does, and returns stderr like `interrupt`.

    Asserts that it ended with 143.
    """
    process.send_signal(signal.SIGTERM)
    return _ended(process, 143)


def _ended(process: subprocess.Popen[str], code: int) -> str:
    _, error = process.communicate(timeout=120)
    assert process.returncode == code, error
    assert "Traceback" not in error, error
    # Workers may outlive the process that started them by a few seconds.
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _alive(process.pid):
        time.sleep(0.2)
    assert not _alive(process.pid)
    # On a busy machine the end may take so long that this is said.
    return error.replace(STILL_ENDING, "")


def _alive(session: int) -> list[int]:
    """Processes of a session (field 6 of /proc/<pid>/stat) that are not zombies."""
    alive = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the last bracket, because a command's name may itself hold blanks and brackets.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended while the folder was being listed
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            alive.append(int(stat.parent.name))
    return alive
