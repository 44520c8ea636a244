"""Serves objects with a state in another process. A new process continues with the lost one's state."""

import asyncio
import pickle
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError

from actors.errors import ClusterError
from actors.runtime.channel import ChannelLost
from actors.runtime.process import Process
from actors.runtime.remote import GONE, RETRY_S, Actor
from actors.runtime.service_client import Client

Answer = tuple[Any, bytes | None]  # a method's result, and the state after it where the method changed that


class MethodCall(NamedTuple):
    """Call `number` of an object's method, which comes after call `after`.

    restore: whether it brings the state after that one; `state` is None for that of a new object.
    """

    name: str
    number: int
    after: int
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    restore: bool = False
    state: bytes | None = None


class LearnerProcess(Process):
    """The process of objects, by name, which do not know each other. An object's `load` takes what its `state` gave."""

    hangs = False  # a step of a learner may compute for minutes
    frozen = False  # an answer may be an array that the next step changes

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(capacity=1)
        self._makers = makers
        self._objects: dict[str, Stateful] = {}

    async def open(self) -> None:
        self._objects = {name: Stateful(make()) for name, make in self._makers.items()}

    async def serve(self, item: MethodCall) -> Answer | None:
        await self.ready()
        return self._objects[item.name].call(item)


class Stateful:
    """One object in its process.

    Calls are numbered, and each names the one it comes after. A process that is not in the state after that one, as it
    was started since, does nothing: it needs the state first. A call that comes again, as its answer was lost on the
    way, is answered without being made again.
    """

    def __init__(self, thing: Any) -> None:
        self._object = thing
        self._last = 0
        self._answer: Answer | None = None
        self._new = self._state()
        self._saved = self._new

    def call(self, call: MethodCall) -> Answer | None:
        """Returns the method's answer; None where this process lacks the state. Raises what the method raises."""
        if call.number == self._last:
            return self._answer
        if call.after != self._last:
            if not call.restore:
                return None
            self._saved = self._new if call.state is None else call.state
            self._object.load(pickle.loads(self._saved))
            self._last = call.after
        value = getattr(self._object, call.method)(*call.args, **call.kwargs)
        state = self._state()
        self._answer = (value, None if state == self._saved else state)
        self._saved = state
        self._last = call.number
        return self._answer

    def _state(self) -> bytes:
        return pickle.dumps(self._object.state(), pickle.HIGHEST_PROTOCOL)


class RemoteStateful:
    """The methods of such an object as coroutines, called one after another.

    A call whose process is lost is made again once there is another one. The state comes back with every answer that
    changes it, and the same call in the same state gives the same answer. A call raises what the method raises, and
    ClusterError where the process is started no more.
    """

    def __init__(self, name: str, actor: Actor, client: Client[MethodCall, Answer | None]) -> None:
        self._name = name
        self._actor = actor
        self._client = client
        self._turn = asyncio.Lock()
        self._number = 0
        self._after = 0
        self._state: bytes | None = None

    async def state(self) -> Any:
        """The object's own `state` as it is now. Needs no call where an earlier one has brought it."""
        async with self._turn:
            if self._state is None:
                return await self._call("state", (), {})
            return pickle.loads(self._state)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with self._turn:
                return await self._call(method, args, kwargs)

        return call

    async def _call(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self._number += 1
        call = MethodCall(self._name, self._number, self._after, method, args, kwargs)
        while True:
            try:
                answer = await self._client(call)
                if answer is not None:
                    break
                call = call._replace(restore=True, state=self._state)
            except (ChannelLost, RayActorError, OutOfMemoryError, NodeDiedError) as error:
                if await self._actor.given_up(error):
                    raise ClusterError(f"{self._actor.title}: its process {GONE}") from error
                await asyncio.sleep(RETRY_S)  # another process, or node, is on its way
        value, state = answer
        # Not before: a call that was cancelled is undone by the next one, which comes after the one before it.
        self._after = self._number
        if state is not None:
            self._state = state
        return value
