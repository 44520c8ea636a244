"""A guarded process that is stopped is killed; one that works, waits or has ended is left alone."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from actors.processes import runs
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow
# Long enough for a busy machine to let the process give a sign of life.
GUARDED = """
import os, sys, time
from actors.runtime.guard import Guard
guard = Guard(os.getpid(), hung_s=5, beat_s=0.2)
print(guard._guard.pid, flush=True)
{}
print("done", flush=True)
"""


def begun(work: str) -> tuple[subprocess.Popen[str], psutil.Process]:
    """A guarded process at work, and its guard."""
    process = subprocess.Popen(
        [sys.executable, "-c", GUARDED.format(work)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, psutil.Process(int(process.stdout.readline()))


def test_a_process_that_is_stopped_is_killed() -> None:
    process, guard = begun("time.sleep(60)")
    process.send_signal(signal.SIGSTOP)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    psutil.wait_procs([guard], timeout=60)
    assert not runs(guard)


@pytest.mark.parametrize("work", ["time.sleep(7)", "guard.close(); time.sleep(7)", "sum(range(10**7))"])
def test_a_process_that_lives_is_left_alone_and_its_guard_ends_with_it(work: str) -> None:
    process, guard = begun(work)
    assert process.communicate(timeout=60) == ("done\n", None)
    assert process.returncode == 0
    psutil.wait_procs([guard], timeout=60)
    assert not runs(guard)


def test_a_process_that_was_stopped_together_with_its_guard_goes_on() -> None:
    process, guard = begun("time.sleep(9)")
    guard.suspend()
    process.send_signal(signal.SIGSTOP)
    time.sleep(6)
    guard.resume()
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 0
