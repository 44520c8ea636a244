"""Items that are ready together travel as one call; their results travel back as they finish.

A call of a Ray actor costs about a millisecond whatever it carries, so the sender collects all that is ready in one
turn of its event loop (`Batcher`), and the receiver answers with whatever has finished since its last answer
(`Desk`). No item waits for an unrelated one, and nothing is ever held back to fill a batch. An item whose caller
gives up is dropped on the receiver's side too: nothing goes on working for nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Results = list[tuple[int, R | Exception]]
Send = Callable[[int, list[T]], AsyncIterator[Results[R]]]


class _Sent(Generic[T, R]):
    """An item on its way, and where it is: `call` is None until it was sent."""

    __slots__ = ("call", "future", "index", "item")

    def __init__(self, item: T, future: asyncio.Future[R]) -> None:
        self.item = item
        self.future = future
        self.call: int | None = None
        self.index = 0


class Batcher(Generic[T, R]):
    """The sender's side. `send` makes one call with a batch and yields lists of (index in the batch, result).

    An exception as a result is raised to that item's caller only; one raised by `send` itself (the actor died)
    reaches every caller that is still waiting for that batch. `limit` bounds the items of one call. `drop` is told
    of items that were sent and that nobody waits for any more, as (number of the call, index).
    """

    def __init__(
        self,
        send: Send[T, R],
        limit: int = 256,
        drop: Callable[[list[tuple[int, int]]], None] = lambda places: None,
    ) -> None:
        self._send = send
        self._limit = limit
        self._drop = drop
        self._ready: list[_Sent[T, R]] = []
        self._dropped: list[tuple[int, int]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._number = 0
        self.pending = 0

    async def __call__(self, item: T) -> R:
        loop = asyncio.get_running_loop()
        if not self._ready:
            loop.call_soon(self._flush)
        sent: _Sent[T, R] = _Sent(item, loop.create_future())
        self._ready.append(sent)
        self.pending += 1
        try:
            return await sent.future
        except asyncio.CancelledError:
            if sent.call is not None:
                if not self._dropped:
                    loop.call_soon(self._flush_dropped)
                self._dropped.append((sent.call, sent.index))
            raise
        finally:
            self.pending -= 1

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        ready = [sent for sent in ready if not sent.future.done()]
        for start in range(0, len(ready), self._limit):
            batch = ready[start : start + self._limit]
            self._number += 1
            for index, sent in enumerate(batch):
                sent.call, sent.index = self._number, index
            call = asyncio.get_running_loop().create_task(self._call(self._number, batch))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    def _flush_dropped(self) -> None:
        dropped, self._dropped = self._dropped, []
        self._drop(dropped)

    async def _call(self, number: int, batch: list[_Sent[T, R]]) -> None:
        error: Exception = RuntimeError("the call ended without a result for this item")
        try:
            async for results in self._send(number, [sent.item for sent in batch]):
                for index, result in results:
                    future = batch[index].future
                    if future.done():
                        continue
                    if isinstance(result, Exception):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
        except Exception as raised:
            error = raised
        for sent in batch:
            if not sent.future.done():
                sent.future.set_exception(error)


class _Call(Generic[R]):
    """One call's results as they come in; `left` items have none yet."""

    __slots__ = ("jobs", "left", "news", "results")

    def __init__(self) -> None:
        self.jobs: list[_Job[R]] = []
        self.left = 0
        self.news = asyncio.Event()
        self.results: Results[R] = []


class _Job(Generic[R]):
    """One item of a call. A task that is cancelled before it has `begun` would never run, and never end its work."""

    __slots__ = ("begun", "call", "index", "over", "task")

    def __init__(self, call: _Call[R], index: int) -> None:
        self.call = call
        self.index = index
        self.begun = False
        self.over = False
        self.task: asyncio.Task[None] | None = None


class Desk(Generic[T, R]):
    """The receiver's side: works on the items of all calls, on at most `capacity` of them at once, in their order.

    What `work` raises is that item's result. `held` counts the items that came in and are not over.
    """

    def __init__(self, work: Callable[[T], Awaitable[R]], capacity: int | None = None) -> None:
        self._work = work
        self._capacity = capacity
        self._calls: dict[Hashable, _Call[R]] = {}
        self._queue: deque[tuple[_Job[R], T]] = deque()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._working = 0
        self.held = 0

    async def stream(
        self, key: Hashable, items: Sequence[T], refused: Results[R] | None = None
    ) -> AsyncIterator[Results[R]]:
        """Work on all items and yield (index, result) lists as results come in. Closing it drops what is unfinished.

        `key` names the call, for `drop`; `refused` are results that are known already, and come first.
        """
        call: _Call[R] = _Call()
        call.jobs = [_Job(call, index) for index in range(len(items))]
        call.left = len(items)
        call.results = refused or []
        self.held += len(items)
        self._calls[key] = call
        self._queue.extend(zip(call.jobs, items, strict=True))
        self._start()
        try:
            while call.left or call.results:
                if not call.results:
                    call.news.clear()
                    await call.news.wait()
                    await asyncio.sleep(0)  # what was started when the first of these ended may be over as well
                results, call.results = call.results, []
                if results:
                    yield results
        finally:
            del self._calls[key]
            for job in call.jobs:
                self._cancel(job)

    def drop(self, key: Hashable, index: int | None = None) -> None:
        """Stop working on one item of a call, or on all: nobody waits for it. An unknown call is over already."""
        call = self._calls.get(key)
        if call is not None:
            for job in call.jobs if index is None else call.jobs[index : index + 1]:
                self._cancel(job)

    def fail(self, error: Exception) -> None:
        """Every item that is not over ends with this error, at once."""
        for call in self._calls.values():
            for job in call.jobs:
                if not job.over:
                    call.results.append((job.index, error))
                    self._cancel(job)

    @property
    def calls(self) -> list[Hashable]:
        """The calls that are being answered."""
        return list(self._calls)

    def _start(self) -> None:
        while self._queue and (self._capacity is None or self._working < self._capacity):
            job, item = self._queue.popleft()
            if not job.over:
                self._working += 1
                job.task = asyncio.create_task(self._run(job, item))

    async def _run(self, job: _Job[R], item: T) -> None:
        try:
            if job.over:
                return
            job.begun = True
            result: R | Exception = await self._work(item)
        except Exception as error:
            result = error
        finally:
            self._working -= 1
            self._start()
        if not job.over:
            job.call.results.append((job.index, result))
            self._end(job)

    def _end(self, job: _Job[R]) -> None:
        job.over = True
        job.call.left -= 1
        job.call.news.set()
        self.held -= 1

    def _cancel(self, job: _Job[R]) -> None:
        if job.over:
            return
        self._end(job)
        if job.task is not None and job.begun:
            self._cancelled.add(job.task)
            job.task.add_done_callback(self._cancelled.discard)
            job.task.cancel()
