"""Starts and ends the Ray of a run: a local one, in a separate process, or a cluster at an address.

A local Ray belongs to its user alone: its ports listen on the loopback interface, whoever joins it needs its token, its
dashboard is off, and no other user can enter the folder of its session, where its sockets and logs are. Nothing here
imports Ray before it is needed, so that it starts while the run is still importing.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import psutil

from actors.errors import ClusterError
from actors.processes import kill
from actors.runtime import TOKEN
from actors.signals import held_back

# Starts Ray, and ends it when its standard input ends, which is when the run's process does. The session's folder goes
# with it, unless a run has joined it and did not end well. Ctrl-C reaches all processes of a terminal: this one, and
# what it starts, end when the run has nothing more to ask. Where a busy machine needs more than Ray's 30 s for a start,
# it tries once more.
PROGRAM = """
import logging, os, shutil, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
import ray
def tell(answer):
    try:
        os.write(1, (answer + "\\n").encode())
    except BrokenPipeError:
        pass
for again in (True, False):
    try:
        options = dict(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, _temp_dir=sys.argv[1])
        started = ray.init("local", **options).address_info
        break
    except Exception as error:
        if not again:
            tell("failed " + (str(error).splitlines() or [type(error).__name__])[0])
            sys.exit()
tell("up " + started["gcs_address"])
told = sys.stdin.read().split()
ray.shutdown()
if told != ["joined"]:
    shutil.rmtree(started["session_dir"], ignore_errors=True)
"""
# Documented for macOS and Windows, where Ray then listens on 127.0.0.1 alone; it does so on Linux, too.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# No workers wait for the head's own process, which runs nothing; workers get as much of a busy machine as others.
WORKERS = {"RAY_prestart_worker_first_driver": "0", "RAY_worker_niceness": "0"}
END_S = 15.0  # of which Ray gives its processes some
KEPT_S = 24 * 3600.0  # the logs of a run that failed or was killed

_begun: list[Head] = []
_joined: list[Head] = []  # one or none


class Head:
    """Runs a local Ray in another process, until `close` or the end of this process.

    Raises ClusterError where this process could not join it with a token, or the folder belongs to somebody else.
    """

    def __init__(self) -> None:
        if not any(name.startswith("RAY_AUTH_") for name in os.environ):
            raise ClusterError(
                "this program imports Ray before actors.runtime, so that its Ray would have no token: import "
                "actors.runtime first, or set RAY_AUTH_MODE"
            )
        self._folder = private_folder() / "ray"
        # A process that imported Ray without this variable looks for Ray on the machine's other address.
        if "ray" not in sys.modules:
            os.environ |= LOOPBACK
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self._folder)],
            env={**os.environ, **WORKERS},
            cwd=self._folder.parent,  # where no module of this folder hides one of Ray's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def address(self) -> str:
        """Waits until Ray is up and returns its address. Raises RuntimeError with Ray's reason if it does not start."""
        assert self._process.stdout is not None
        answer, _, text = self._process.stdout.readline().rstrip("\n").partition(" ")
        if answer != "up":
            raise RuntimeError(text or "its process has died")
        self._tell("joined")
        return text

    def close(self, forget: bool = False) -> None:
        """Ends it, and with `forget` deletes its logs. Kills what does not end in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has died
            if forget:
                self._tell("forget")
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._kill()
        self._process.stdout.close()
        forget_old_sessions(self._folder)

    def abandon(self) -> None:
        """Kills a Ray that no process has joined, and deletes its session."""
        self._kill()
        for session in self._folder.glob(f"session_2*_{self._process.pid}"):
            shutil.rmtree(session, ignore_errors=True)
        self.close()

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            process.suspend()  # it may be about to start another one
            kill([*process.children(recursive=True), process])
        self._process.wait()


def begin() -> None:
    """Starts a local Ray, for `connect` to join. Raises ClusterError where it must not be."""
    if not _begun:
        _begun.append(Head())


def give_up() -> None:
    """Ends a Ray that no process has joined since `begin`."""
    while _begun:
        _begun.pop().abandon()


def connect(address: str | None) -> None:
    """Joins the Ray cluster at an address, or a local one where there is none.

    Raises:
        ClusterError: it does not answer.
    """
    if address is None:
        begin()
        _joined.append(_begun.pop())
    elif address != "auto":
        _check_answers(address)
    import ray

    try:
        at = _joined[0].address() if address is None else address
        # Ray crashes the process when it is interrupted while it connects.
        with warnings.catch_warnings(), held_back():
            # Ray forks only to start another program at once, which LanceDB, where it is loaded, cannot know.
            warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
            ray.init(address=at, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises a plain Exception for a node that does not come up in time
        disconnect()
        raise _no_answer(address, (str(error).splitlines() or [type(error).__name__])[0]) from error
    except BaseException:
        disconnect()
        raise


def disconnect(forget: bool = False) -> None:
    """Leaves the cluster, and ends a local one, with `forget` together with its logs."""
    import ray

    ray.shutdown()
    while _joined:
        _joined.pop().close(forget)


def leave_token_to_user() -> None:
    """Has Ray use the user's own token, if any, for a cluster that others have started. Too late once Ray is imported:
    it then sends the token of this process, which a cluster without tokens ignores."""
    if os.environ.get("RAY_AUTH_TOKEN") == TOKEN and "ray" not in sys.modules:
        del os.environ["RAY_AUTH_TOKEN"], os.environ["RAY_AUTH_MODE"]


def _check_answers(address: str) -> None:
    """Raises ClusterError within seconds for a host that does not answer, for which Ray itself waits long."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ClusterError(f"ray.address={address!r} is not an address: expected `auto` or `host:port`")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise _no_answer(address, str(error)) from error


def _no_answer(address: str | None, reason: str) -> ClusterError:
    if address is None:
        return ClusterError(
            f"Ray did not start on this machine ({reason}): if the machine is busy, try again when it is less so; "
            "runtime=inline needs no Ray"
        )
    return ClusterError(
        f"Ray at ray.address={address!r} does not answer ({reason}): "
        "start one with `ray start --head`, or leave ray.address out to use a local one"
    )


def private_folder() -> Path:
    """The folder of this user's sessions, which no other user can enter.

    Raises ClusterError where somebody else's is in its place.
    """
    # Short, and not in TMPDIR: a socket's path has some hundred characters at most.
    folder = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / f"agora-mm-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ClusterError(f"cannot make {folder} for Ray's sockets ({error}); set RAY_TMPDIR=<folder>") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ClusterError(f"{folder} is not a folder of yours alone, as Ray's sockets need; set RAY_TMPDIR=<folder>")
    return folder


def forget_old_sessions(folder: Path) -> None:
    """Deletes sessions whose process ended long ago, and the link to one that is deleted."""
    old = time.time() - KEPT_S
    for session in folder.glob("session_2*_*"):
        # Its name ends with the number of its process.
        number = session.name.rpartition("_")[2]
        with suppress(OSError, ValueError):
            if session.lstat().st_mtime < old and not psutil.pid_exists(int(number)):
                shutil.rmtree(session, ignore_errors=True)
    latest = folder / "session_latest"
    with suppress(OSError):
        if latest.is_symlink() and not latest.exists():
            latest.unlink()
