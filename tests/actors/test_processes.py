"""Processes that end with the one that started them, as an engine of vLLM does."""

import signal
import subprocess
import sys

import psutil
import pytest

from actors.processes import runs
from tests.support.paths import ROOT

# `multiprocessing` waits for a child at the end of this program, unless it is killed before.
STARTS = """
import multiprocessing, os, signal, time
from actors.processes import descendants, kill_at_end
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[600])
    child.start()
    end = kill_at_end(descendants([child]))
    print(child.pid, flush=True)
    {}
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("end(); child.join()", 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_a_child_ends_with_its_parent_however_that_ends(how: str, code: int) -> None:
    started = [sys.executable, "-c", STARTS.format(how)]
    with subprocess.Popen(started, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert parent.wait(60) == code
    if psutil.pid_exists(child):
        process = psutil.Process(child)
        psutil.wait_procs([process], timeout=60)
        assert not runs(process)
