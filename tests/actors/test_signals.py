"""SIGTERM and SIGHUP end a process as Ctrl-C does, whatever it is doing and whatever Ray does to their handlers."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import FrameType

import psutil
import pytest

from actors.processes import ended
from actors.signals import delayed_signals, restored_handlers
from tests.support.paths import ROOT

BEGUN = """
import asyncio, subprocess, sys, time
from actors.processes import ended
from actors.signals import Ending
ending = Ending()
ending.line = "at once"
ending.install()
"""
TASKS = """
async def work():
    try:
        print("begun", flush=True)
        await asyncio.sleep(60)
    finally:
        print("tidied", flush=True)
try:
    asyncio.run(work())
except KeyboardInterrupt:
    sys.exit(128 + ending.number)
"""
BUSY = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
try:
    print(child.pid, flush=True)
    time.sleep(60)
finally:
    try:
        print("tidying", flush=True)
        time.sleep(60)
    finally:
        ending.settle()
"""
# A call in C that goes on when a signal comes: handlers have to wait for it.
DEAF = """
import ctypes, threading
from actors import signals
signals.PATIENCE_S = 0.1
libc = ctypes.CDLL(None)
threading.Timer(1, lambda: print("begun", flush=True)).start()
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)
"""
FORKED = """
import os, signal
print("begun", flush=True)
for _ in range(2):
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
        time.sleep(60)
    time.sleep(0.5)
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
print("still here", flush=True)
"""


class Heard(Exception):
    """What the handlers of these tests raise."""


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that were handled, by handlers that raise; those before are put back."""
    numbers: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        numbers.append(number)
        raise Heard

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def begun(script: str, handed_down: Callable[[], object] = lambda: None) -> tuple[subprocess.Popen[str], str]:
    """A process that runs a script, and the first line that it printed."""

    def handed() -> None:
        # Whoever runs the tests under `nohup` has it ignored.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        handed_down()

    process = subprocess.Popen(
        [sys.executable, "-c", BEGUN + script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=handed,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("interrupts", [signal.SIG_DFL, signal.SIG_IGN])
def test_tasks_are_cancelled_even_where_a_shell_has_interrupts_ignored(
    how: signal.Signals, interrupts: signal.Handlers
) -> None:
    process, _ = begun(TASKS, lambda: signal.signal(signal.SIGINT, interrupts))
    process.send_signal(how)
    said, error = process.communicate(timeout=60)
    assert (process.returncode, said, error) == (128 + how, "tidied\n", "")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_ends_the_process_and_its_children_at_once(
    first: signal.Signals, second: signal.Signals
) -> None:
    process, child = begun(BUSY)
    process.send_signal(first)
    assert process.stdout is not None
    assert process.stdout.readline() == "tidying\n"
    process.send_signal(second)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + first
    assert "at once" in error
    assert "Traceback" not in error
    assert await_end(int(child))


def test_a_second_signal_ends_a_process_that_hangs_where_no_handler_is_called() -> None:
    process, _ = begun(DEAF)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("still ending; once more Ctrl-C")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "at once")


def test_the_signals_of_a_forked_child_are_not_counted_as_its_parents() -> None:
    process, _ = begun(FORKED)
    assert process.communicate(timeout=60) == ("still here\n", "")
    assert process.returncode == 0


def await_end(pid: int) -> bool:
    """Waits for a process to end, if it has not already."""
    try:
        return asyncio.run(ended([psutil.Process(pid)]))
    except psutil.NoSuchProcess:
        return True


def test_a_hangup_that_nohup_has_ignored_stays_ignored() -> None:
    process, _ = begun(TASKS, lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_held_back_is_handled_at_the_end(how: signal.Signals, heard: list[int]) -> None:
    blocks = ExitStack()
    blocks.enter_context(delayed_signals())
    send(how)
    assert heard == []
    with pytest.raises(Heard):
        blocks.close()
    assert heard == [how]


def test_a_second_signal_is_not_held_back(heard: list[int]) -> None:
    blocks = ExitStack()
    blocks.enter_context(delayed_signals())
    send(signal.SIGINT)
    with pytest.raises(Heard):
        send(signal.SIGINT)
    with pytest.raises(Heard):
        blocks.close()


def test_what_rays_own_handler_raises_counts_as_the_signal(heard: list[int]) -> None:
    @delayed_signals()
    def connect() -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        send(signal.SIGTERM)

    with pytest.raises(Heard):
        connect()
    assert heard == [signal.SIGTERM]


def test_handlers_that_were_taken_away_are_installed_again(heard: list[int]) -> None:
    with restored_handlers():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(Heard):
        send(signal.SIGTERM)
