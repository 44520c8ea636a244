"""Objects with a state in a Ray actor: when its process is lost, another one goes on where that one was."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError

from actors.errors import ClusterError
from actors.runtime.remote import GONE, RETRY_S, result, started_no_more

Answer = tuple[Any, bytes | None]
"""What a method returned, and the state after it where that is another than before."""


class StatefulActor:
    """The process of objects, by name, which know nothing of each other. An object's `load` takes back what its `state`
    gave.

    The method of the group `pulse` runs in a thread of its own, so that it answers during a long computation.
    """

    def __init__(self, made: Mapping[str, Callable[[], Any]]) -> None:
        self._objects = {name: _Held(make()) for name, make in made.items()}
        self._incarnation = uuid.uuid4().hex

    def ready(self) -> None:
        """Returns once the actor is up."""

    @ray.method(concurrency_group="pulse")
    def pulse(self) -> tuple[float, str]:
        """0 seconds of standing still, for it answers; and a name that this process alone has."""
        return 0.0, self._incarnation

    def call(
        self, name: str, number: int, after: int, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Answer | None:
        """See `_Held`."""
        return self._objects[name].call(number, after, method, args, kwargs)

    def restore(self, name: str, number: int, state: bytes | None) -> None:
        self._objects[name].restore(number, state)


class _Held:
    """One object in its process.

    Calls are numbered, and each says after which one it comes. A process that is not in the state after that one, as it
    was started since, does nothing: it is given the state first. A call that comes again, for its answer was lost on
    the way, is answered and not done again.
    """

    def __init__(self, held: Any) -> None:
        self._object = held
        self._last = 0
        self._answer: Answer | None = None
        self._new = self._saved = self._state()

    def call(
        self, number: int, after: int, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Answer | None:
        """The method's answer; None where this process lacks the state after call `after`. Raises what it raises."""
        if number == self._last:
            return self._answer
        if after != self._last:
            return None
        value = getattr(self._object, method)(*args, **kwargs)
        before, self._saved = self._saved, self._state()
        self._last, self._answer = number, (value, None if self._saved == before else self._saved)
        return self._answer

    def restore(self, number: int, state: bytes | None) -> None:
        """Takes over the state after call `number`; None for that of a new object."""
        self._saved = self._new if state is None else state
        self._object.load(pickle.loads(self._saved))
        self._last, self._answer = number, None

    def _state(self) -> bytes:
        return pickle.dumps(self._object.state(), pickle.HIGHEST_PROTOCOL)


class StatefulObject:
    """The methods of such an object as coroutines, which are called one after another. `actor` is for messages.

    A call whose process is lost is made again once there is another one. Nothing is lost with it, for the state comes
    back with every answer after which it is another; and the same call in the same state gives the same answer.

    A call raises what the method raises, and ClusterError where the process is started no more.
    """

    def __init__(self, actor: str, handle: Any, name: str) -> None:
        self._actor = actor
        self._handle = handle
        self._name = name
        self._turn = asyncio.Lock()
        self._number = 0
        self._after = 0
        self._state: bytes | None = None

    async def state(self) -> Any:
        """What the object's own `state` gives now. Without a call where a call before has brought it."""
        async with self._turn:
            return await self._call("state", (), {}) if self._state is None else pickle.loads(self._state)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with self._turn:
                return await self._call(method, args, kwargs)

        return call

    async def _call(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self._number += 1
        while True:
            try:
                answer = await result(
                    self._handle.call.remote(self._name, self._number, self._after, method, args, kwargs)
                )
                if answer is not None:
                    break
                await result(self._handle.restore.remote(self._name, self._after, self._state))
            except (RayActorError, OutOfMemoryError, NodeDiedError) as error:
                if await started_no_more(self._handle, error):
                    raise ClusterError(f"{self._actor}: its process {GONE}") from error
                await asyncio.sleep(RETRY_S)  # another process, or node, is on its way
        value, state = answer
        # Not before: a call that was cancelled is undone by the next one, which comes after the one before it.
        self._after = self._number
        self._state = self._state if state is None else state
        return value
