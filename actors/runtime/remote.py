"""Calls of Ray actors as coroutines, and what they raise in one line."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
)

from actors.errors import AgoraError, UserError, first_of
from actors.runtime.channel import Address

OUT_OF_MEMORY = "killed because memory ran out"
# Ray's own killing. Its text for any other death names the kernel's as one of several guesses.
LOW_ON_MEMORY = re.compile(r"NODE_OUT_OF_MEMORY|running low on memory")

RESTARTS = 10
"""The times that Ray starts an actor again."""

GONE = f"died {RESTARTS + 1} times; its output in Ray's session folder says why"

RETRY_S = 0.1


def own_host() -> str:
    """The address by which other nodes of the cluster reach this one."""
    host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return host


async def started_no_more(handle: Any, error: Exception) -> bool:
    """Whether a call failed because Ray has given the actor up."""
    # Of one that was killed for memory it raises the same whether it starts it again or not.
    return isinstance(error, ActorDiedError) or (isinstance(error, OutOfMemoryError) and (await deaths(handle))[1])


async def deaths(handle: Any) -> tuple[int, bool]:
    """How often an actor's process has died, by Ray's control store, and whether it is started no more.

    The errors of calls do not tell a process that has died from one that cannot be reached yet.
    """
    row = await asyncio.to_thread(_actor_row, handle)
    from ray.core.generated import gcs_pb2

    actor = gcs_pb2.ActorTableData.FromString(row)  # type: ignore[attr-defined]
    dead = bool(actor.state == gcs_pb2.ActorTableData.DEAD)  # type: ignore[attr-defined]
    return actor.num_restarts + dead, dead


def _actor_row(handle: Any) -> bytes:
    from ray._private.state import state

    row: bytes | None = state._connect_and_get_accessor().get_actor_info(handle._actor_id)
    return row or b""


async def located(handle: Any) -> Address:
    """Where an actor listens, once it is up. Raises RayError when Ray starts it no more."""
    while True:
        try:
            address: Address = await handle.address.remote()
            return address
        except ActorUnavailableError:
            # Its socket tells of a death before Ray has noticed it.
            await asyncio.sleep(RETRY_S)


async def result(ref: Any) -> Any:
    """The value of an ObjectRef, or what the remote code raised, as it was raised there."""
    try:
        return await ref
    except RayTaskError as error:
        # What was raised there, so that callers can tell errors by their class.
        raise error.cause from error


def one_line(error: Exception) -> str:
    """An error's text without the traceback that Ray adds to it, and without its type where the text says enough."""
    speaks_for_itself = isinstance(error, (ValueError, OSError, ImportError)) and not isinstance(error, RayError)
    return _text(error) if speaks_for_itself else reason(error)


def reason(error: BaseException) -> str:
    """Why something failed, in one line: an error's type and text, or the text alone of one raised on purpose.

    A group of errors (from discussions side by side) is reduced to its first one.
    """
    if isinstance(error, BaseExceptionGroup):
        error = first_of(UserError, error) or first_of(Exception, error) or error
    if isinstance(error, RayTaskError):
        # Its own text is the traceback in the other process.
        error = error.cause
    text = _text(error)
    # The type says more than the text of an unexpected error, which may even be empty.
    return text if isinstance(error, AgoraError) else f"{type(error).__name__}: {text}".rstrip(": ")


def _text(error: BaseException) -> str:
    if isinstance(error, RayActorError):
        # Ray's text has many lines: the class in one of them, and in the last the reason, with advice of its own.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        classes = [line.removeprefix("class_name: ") for line in lines if line.startswith("class_name: ")]
        return ": ".join([*classes, lines[-1].partition(" Some common causes")[0]])
    return " ".join(str(error).split())


def loss(error: RayError) -> str:
    """How a process was lost, in a few words."""
    if isinstance(error, OutOfMemoryError) or LOW_ON_MEMORY.search(str(error)):
        return OUT_OF_MEMORY
    return type(error).__name__
