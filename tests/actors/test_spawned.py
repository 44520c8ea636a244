"""Processes that calls are made in."""

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from actors.spawned import spawned
from tests.support.paths import ROOT

PROGRAM = f"""
import multiprocessing
import os
import signal
import sys

sys.path.insert(0, {str(ROOT)!r})

from actors.spawned import SpawningPool

if __name__ == "__main__":
    pool = SpawningPool(1, int)
    future = pool.submit(os.getpid)
    # As Ctrl-C does, which all processes of a terminal receive: here while Python starts.
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGINT)
    print(future.result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
LATEST_S = 300


def test_processes_live_through_ctrl_c_and_end_with_a_program_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # Its output ends with the last process that holds it open.
    ended = subprocess.run([sys.executable, program], capture_output=True, timeout=LATEST_S, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert b"KeyboardInterrupt" not in ended.stderr
    assert int(ended.stdout)


@pytest.mark.timeout(LATEST_S)
def test_an_interrupt_ends_calls_under_way() -> None:
    def interrupted() -> None:
        with spawned([partial(time.sleep, 10 * LATEST_S)] * 3, 2, int):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
