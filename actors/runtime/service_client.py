"""Calls a service in another process. Both hops and the learners use it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from actors.runtime import channel
from actors.runtime.channel import Address, ChannelLost, Connection

T = TypeVar("T")
R = TypeVar("R")

# Items of a part that is sent before the event loop's turn ends. In parts of 4 an item costs a third more, as each part
# finds the receiver's caches cold. With parts of 32, the sender works for so long that receivers wait for it.
FEWEST = 16
SHARE = 8  # an eighth of the items in flight has to be ready for that: many items cost less together


class Client(Generic[T, R]):
    """Sends items to a service and returns their results: `await client(item)`.

    Items that become ready in one turn of the event loop are sent in parts while the rest is being made, so that the
    service starts on the first. If all were sent at the end, discussions that begin together would stay in step, and
    model, agents and sender would take turns at waiting. No item is delayed to fill a part, and no result waits for
    another.

    The connection opens with the first item, and again after it was lost.

    locate: finds out where the service listens now.
    lost: makes the error that callers get, from a ChannelLost or from what `locate` raised.
    frozen: no item changes after it was sent.
    """

    def __init__(
        self,
        locate: Callable[[], Awaitable[Address]],
        lost: Callable[[Exception], Exception] = lambda error: error,
        frozen: bool = True,
    ) -> None:
        self._locate = locate
        self._lost = lost
        self._frozen = frozen
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[R]] = {}
        self._ready: dict[int, T] = {}  # waiting, and not sent yet
        self._notes: list[Any] = []
        self._dropped: list[int] = []
        self._others_in_flight = 0
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Items whose callers still wait."""
        return len(self._waiting)

    @property
    def load(self) -> int:
        """Items of this client, and those of others at the time of the service's last result."""
        return self.pending + self._others_in_flight

    async def __call__(self, item: T) -> R:
        """The item's result. Raises what the service's work raises, and what `lost` makes."""
        loop = asyncio.get_running_loop()
        if not self._ready:
            loop.call_soon(self._flush)  # whatever is left at the end of this turn of the event loop
        id = next(self._ids)
        future: asyncio.Future[R] = loop.create_future()
        self._waiting[id] = future
        self._ready[id] = item
        in_flight = len(self._waiting) - len(self._ready)
        if len(self._ready) >= max(FEWEST, in_flight // SHARE):
            self._flush()
        try:
            return await future
        except asyncio.CancelledError:
            if id not in self._ready:
                if not self._dropped:
                    loop.call_soon(self._flush)
                self._dropped.append(id)
            raise
        finally:
            self._ready.pop(id, None)
            del self._waiting[id]

    def note(self, note: Any) -> None:
        """Sends something that has no answer, together with the next items."""
        self._notes.append(note)

    def close(self) -> None:
        """Sends the notes that are left and ends the connection, if there is one. A later item opens it again."""
        if self._connection is not None:
            if self._notes:
                self._send([])
            self._connection.close()
        self._notes.clear()

    def _flush(self) -> None:
        if not self._ready and not self._dropped:
            return
        if self._connection is None:
            if self._connecting is None or self._connecting.done():  # the event loop of an earlier one may have ended
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        # A caller may be cancelled and not know it yet.
        items = [(id, item) for id, item in self._ready.items() if not self._waiting[id].done()]
        self._ready = {}
        try:
            self._send(items)
        except Exception as error:  # an item that cannot be pickled
            for id, _ in items:
                self._resolve(id, error)

    def _send(self, items: list[tuple[int, T]]) -> None:
        assert self._connection is not None
        self._connection.send((self._notes, self._dropped, items))
        # Not before: an item that cannot be pickled takes none of them along.
        self._notes = []
        self._dropped = []

    async def _connect(self) -> None:
        """Opens the connection, sends what waits for it, and ends it with this task."""
        loop = asyncio.get_running_loop()
        closed: asyncio.Future[str] = loop.create_future()

        def on_lost(reason: str) -> None:
            if not closed.done():
                closed.set_result(reason)

        connection = None
        try:
            address = await self._locate()
            async with asyncio.timeout(channel.GONE_S):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._receive, on_lost, key=address.key, frozen=self._frozen),
                    address.host,
                    address.port,
                )
            self._connection = connection
            self._flush()
            error: Exception = ChannelLost(await closed)
        except OSError as raised:  # a TimeoutError is one, and has no text
            error = ChannelLost(str(raised) or "it does not answer")
        except Exception as raised:
            error = raised
        finally:
            # The event loop cancels this task when it ends, which alone would leave the socket open.
            self._connection = self._connecting = None
            if connection is not None:
                connection.abort()
        self._dropped.clear()
        for id in list(self._waiting):
            # Without a connection all are ready.
            if connection is None or id not in self._ready:
                self._resolve(id, self._lost(error))
        loop.call_soon(self._flush)  # what has become ready since

    def _receive(self, value: tuple[int, list[tuple[int, R | Exception]]]) -> None:
        self._others_in_flight, results = value
        for id, result in results:
            self._resolve(id, result)

    def _resolve(self, id: int, result: R | Exception) -> None:
        future = self._waiting.get(id)
        if future is not None and not future.done():
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
