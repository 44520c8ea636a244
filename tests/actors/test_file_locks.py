"""Locks hold between processes, with the kernel's locks and without."""

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from actors.file_locks import try_lock
from tests.support.paths import ROOT

HOLDER = """
import sys
from pathlib import Path
from actors import file_locks
if sys.argv[2] == "none":
    def flock(file, operation):
        raise OSError(37, "No locks available")
    file_locks.fcntl.flock = flock
with file_locks.file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path, locks: str) -> subprocess.Popen[str]:
    """Starts a process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(path), locks]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("locks", ["kernel", "none"])
def test_a_second_process_waits_and_follows_one_that_is_killed(tmp_path: Path, locks: str) -> None:
    with holder(tmp_path / "x.lock", locks) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with holder(tmp_path / "x.lock", locks) as second:
            assert second.stdout is not None
            with pytest.raises(subprocess.TimeoutExpired):
                second.wait(0.5)
            first.kill()
            first.wait()
            assert second.stdout.readline() == "held\n"
            second.kill()


def test_without_locks_every_file_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "records"
    path.touch()
    with path.open("ab") as first, path.open("ab") as second:
        assert try_lock(first)
        assert not try_lock(second)
        monkeypatch.setattr(fcntl, "flock", no_locks)
        assert try_lock(second)
