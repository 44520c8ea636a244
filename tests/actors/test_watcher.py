"""A watcher kills what a process must not leave behind, and the process where it is stopped; else it kills nothing."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from actors.processes import runs
from tests.support.paths import ROOT

# `multiprocessing` waits for a child at the end of this program, unless it is killed before.
WITH_CHILD = """
import multiprocessing, os, signal, time
from actors.watcher import Watcher
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[600])
    child.start()
    watcher = Watcher([child.pid])
    print(child.pid, flush=True)
    {}
"""
# Long enough for a busy machine to let the process give a sign of life.
WATCHES_ITSELF = """
import os, time
from actors.watcher import Watcher
watcher = Watcher([os.getpid()], silence_s=5, beat_s=0.2)
print(watcher._process.pid, flush=True)
{}
print("done", flush=True)
"""


def begun(program: str, work: str) -> tuple[subprocess.Popen[str], int]:
    """A process at work, and the number of the one that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", program.format(work)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def ended(number: int) -> bool:
    try:
        process = psutil.Process(number)
    except psutil.NoSuchProcess:
        return True
    psutil.wait_procs([process], timeout=60)
    return not runs(process)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("watcher.close(); child.join()", 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_a_child_ends_with_its_parent_however_that_ends(ending: str, code: int) -> None:
    parent, child = begun(WITH_CHILD, ending)
    parent.communicate(timeout=60)
    assert parent.returncode == code
    assert ended(child)


@pytest.mark.slow
def test_a_process_that_is_stopped_is_killed() -> None:
    process, watcher = begun(WATCHES_ITSELF, "time.sleep(60)")
    process.send_signal(signal.SIGSTOP)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert ended(watcher)


@pytest.mark.slow
@pytest.mark.parametrize("work", ["time.sleep(7)", "watcher.close(); time.sleep(7)", "sum(range(10**7))"])
def test_a_process_that_lives_is_left_alone_and_its_watcher_ends_with_it(work: str) -> None:
    process, watcher = begun(WATCHES_ITSELF, work)
    assert process.communicate(timeout=60) == ("done\n", None)
    assert process.returncode == 0
    assert ended(watcher)


@pytest.mark.slow
def test_a_process_that_was_stopped_together_with_its_watcher_goes_on() -> None:
    process, watcher = begun(WATCHES_ITSELF, "time.sleep(9)")
    os.kill(watcher, signal.SIGSTOP)
    process.send_signal(signal.SIGSTOP)
    time.sleep(6)
    os.kill(watcher, signal.SIGCONT)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 0
