"""The sender's side of a hop: items that are ready together travel as one call."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Results = list[tuple[int, R | Exception]]
Send = Callable[[list[tuple[int, T]]], AsyncIterator[Results[R]]]

FEWEST = 2
"""Items for which a call is made before the turn of the event loop that makes them ready is over."""

SHARE = 8
"""... and the share of the items sent, an eighth, below which no call is made before that: many cost less together."""


class Batcher(Generic[T, R]):
    """Batches concurrent requests to one actor. A call of it takes one item and returns that item's result.

    What becomes ready in one turn of the event loop is sent in parts while the rest is being made, so that the actor
    begins on the first. Parts come back apart, too: were all sent at the end, discussions that begin together would go
    on in step for ever, and model, agents and sender take turns at standing still. Nothing is delayed to fill a batch,
    and no result waits for another.

    Args:
        send: makes one call with (id, item) pairs, when it is called or when the first result is asked for, and yields
            lists of (id, result) as they finish. An exception as a result is raised to that item's caller only; one
            raised by `send` itself (the actor died) reaches every caller that is still waiting for that batch. Ids are
            unique within one batcher.
        drop: is called with the ids of items that were sent and whose callers gave up.
    """

    def __init__(self, send: Send[T, R], drop: Callable[[list[int]], None] = lambda ids: None) -> None:
        self._send = send
        self._drop = drop
        self._ids = itertools.count()
        self._ready: dict[int, tuple[T, asyncio.Future[R]]] = {}
        self._sent: dict[int, asyncio.Future[R]] = {}
        self._dropped: list[int] = []
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """Items with a caller that still waits."""
        return len(self._ready) + len(self._sent)

    async def __call__(self, item: T) -> R:
        loop = asyncio.get_running_loop()
        if not self._ready:
            loop.call_soon(self._flush)  # what is left of it at the end of this turn of the event loop
        id = next(self._ids)
        future: asyncio.Future[R] = loop.create_future()
        self._ready[id] = item, future
        if len(self._ready) >= max(FEWEST, len(self._sent) // SHARE):
            self._flush()
        try:
            return await future
        except asyncio.CancelledError:
            # What was not sent yet is simply not sent.
            if id in self._sent:
                if not self._dropped:
                    loop.call_soon(self._flush_dropped)
                self._dropped.append(id)
            raise
        finally:
            self._ready.pop(id, None)
            self._sent.pop(id, None)

    def _flush(self) -> None:
        ready, self._ready = self._ready, {}
        items = []
        for id, (item, future) in ready.items():
            if not future.done():  # its caller may be cancelled already and not yet know it
                self._sent[id] = future
                items.append((id, item))
        if not items:
            return
        try:
            stream = self._send(items)
        except Exception as error:
            for id, _ in items:
                self._settle(id, error)
            return
        call = asyncio.get_running_loop().create_task(self._call(items, stream))
        # The event loop alone would not keep the task alive.
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    def _flush_dropped(self) -> None:
        dropped, self._dropped = self._dropped, []
        self._drop(dropped)

    async def _call(self, items: list[tuple[int, T]], stream: AsyncIterator[Results[R]]) -> None:
        """Gives every item its result."""
        error: Exception = RuntimeError("the call ended without a result for this item")
        try:
            async for results in stream:
                for id, result in results:
                    self._settle(id, result)
        except Exception as raised:
            error = raised
        # Those that have their result are passed by.
        for id, _ in items:
            self._settle(id, error)

    def _settle(self, id: int, result: R | Exception) -> None:
        future = self._sent.get(id)
        if future is None or future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
