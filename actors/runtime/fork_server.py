"""Forks Ray's workers off a process that has imported what all of them import.

Two thirds of what it takes to start a worker are imports. Ray is told to start `forked_worker.py` in its place, which
hands its command, environment and open files to the server; the server forks, and the fork goes on as that worker. All
of them share the memory of what was imported.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import secrets
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("forked_worker.py")
VARIABLE = "AGORA_FORK_SERVER"  # what `forked_worker.py` reads the name of the server's socket from
WORKER = "ray._private.workers.default_worker"
# What all of a run's actors import. What one of them needs beside it, such as PyTorch, it imports itself.
IMPORTED = (
    "pydantic",  # by what Ray sends objects with
    "actors.runtime.agent_actor",
    "actors.runtime.replica_actor",
    "actors.runtime.stateful_actor",
)
NO_JOB = "ffffffff"
PATIENCE_S = 10.0  # for a worker that was stopped while it was saying what it wants
CREDENTIALS = struct.Struct("3i")  # process, user and group


@contextmanager
def as_of_raylet() -> Iterator[None]:
    """Ray's library, loaded in the block, takes this process for the raylet of its workers, which end when it does. Of
    their job it says what it says to workers that are started before there is one: the first task will tell."""
    of_workers = {"RAY_RAYLET_PID": str(os.getpid()), "RAY_JOB_ID": NO_JOB}
    os.environ.update(of_workers)
    yield
    for name in of_workers:
        del os.environ[name]


def start() -> str | None:
    """Starts the server, which ends with this process. Returns the program that Ray is to start for a worker; None
    where processes cannot be forked safely.

    This process must have no threads yet. Returns once more in each worker's process, where it ends with SystemExit.
    """
    if not sys.platform.startswith("linux"):
        return None
    listening = socket.socket(socket.AF_UNIX)
    name = f"agora-{secrets.token_hex(16)}"
    listening.bind(f"\0{name}")  # with the zero byte it is no file, which could be left behind
    listening.listen(128)
    ends, lives = os.pipe()
    if not os.fork():
        os.close(lives)
        _serve(listening, ends)
        sys.exit()
    listening.close()
    os.close(ends)  # the other end closes with this process
    os.environ[VARIABLE] = name
    return str(PROGRAM)


def _serve(listening: socket.socket, ends: int) -> None:
    """Forks until `ends` has ended. Returns in a fork when its worker is done."""
    for name in IMPORTED:
        import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        return  # a fork has one thread only, whatever the others were doing: workers start without the server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a worker ended
    # Collecting garbage would write to memory that is shared.
    gc.collect()
    gc.freeze()
    while listening.fileno() in select.select([listening.fileno(), ends], [], [])[0]:
        connection, _ = listening.accept()
        forked = False
        with connection, suppress(OSError, ValueError):  # what is not answered starts by itself
            connection.settimeout(PATIENCE_S)
            asked, files = _received(connection)
            forked = not os.fork()
            if not forked:
                for file in files:
                    os.close(file)
                connection.sendall(b"forked")
        if forked:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            os.close(ends)
            _work(asked, files)
            return


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What a worker is to be: `arguments`, `environment`, `folder` and `oom_score`; and its standard files.

    Raises ValueError for what another user asks, and OSError."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    if CREDENTIALS.unpack(peer)[1] != os.getuid():
        raise ValueError("another user's")
    data, files, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while more := connection.recv(1 << 16):
        data += more
    return json.loads(data), files


def _work(asked: dict[str, Any], files: list[int]) -> None:
    """Does in this process what the program of Ray's worker does in its own."""
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    # Ray ends what a worker has started by its group.
    os.setpgrp()
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    with suppress(OSError):  # where Ray cannot set it either
        Path("/proc/self/oom_score_adj").write_text(asked["oom_score"])
    sys.argv[1:] = asked["arguments"]
    runpy.run_module(WORKER, run_name="__main__", alter_sys=True)
