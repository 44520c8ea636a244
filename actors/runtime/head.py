"""Starts and ends the Ray of a run. It is local, in a separate process, or a cluster at an address.

A local Ray belongs to its user alone: its ports listen on the loopback interface, whoever joins it needs its token, its
dashboard is off, and no other user can enter the folder of its session, where its sockets and logs are. Nothing here
imports Ray before it is needed, so that it starts while the run is still importing.
"""

import logging
import os
import select
import shutil
import socket
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import psutil

from actors.errors import ClusterError
from actors.own_folder import own_folder
from actors.processes import kill, low_limits
from actors.runtime import TOKEN, use_own_token
from actors.runtime.head_program import LOCAL
from actors.signals import delayed_signals

PROGRAM = Path(__file__).with_name("head_program.py")
# Documented for macOS and Windows, where Ray then listens on 127.0.0.1 alone; it does so on Linux, too.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# No workers wait for the head's own process, which runs nothing; workers get as much of a busy machine as others.
WORKERS = {"RAY_prestart_worker_first_driver": "0", "RAY_worker_niceness": "0"}
ANSWER_S = 5.0  # for a host to accept a connection
JOIN_S = 60.0  # for a cluster; some seconds are usual
START_S = 180.0  # for a local Ray on a busy machine, tried twice
END_S = 15.0  # of which Ray gives its processes some
KEPT_S = 24 * 3600.0  # the logs of a run that failed or was killed

_heads: "list[Head]" = []  # one or none


class Head:
    """Runs a local Ray in another process, or tries a cluster's address. Ends with `close` or this process.

    Raises ClusterError where nothing listens there, where this process could not join a local Ray with a token, or the
    folder belongs to somebody else.
    """

    def __init__(self, address: str | None = None) -> None:
        self.joined = False
        self._address = address
        self._folder = private_folder() / "ray"
        if address is None:
            _prepare_local()
        elif "ray" not in sys.modules:  # later it sends the token of this process
            _use_token_of_user()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), LOCAL if address is None else _answering(address), str(self._folder)],
            env={**os.environ, **WORKERS},
            cwd=self._folder.parent,  # where no module of this folder hides one of Ray's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def address(self) -> str:
        """Waits until Ray answers and returns its address. Raises ClusterError with the reason if it does not."""
        assert self._process.stdout is not None
        patience_s = START_S if self._address is None else JOIN_S
        readable, _, _ = select.select([self._process.stdout], [], [], patience_s)
        if not readable:
            raise _no_answer(self._address, f"no answer in {patience_s:g} s")
        word, _, text = self._process.stdout.readline().rstrip("\n").partition(" ")
        if word != "up":
            raise _no_answer(self._address, text or "its process has died")
        if self._address is None:
            print("joined", file=self._process.stdin, flush=True)
        self.joined = True
        return text

    def close(self, forget: bool = False) -> None:
        """Ends it, and with `forget` deletes its logs. Kills what does not end in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError), self._process.stdin:  # it has died, or had only an address to try
            if forget:
                print("forget", file=self._process.stdin, flush=True)
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

    def _kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            process.suspend()  # it may be about to start another one
            kill([*process.children(recursive=True), process])
        self._process.wait()


def _prepare_local() -> None:
    """Sets what a local Ray reads in the environment. Raises ClusterError where it cannot start."""
    if not use_own_token():
        raise ClusterError(
            "this program imports Ray before actors.runtime, so that its Ray would have no token: import "
            "actors.runtime first, or set RAY_AUTH_MODE"
        )
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), ANSWER_S).close()
    except OSError as error:
        raise ClusterError(
            f"Ray cannot start on this machine, whose loopback interface does not work ({error}): switch it on "
            "(`ip link set lo up`), or use runtime=inline"
        ) from error
    # A process that imported Ray without this variable looks for Ray on the machine's other address.
    if "ray" not in sys.modules:
        os.environ |= LOOPBACK


def _use_token_of_user() -> None:
    """Has Ray send the user's token, if any, to a cluster that others have started.

    Ray itself takes it for `auto` alone; a cluster without tokens ignores it.
    """
    if os.environ.get("RAY_AUTH_TOKEN") == TOKEN:
        del os.environ["RAY_AUTH_TOKEN"]
        del os.environ["RAY_AUTH_MODE"]
    file = Path.home() / ".ray" / "auth_token"
    if "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ or file.exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def begin(address: str | None = None) -> None:
    """Starts a local Ray, or tries an address, for `connect` to join. Raises ClusterError where it must not be."""
    if not _heads:
        _heads.append(Head(address))


def give_up() -> None:
    """Ends a Ray that no process has joined since `begin`."""
    while _heads and not _heads[0].joined:
        _heads.pop().abandon()


def connect(address: str | None) -> None:
    """Joins the Ray cluster at an address, or a local one where there is none. Ctrl-C ends the wait for it. Raises
    ClusterError where it does not answer."""
    begin(address)
    try:
        ray_address = _heads[0].address()
        import ray

        # Ray crashes the process when it is interrupted while it connects.
        with warnings.catch_warnings(), delayed_signals():
            # Ray forks only to start another program at once, which LanceDB, where it is loaded, cannot know.
            warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
            ray.init(address=ray_address, log_to_driver=False, logging_level=logging.ERROR)
    except BaseException as error:
        give_up()
        if _heads:
            disconnect()
        if isinstance(error, ClusterError) or not isinstance(error, Exception):
            raise
        # Ray raises a plain Exception for a node that does not come up in time.
        raise _no_answer(address, " ".join(str(error).split())[:300] or type(error).__name__) from error


def disconnect(forget: bool = False) -> None:
    """Leaves the cluster, and ends a local one, with `forget` together with its logs."""
    import ray

    ray.shutdown()
    while _heads:
        _heads.pop().close(forget)


def _answering(setting: str) -> str:
    """Returns the address to join. Raises ClusterError within seconds where nothing listens, as Ray waits for long."""
    address = setting
    source = ""
    if setting == "auto":
        address, source = _current_cluster()
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit():
        raise ClusterError(f"ray.address={address!r} is not an address: expected `auto` or `host:port`")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise _no_answer(setting, f"{address}{source}: {error}") from error
    return address


def _current_cluster() -> tuple[str, str]:
    """Returns the address that `auto` means, and where it is from, as Ray reads it.

    Ray would otherwise take any Ray of this machine, such as another run's. Raises ClusterError where there is none.
    """
    address = os.environ.get("RAY_ADDRESS")
    if address:
        return address, ", from RAY_ADDRESS"
    file = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray", "ray_current_cluster")
    try:
        return file.read_text().strip(), f", from {file}"
    except OSError as error:
        raise _no_answer("auto", f"RAY_ADDRESS is not set, and there is no {file}") from error


def _no_answer(address: str | None, reason: str) -> ClusterError:
    if address is None:
        remedy = low_limits() or "if the machine is busy, try again when it is less so"
        return ClusterError(f"Ray did not start on this machine ({reason}): {remedy}; runtime=inline needs no Ray")
    return ClusterError(
        f"Ray at ray.address={address!r} does not answer ({reason}): if none runs there, start it with `ray start "
        "--head --port=6379`, and here, if that is another machine, with `ray start --address=<head>:6379`; if its "
        "head has a token (`ray get-auth-token` prints it there), set RAY_AUTH_TOKEN=<token> here; without "
        "ray.address a run starts a local Ray"
    )


def private_folder() -> Path:
    """The folder of this user's sessions, which no other user can enter. Raises ClusterError where it is another's."""
    # Short, and not in TMPDIR: a socket's path has some hundred characters at most.
    folder = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / f"agora-mm-{os.getuid()}"
    try:
        return own_folder(folder, "RAY_TMPDIR")
    except OSError as error:
        raise ClusterError(f"Ray's sockets need a folder: {error}") from error


def forget_old_sessions(folder: Path) -> None:
    """Deletes sessions whose process ended long ago, and the link to one that is deleted."""
    deadline_s = time.time() - KEPT_S
    for session in folder.glob("session_2*_*"):
        # Its name ends with the number of its process.
        number = session.name.rpartition("_")[2]
        with suppress(OSError, ValueError):
            if session.lstat().st_mtime < deadline_s and not psutil.pid_exists(int(number)):
                shutil.rmtree(session, ignore_errors=True)
    latest = folder / "session_latest"
    with suppress(OSError):
        if latest.is_symlink() and not latest.exists():
            latest.unlink()
