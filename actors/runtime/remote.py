"""Ray's actors by name, and Ray's errors in one line."""

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

from actors import errors
from actors.errors import UserError, first_of
from actors.runtime.channel import Address

OUT_OF_MEMORY = "killed because memory ran out"
# Ray's own killing. Its text for any other death names the kernel's as one of several guesses.
LOW_ON_MEMORY = re.compile(r"NODE_OUT_OF_MEMORY|running low on memory")

RESTARTS = 10  # by Ray, of one actor
GONE = f"died {RESTARTS + 1} times; its output in Ray's session folder says why"

RETRY_S = 0.1


class Actor:
    """Calls a Ray actor by its name, from any process of the run.

    In another process it is looked up by name, as a handle would not outlive a restart of its holder. Calls raise what
    the method raises, and RayError where the actor cannot be reached.

    name: Ray's, which no other actor has. kind: `replica`, `agent` or `learner`. title: its name in messages.
    """

    def __init__(self, name: str, kind: str, title: str, handle: Any = None) -> None:
        self.name = name
        self.kind = kind
        self.title = title
        self._handle = handle

    def __reduce__(self) -> tuple[Any, ...]:
        return Actor, (self.name, self.kind, self.title)

    async def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the actor."""
        try:
            return await getattr(self.handle, method).remote(*arguments)
        except RayTaskError as error:
            # The error itself, so that callers can tell errors by their class.
            raise error.cause from error

    async def address(self) -> Address:
        """Waits until the actor is up and returns its service's address. Raises RayError when Ray starts it no more."""
        while True:
            try:
                address: Address = await self.call("address")
                return address
            except ActorUnavailableError:
                # A socket reports a death before Ray has noticed it.
                await asyncio.sleep(RETRY_S)

    async def restart(self) -> None:
        """Ends the actor's process, and has Ray start another one."""
        # In a thread, as the call may block, and the event loop watches other actors.
        await asyncio.to_thread(lambda: ray.kill(self.handle, no_restart=False))

    async def given_up(self, error: Exception) -> bool:
        """True where a call failed because Ray starts the actor no more."""
        if not isinstance(error, OutOfMemoryError):
            return isinstance(error, ActorDiedError)
        try:  # of either kind; only an actor that may come back keeps its name
            await asyncio.to_thread(ray.get_actor, self.name)
        except ValueError:
            return True
        return False

    @property
    def handle(self) -> Any:
        """Ray's handle, which keeps the actor alive in the process that launched it. Raises ActorDiedError."""
        if self._handle is None:
            try:
                self._handle = ray.get_actor(self.name)
            except ValueError as error:
                raise ActorDiedError(f"{self.name} {GONE}") from error
        return self._handle


def own_host() -> str:
    """Returns the address by which other nodes of the cluster reach this one."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def one_line(error: Exception) -> str:
    """Returns an error's text without Ray's traceback, and without its type where the text is enough."""
    return reason(error) if isinstance(error, RayError) else errors.one_line(error)


def reason(error: BaseException) -> str:
    """Returns why something failed, as `errors.reason`, without Ray's traceback and advice."""
    if isinstance(error, BaseExceptionGroup):
        error = first_of(UserError, error) or first_of(Exception, error) or error
    if isinstance(error, RayTaskError):
        # Its own text is the traceback in the other process.
        error = error.cause
    if not isinstance(error, RayActorError):
        return errors.reason(error)
    # Ray's text has many lines: one with the class, and the last with the reason and with advice.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    classes = [line.removeprefix("class_name: ") for line in lines if line.startswith("class_name: ")]
    text = ": ".join([*classes, lines[-1].partition(" Some common causes")[0]])
    return f"{type(error).__name__}: {text}".rstrip(": ")


def loss(error: Exception) -> str:
    """Returns how a process was lost, in a few words."""
    if isinstance(error, OutOfMemoryError) or (isinstance(error, RayError) and LOW_ON_MEMORY.search(str(error))):
        return OUT_OF_MEMORY
    return type(error).__name__ if isinstance(error, RayError) else str(error)
