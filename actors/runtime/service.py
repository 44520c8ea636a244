"""Works on the items that clients in other processes send. Both hops and the learners use it."""

import asyncio
import secrets
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from actors.errors import AgoraError
from actors.runtime.channel import KEY_BYTES, Address, Connection, sendable

T = TypeVar("T")
R = TypeVar("R")

STRANGERS = 256  # connections without a key at once: more would take the process's descriptors


@dataclass(slots=True, eq=False)
class _Job(Generic[T, R]):
    """One item of a caller."""

    caller: "_Caller[T, R]"
    id: int
    item: T
    over: bool = False
    task: asyncio.Task[None] | None = None


class Service(Generic[T, R]):
    """Works on the items of clients that have its key, in the order of arrival.

    At most `capacity` items are worked on at once; the others wait in one work queue. An item whose caller gave up,
    or whose connection is lost, is dropped and its work cancelled. `in_flight` counts the items without a result.

    work: gives an item's result. What it raises becomes the result, and is raised to that item's caller.
    note: takes the notes of a client, which have no answer.
    """

    def __init__(
        self,
        work: Callable[[T], Awaitable[R]],
        capacity: int | None = None,
        note: Callable[[list[Any]], None] = lambda notes: None,
    ) -> None:
        self._work = work
        self._capacity = capacity
        self.note = note
        self._key = secrets.token_bytes(KEY_BYTES)
        self._opening: asyncio.Task[int] | None = None
        self._server: asyncio.Server | None = None
        self._callers: dict[_Caller[T, R], None] = {}  # in the order of their arrival
        self._waiting: deque[_Job[T, R]] = deque()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._working = 0
        self.in_flight = 0

    async def address(self, host: str) -> Address:
        """Returns the service's address; listens from the first call on."""

        def called() -> Connection:
            strangers = [each.connection for each in self._callers if not each.connection.accepted]
            if len(strangers) >= STRANGERS:
                strangers[0].abort()  # a client of ours sends its key at once
            made = _Caller(self, self._key)
            self._callers[made] = None
            return made.connection

        async def listen() -> int:
            self._server = await asyncio.get_running_loop().create_server(called, host, 0)
            port: int = self._server.sockets[0].getsockname()[1]
            return port

        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(listen())
        return Address(host, await self._opening, self._key)

    def fail(self, error: Exception) -> None:
        """Ends all items with this error, at once."""
        for caller in self._callers:
            for job in list(caller.jobs.values()):
                caller.results.append((job.id, error))
                self._cancel(job)
            caller.send()

    def close(self) -> None:
        """Stops listening and ends all connections."""
        if self._server is not None:
            self._server.close()
        for caller in list(self._callers):
            caller.connection.abort()

    def accept(self, caller: "_Caller[T, R]", ids: list[int], items: list[tuple[int, T]]) -> None:
        """Queues a caller's items, and drops those of its earlier ones that have these `ids`."""
        for id in ids:
            if id in caller.jobs:
                self._cancel(caller.jobs[id])
        for id, item in items:
            job = caller.jobs[id] = _Job(caller, id, item)
            self._waiting.append(job)
        self.in_flight += len(items)
        self._start()

    def leave(self, caller: "_Caller[T, R]") -> None:
        """Drops the items of a caller that is lost."""
        self._callers.pop(caller, None)
        for job in list(caller.jobs.values()):
            self._cancel(job)

    def _start(self) -> None:
        while self._waiting and (self._capacity is None or self._working < self._capacity):
            job = self._waiting.popleft()
            if not job.over:
                self._working += 1
                asyncio.get_running_loop().create_task(self._run(job))  # kept alive by the loop until it has begun

    async def _run(self, job: _Job[T, R]) -> None:
        try:
            if job.over:
                return
            job.task = asyncio.current_task()
            result: R | Exception = await self._work(job.item)
        except Exception as error:
            # An error loses its traceback on the way to another process, but not its notes.
            if not isinstance(error, AgoraError):
                error.add_note("where it was raised:\n" + "".join(traceback.format_tb(error.__traceback__)))
            result = sendable(error)
        finally:
            self._working -= 1
            self._start()
        if not job.over:
            self._end(job)
            job.caller.answer(job.id, result)

    def _end(self, job: _Job[T, R]) -> None:
        job.over = True
        self.in_flight -= 1
        del job.caller.jobs[job.id]

    def _cancel(self, job: _Job[T, R]) -> None:
        self._end(job)
        # A task that is cancelled before it has begun never runs, and `_working` would stay too high.
        if job.task is not None:
            self._cancelled.add(job.task)
            job.task.add_done_callback(self._cancelled.discard)
            job.task.cancel()


class _Caller(Generic[T, R]):
    """A service's end of one connection. Has the items of one client, and results that are to be sent to it."""

    def __init__(self, service: Service[T, R], key: bytes) -> None:
        self._service = service
        self.connection = Connection(self._receive, lambda _: service.leave(self), expected=key)
        self.jobs: dict[int, _Job[T, R]] = {}
        self.results: list[tuple[int, R | Exception]] = []

    def answer(self, id: int, result: R | Exception) -> None:
        """Sends a result, together with all others of this turn of the event loop."""
        if not self.results:
            asyncio.get_running_loop().call_soon(self.send)
        self.results.append((id, result))

    def send(self) -> None:
        """Sends the results that there are, with the number of other clients' items."""
        results, self.results = self.results, []
        if not results:
            return
        others = self._service.in_flight - len(self.jobs)
        try:
            self.connection.send((others, results))
        except Exception:  # one of them cannot be pickled, and the others can
            self.connection.send((others, [(id, sendable(result)) for id, result in results]))

    def _receive(self, value: tuple[list[Any], list[int], list[tuple[int, T]]]) -> None:
        notes, dropped, items = value
        if notes:
            self._service.note(notes)
        self._service.accept(self, dropped, items)
