"""Connects this process to Ray, with errors of one line.

A local Ray is this user's own: its ports listen on the loopback interface, its dashboard is off, and its session's
folder, where its sockets and logs lie, can be entered by nobody else. What joins it needs its token.
"""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants, worker
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

from actors.errors import ClusterError
from actors.runtime.head import Head, begun, first_line
from actors.signals import held_back

LOG = logging.getLogger(__name__)

_heads: list[Head] = []  # that this process is connected to: one or none


def connect(address: str | None) -> None:
    """Join the Ray cluster at an address, or start a local one where there is none.

    Raises:
        ClusterError: it does not answer.
    """
    if address and address != "auto":
        _check_answers(address)
    if address is None:
        _heads.append(begun())
    # Of what it prints, no switch keeps back what its nodes warn of, such as eight agents on two cores.
    worker.print_to_stdstream = _log_what_ray_says
    try:
        at, joining = (_heads[0].address(), _joining(_heads[0])) if address is None else (address, nullcontext())
        # Ray crashes the process when it is interrupted while it connects.
        with warnings.catch_warnings(), held_back(), joining:
            # Ray forks only to start another program at once, which LanceDB, where it is loaded, cannot know.
            warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
            ray.init(address=at, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises a plain Exception for a node that does not come up in time
        disconnect()
        raise _no_answer(address, first_line(error)) from error
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
    while _heads:
        _heads.pop().close()


@contextmanager
def _joining(head: Head) -> Iterator[None]:
    """Has this process belong to the local Ray that it connects to in the block."""
    before = {name: os.environ.get(name) for name in head.variables}, ray_constants.ENABLE_RAY_CLUSTER
    os.environ.update(head.variables)
    # This process has read the variable when it imported Ray.
    ray_constants.ENABLE_RAY_CLUSTER = False
    _read_authentication()
    try:
        yield
    finally:
        # Its client remembers it. A cluster that this process joins or starts later has the machine's address again.
        for name, said in before[0].items():
            del os.environ[name]
            if said is not None:
                os.environ[name] = said
        ray_constants.ENABLE_RAY_CLUSTER = before[1]


def _read_authentication() -> None:
    """Has Ray's client read from the environment whether there is a token and which, and forget what it had read."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def session_folder() -> Path:
    """Where the local Ray of this process has its sockets and logs."""
    node: Any = worker._global_node
    return Path(node.get_session_dir_path())


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
