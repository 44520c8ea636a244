"""Calls of Ray actors as coroutines, and what they raise in one line."""

from __future__ import annotations

import gc
import pickle
from collections.abc import AsyncIterator, Callable
from typing import Any

from ray.exceptions import RayActorError, RayError, RayTaskError

from actors.errors import AgoraError, UserError, first_of

RESTARTS = 10
"""The times that Ray starts an agent or a replica again."""


def pack(payload: object) -> bytes:
    """Batches travel as bytes: Ray's own pickler calls back into Python for every object."""
    return pickle.dumps(payload, pickle.HIGHEST_PROTOCOL)


async def stream(method: Any, *arguments: object) -> AsyncIterator[Any]:
    """Call an actor's streaming method with its arguments packed, and yield what it yields, unpacked."""
    # Streaming: a batch's first results arrive while the rest is worked on.
    async for ref in method.options(num_returns="streaming").remote(pack(arguments)):
        yield pickle.loads(await ref)


async def result(ref: Any) -> Any:
    """The value of an ObjectRef, or what the remote code raised, as it was raised there."""
    try:
        return await ref
    except RayTaskError as error:
        # What was raised there, so that callers can tell errors by their class.
        raise error.cause from error


class RemoteObject:
    """An actor's methods as coroutines: `await remote.method(...)`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._handle, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await result(method.remote(*args, **kwargs))

        return call


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


def collect_rarely() -> None:
    """Run the garbage collector rarely: turns and messages are frozen and make no cycles, and by default a third of the
    time goes into scanning them."""
    gc.set_threshold(100_000)
