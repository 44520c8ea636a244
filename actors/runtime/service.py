"""Works on the items that clients in other processes send. Both hops and the learners use it."""

import asyncio
import secrets
import traceback
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from typing import Any, Generic, TypeVar

from actors.errors import AgoraError
from actors.runtime.channel import KEY_BYTES, Address, Connection, sendable

T = TypeVar("T")
R = TypeVar("R")

STRANGERS = 256  # connections without a key at once: more would take the process's descriptors


class Service(Generic[T, R]):
    """Works on the items of clients that have its key, in the order of arrival.

    At most `capacity` items are worked on at once; the others wait in one work queue. An item whose caller gave up,
    or whose connection is lost, is dropped and its work cancelled.

    work: gives an item's result. What it raises becomes the result, and is raised to that item's caller.
    note: takes the notes of a client, which have no answer.
    frozen: no result changes after it was sent.
    """

    def __init__(
        self,
        work: Callable[[T], Awaitable[R]],
        capacity: int | None = None,
        note: Callable[[list[Any]], None] = lambda notes: None,
        frozen: bool = True,
    ) -> None:
        self._work = work
        self.frozen = frozen
        self._turn = nullcontext() if capacity is None else asyncio.Semaphore(capacity)
        self.note = note
        self._key = secrets.token_bytes(KEY_BYTES)
        self._opening: asyncio.Task[int] | None = None
        self._server: asyncio.Server | None = None
        self._callers: dict[_Caller[T, R], None] = {}  # in the order of their arrival

    @property
    def in_flight(self) -> int:
        """Items without a result."""
        return sum(len(caller.tasks) for caller in self._callers)

    async def address(self, host: str) -> Address:
        """Returns the service's address; listens from the first call on."""

        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._listen(host))
        return Address(host, await self._opening, self._key)

    async def _listen(self, host: str) -> int:
        self._server = await asyncio.get_running_loop().create_server(self._new_connection, host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def _new_connection(self) -> Connection:
        strangers = [caller.connection for caller in self._callers if not caller.connection.accepted]
        if len(strangers) >= STRANGERS:
            strangers[0].abort()  # a client of ours sends its key at once
        caller = _Caller(self, self._key)
        self._callers[caller] = None
        return caller.connection

    def fail(self, error: Exception) -> None:
        """Ends all items with this error, at once."""
        for caller in self._callers:
            caller.results += [(id, error) for id in caller.tasks]
            caller.drop(list(caller.tasks))
            caller.send()

    def close(self) -> None:
        """Stops listening and ends all connections."""
        if self._server is not None:
            self._server.close()
        for caller in list(self._callers):
            caller.connection.abort()

    def leave(self, caller: "_Caller[T, R]") -> None:
        """Drops the items of a caller that is lost."""
        self._callers.pop(caller, None)
        caller.drop(list(caller.tasks))

    def accept(self, caller: "_Caller[T, R]", notes: list[Any], ids: list[int], items: list[tuple[int, T]]) -> None:
        """Takes a caller's notes, queues its items, and drops those of its earlier ones that have these `ids`."""
        if notes:
            self.note(notes)
        caller.drop(ids)
        for id, item in items:
            caller.tasks[id] = asyncio.get_running_loop().create_task(self._answer(caller, id, item))

    async def _answer(self, caller: "_Caller[T, R]", id: int, item: T) -> None:
        try:
            async with self._turn:
                result: R | Exception = await self._work(item)
        except Exception as error:
            # An error loses its traceback on the way to another process, but not its notes.
            if not isinstance(error, AgoraError):
                error.add_note("where it was raised:\n" + "".join(traceback.format_tb(error.__traceback__)))
            result = sendable(error)
        if caller.tasks.pop(id, None) is not None:  # it was not dropped
            caller.answer(id, result)


class _Caller(Generic[T, R]):
    """A service's end of one connection. Has the tasks of one client's items, and results that are to be sent to it."""

    def __init__(self, service: Service[T, R], key: bytes) -> None:
        self._service = service
        self.connection = Connection(
            lambda sent: service.accept(self, *sent),
            lambda _: service.leave(self),
            expected=key,
            frozen=service.frozen,
        )
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.results: list[tuple[int, R | Exception]] = []
        self._cancelled: set[asyncio.Task[None]] = set()  # until they end, as the event loop alone keeps no task

    def drop(self, ids: Iterable[int]) -> None:
        """Cancels the work on these items, unless they have a result."""
        for id in ids:
            if task := self.tasks.pop(id, None):
                self._cancelled.add(task)
                task.add_done_callback(self._cancelled.discard)
                task.cancel()

    def answer(self, id: int, result: R | Exception) -> None:
        """Sends a result, together with all others of this turn of the event loop."""
        if not self.results:
            asyncio.get_running_loop().call_soon(self.send)
        self.results.append((id, result))

    def send(self) -> None:
        """Sends the results that there are, with the number of other clients' items."""
        results = self.results
        self.results = []
        if not results:
            return
        others_in_flight = self._service.in_flight - len(self.tasks)
        try:
            self.connection.send((others_in_flight, results))
        except Exception:  # one of them cannot be pickled, and the others can
            self.connection.send((others_in_flight, [(id, sendable(result)) for id, result in results]))
