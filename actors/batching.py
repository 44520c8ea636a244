"""Items that are ready together travel as one call; their results travel back as they finish.

A call of a Ray actor costs about a millisecond whatever it carries, so the sender collects all that is ready in one
turn of its event loop (`Batcher`), and the receiver answers with whatever has finished since its last answer
(`stream`). No item waits for an unrelated one, and nothing is ever held back to fill a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Send = Callable[[list[T]], AsyncIterator[list[tuple[int, R | Exception]]]]


class Batcher(Generic[T, R]):
    """The sender's side. `send` makes one call with a batch and yields lists of (index in the batch, result).

    An exception as a result is raised to that item's caller only; one raised by `send` itself (the actor died)
    reaches every caller that is still waiting for that batch. `limit` bounds the items of one call.
    """

    def __init__(self, send: Send[T, R], limit: int = 256) -> None:
        self._send = send
        self._limit = limit
        self._ready: list[tuple[T, asyncio.Future[R]]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self.pending = 0

    async def __call__(self, item: T) -> R:
        loop = asyncio.get_running_loop()
        if not self._ready:
            loop.call_soon(self._flush)
        future: asyncio.Future[R] = loop.create_future()
        self._ready.append((item, future))
        self.pending += 1
        try:
            return await future
        finally:
            self.pending -= 1

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        for start in range(0, len(ready), self._limit):
            call = asyncio.get_running_loop().create_task(self._call(ready[start : start + self._limit]))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        error: Exception = RuntimeError("the call ended without a result for this item")
        try:
            async for results in self._send([item for item, _ in batch]):
                for index, result in results:
                    future = batch[index][1]
                    if future.done():
                        continue
                    if isinstance(result, Exception):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
        except Exception as raised:
            error = raised
        for _, future in batch:
            if not future.done():
                future.set_exception(error)


async def stream(
    work: Callable[[T], Awaitable[R]], items: Sequence[T]
) -> AsyncIterator[list[tuple[int, R | Exception]]]:
    """The receiver's side: work on all items at once and yield (index, result) lists as results come in.

    What `work` raises is that item's result. Closing the iterator cancels what is unfinished.
    """
    finished: asyncio.Queue[tuple[int, R | Exception]] = asyncio.Queue()

    async def run(index: int, item: T) -> None:
        try:
            finished.put_nowait((index, await work(item)))
        except Exception as error:
            finished.put_nowait((index, error))

    tasks = [asyncio.create_task(run(index, item)) for index, item in enumerate(items)]
    try:
        left = len(items)
        while left:
            results = [await finished.get()]
            while not finished.empty():
                results.append(finished.get_nowait())
            left -= len(results)
            yield results
    finally:
        for task in tasks:
            task.cancel()
