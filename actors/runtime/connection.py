"""Connects this process to Ray, with errors of one line.

A local Ray is this user's own: its ports listen on the loopback interface, its dashboard is off, and its session's
folder, where its sockets and logs lie, can be entered by nobody else. What joins it needs its token.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import ray_constants, worker
from ray._private.node import Node
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

from actors.errors import ClusterError
from actors.signals import held_back

LOG = logging.getLogger(__name__)

KEPT_S = 24 * 3600.0  # the logs of a run that failed or was killed
# Processes of a head node that nothing here asks: for more nodes, for printing workers' output, and the dashboard's
# server, which runs without a dashboard too. Without them Ray is up in half the time.
NEEDLESS = ("start_monitor", "start_log_monitor", "start_api_server")


def connect(address: str | None) -> None:
    """Join the Ray cluster at an address, or start a local one where there is none.

    Raises:
        ClusterError: it does not answer.
    """
    if address and address != "auto":
        _check_answers(address)
    # Ray opens the folder that it is given to all; in one that only its user can enter, that opens nothing.
    own: dict[str, Any] = (
        {"include_dashboard": False, "_temp_dir": f"{private_folder()}/ray"} if address is None else {}
    )
    # Of what it prints, no switch keeps back what its nodes warn of, such as eight agents on two cores.
    worker.print_to_stdstream = _log_what_ray_says
    try:
        # Ray crashes the process when it is interrupted while it connects.
        with warnings.catch_warnings(), held_back(), _own() if address is None else nullcontext():
            # Ray forks only to start another program at once, which LanceDB, where it is loaded, cannot know.
            warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **own,
            )
    except Exception as error:  # Ray raises a plain Exception for a node that does not come up in time
        disconnect()
        raise _no_answer(address, (str(error).splitlines() or [type(error).__name__])[0]) from error
    except BaseException:
        disconnect()
        raise


def _log_what_ray_says(data: Any, ignore_prefix: bool = False) -> None:
    """In place of Ray's own function, which prints it."""
    for line in data["lines"]:
        LOG.warning("Ray: %s", line.strip())


def disconnect() -> None:
    """Leave the cluster, and end a local one. The next one may have another token, or none."""
    ray.shutdown()
    _read_authentication()


@contextmanager
def _own() -> Iterator[None]:
    """Has the Ray that starts in the block be this run's alone: small, and closed to all others."""
    with _bare(), _private():
        yield


@contextmanager
def _bare() -> Iterator[None]:
    """Has the Ray that starts in the block do without processes that are of no use to one run on one machine. `ray
    start` has switches for them, `ray.init` has none."""
    started: dict[str, Any] = {name: getattr(Node, name) for name in NEEDLESS if hasattr(Node, name)}
    for name in started:
        setattr(Node, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name, start in started.items():
            setattr(Node, name, start)


@contextmanager
def _private() -> Iterator[None]:
    """Has the Ray that starts in the block listen on the loopback interface, and ask who joins it for a token of its
    own, which lies in no file. One that the user has said stays.

    Ray's own way is one token for all of a user's clusters, in a file that everybody can read who can enter the home
    directory.
    """
    said = any(name.startswith("RAY_AUTH_") for name in os.environ)
    own = {} if said else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ.update(own)
    _read_authentication()
    try:
        with _on_loopback():
            yield
    finally:
        # Ray's processes have it by now, and this one's client remembers it.
        for name in own:
            del os.environ[name]


def _read_authentication() -> None:
    """Has Ray's client read from the environment whether there is a token and which, and forget what it had read."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Has all of Ray's processes that start in the block take 127.0.0.1 for this machine's address, to which they bind
    then, as do those that these start later.

    `_node_ip_address` is no way to say so, for Ray replaces a loopback address given there by the machine's own. With
    this switch it does on Linux what it does on macOS and Windows.
    """
    name = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    before = os.environ.get(name), ray_constants.ENABLE_RAY_CLUSTER
    # Ray's processes read the variable; this one has read it when it imported Ray.
    os.environ[name], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        # A cluster that this process joins or starts later has the machine's address again.
        os.environ.pop(name)
        if before[0] is not None:
            os.environ[name] = before[0]
        ray_constants.ENABLE_RAY_CLUSTER = before[1]


def session_folder() -> Path:
    """Where the local Ray of this process has its sockets and logs."""
    node: Any = worker._global_node
    return Path(node.get_session_dir_path())


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


def _check_answers(address: str) -> None:
    """Raises ClusterError within seconds for a host that is not there, for which Ray itself waits long."""
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
