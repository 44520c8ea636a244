"""Processes that calls are made in."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

PROGRAM = f"""
import os
import signal
import sys

sys.path.insert(0, {str(ROOT)!r})

from actors.spawned import spawning_pool

if __name__ == "__main__":
    pool = spawning_pool(1, int)
    print(pool.submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
LATEST_S = 300


def test_processes_end_with_a_program_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # Its output ends with the last process that holds it open.
    ended = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, timeout=LATEST_S, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert int(ended.stdout)
