"""Runs of the command line in sessions of their own: started, waited for, interrupted, and their records compared."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from actors.signals import STILL_ENDING
from tests.support.paths import ROOT


def begin(*words: str, most_bytes: int | None = None, **environment: str) -> subprocess.Popen[str]:
    """Starts `run.py`, whose files may have `most_bytes` bytes each."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes or 0, most_bytes or 0))

    return subprocess.Popen(
        [sys.executable, "run.py", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit if most_bytes else None,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Waits for the process and returns its output: of standard error where it should fail."""
    printed, error = process.communicate(timeout=600)
    assert process.returncode == code, printed + error
    return error if code else printed


def run_folder(output: Path) -> Path:
    [config] = output.glob("*-mmqa_prune/config.yaml")
    return config.parent


def folder_of(printed: str) -> Path:
    """The folder that the last line of a run names."""
    last = printed.strip().splitlines()[-1]
    assert last.startswith("run: "), printed
    return Path(last.removeprefix("run: "))


def wait_for(
    process: subprocess.Popen[str],
    output: Path,
    pattern: str,
    reached: Callable[[Path], object] = lambda path: path.stat().st_size,
) -> Path:
    """Waits until one file that matches the pattern has content, or is as far as `reached` asks, and returns it."""
    while process.poll() is None:
        for path in output.glob(pattern):
            if reached(path):
                return path
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def assert_same_records(one: Path, other: Path, *more: str) -> None:
    """Requires the same bytes of all that two runs record of discussions, scores and learning."""
    # Timings differ between runs, and turns/ names pictures by their place in the cache.
    learned = [path for path in one.glob("learned/**/*.jsonl") if path.parent.name not in ("timings", "turns")]
    found = [path.relative_to(one).as_posix() for path in sorted([*one.glob("traces/*.jsonl"), *learned])]
    assert found
    for name in ("metrics.json", "scores.jsonl", *found, *more):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


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
