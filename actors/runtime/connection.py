"""Connects this process to Ray, with errors of one line."""

from __future__ import annotations

import logging
import socket
import warnings

import ray

from actors.errors import ClusterError
from actors.signals import held_back


def connect(address: str | None) -> None:
    """Join the Ray cluster at an address, or start a local one where there is none.

    Raises:
        ClusterError: it does not answer.
    """
    if address and address != "auto":
        _check_answers(address)
    try:
        # Ray crashes the process when it is interrupted while it connects.
        with warnings.catch_warnings(), held_back():
            # Ray forks only to start another program at once, which LanceDB, where it is loaded, cannot know.
            warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
            ray.init(
                address=address or "local",
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except Exception as error:  # Ray raises a plain Exception for a node that does not come up in time
        ray.shutdown()
        raise _no_answer(address, (str(error).splitlines() or [type(error).__name__])[0]) from error
    except BaseException:
        ray.shutdown()
        raise


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
    return ClusterError(
        f"Ray at ray.address={address!r} does not answer ({reason}): "
        "start one with `ray start --head`, or leave ray.address out to use a local one"
    )
