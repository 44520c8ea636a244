"""The local Ray of one run, in a process beside the one that asks for it: `begin` starts it, and whoever connects later
finds it up.

This module imports nothing of Ray's, so that the process is on its way while the others are still importing.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from actors.errors import ClusterError
from actors.processes import kill

PROGRAM = Path(__file__).with_name("head_process.py")
# Ray's own word for it: on Linux as on macOS and Windows, 127.0.0.1 is this machine's address then.
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
END_S = 15.0  # of which Ray gives its node's processes some
KEPT_S = 24 * 3600.0  # the logs of a run that failed or was killed

_begun: list[Head] = []


class Head:
    """A head node of Ray's and the server that forks its workers. It ends with `close`, or when this process does.

    variables: of the environment of all processes that take part in this Ray, this one included while it connects:
        they listen on the loopback interface, and ask who joins them for a token, which lies in no file. One that the
        user has said stays. (Ray's own way is one token for all of a user's clusters, in a file that everybody can
        read who can enter the home directory.)
    """

    def __init__(self) -> None:
        self._folder = private_folder() / "ray"
        said = any(name.startswith("RAY_AUTH_") for name in os.environ)
        own = {} if said else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.variables = {**own, **ON_LOOPBACK}
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self._folder)],
            env={**os.environ, **self.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def address(self) -> str:
        """Where its control store listens, once the node is up. Raises RuntimeError with Ray's reason if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer, _, text = self._process.stdout.readline().rstrip("\n").partition(" ")
        if answer != "up":
            raise RuntimeError(text or "its process has died")
        self._process.stdin.write("joined\n")
        self._process.stdin.flush()
        return text

    def close(self) -> None:
        """End it; it kills what does not end in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._kill()
        self._process.stdout.close()

    def abandon(self) -> None:
        """End it at once, whatever it is doing, with its session; for one that nobody has joined."""
        self._kill()
        self.close()
        for session in self._folder.glob(f"session_2*_{self._process.pid}"):
            forget_session(session)

    def _kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            process.suspend()  # it may be about to start another one
            kill([*process.children(recursive=True), process])
        self._process.wait()


def begin() -> None:
    """Start a local Ray now, for `begun` to return. Raises ClusterError where its folder is somebody else's."""
    if not _begun:
        _begun.append(Head())


def begun() -> Head:
    """The Ray that `begin` has started, for one caller, or a new one."""
    return _begun.pop() if _begun else Head()


def give_up() -> None:
    """End a Ray that nobody has asked for since `begin`."""
    while _begun:
        _begun.pop().abandon()


def first_line(error: Exception) -> str:
    """Of an error's text, which is several where Ray raises it; its type where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def private_folder() -> Path:
    """The folder of this user's sessions, which no other user can enter.

    Raises ClusterError where somebody else's lies at its place.
    """
    # Short, and not in TMPDIR: the paths of sockets have some hundred characters at most.
    folder = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / f"agora-mm-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ClusterError(f"cannot make {folder} for Ray's sockets ({error}); set RAY_TMPDIR=<folder>") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ClusterError(f"{folder} is not a folder of yours alone, as Ray's sockets need; set RAY_TMPDIR=<folder>")
    return folder


def forget_session(session: Path) -> None:
    """Removes a session that has ended, and those in its place whose process ended long ago."""
    old = time.time() - KEPT_S
    for other in session.parent.glob("session_2*_*"):
        # Its name ends with the number of the process that it is of.
        number = other.name.rpartition("_")[2]
        with suppress(OSError, ValueError):
            if other == session or (other.lstat().st_mtime < old and not psutil.pid_exists(int(number))):
                shutil.rmtree(other, ignore_errors=True)
    latest = session.parent / "session_latest"
    with suppress(OSError):
        if latest.is_symlink() and not latest.exists():
            latest.unlink()
