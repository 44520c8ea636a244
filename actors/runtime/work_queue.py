"""The receiver's side of a hop: works on what senders' batches bring, and streams results back as they finish."""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from actors.errors import AgoraError
from actors.runtime.batching import Results

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Stream(Generic[R]):
    """One call under way: results that its sender has not had yet, and the number of items still without one."""

    results: Results[R]
    left: int
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class _Job(Generic[T, R]):
    """One item of a call."""

    stream: _Stream[R]
    sender: str
    id: int
    item: T
    over: bool = False
    task: asyncio.Task[None] | None = None


class WorkQueue(Generic[T, R]):
    """Works on the items of all calls in the order in which they come, on at most `capacity` of them at once.

    What `work` raises is that item's result. An item is known by its sender and its id there. One whose sender gave up
    is dropped, and its work cancelled. `in_flight` counts items that are not over, `streams` calls under way.
    """

    def __init__(self, work: Callable[[T], Awaitable[R]], capacity: int | None = None) -> None:
        self._work = work
        self._capacity = capacity
        self._jobs: dict[str, dict[int, _Job[T, R]]] = {}
        self._waiting: deque[_Job[T, R]] = deque()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._working = 0
        self.in_flight = 0
        self.streams = 0

    def in_flight_of(self, sender: str) -> int:
        """Items of one sender that are not over."""
        return len(self._jobs.get(sender, ()))

    async def stream(
        self, sender: str, items: Sequence[tuple[int, T]], refused: Results[R] | None = None
    ) -> AsyncIterator[Results[R]]:
        """Work on all items and yield (id, result) lists as results come in, `refused` ones first.

        Closing it drops what is unfinished.
        """
        stream: _Stream[R] = _Stream(refused or [], len(items))
        jobs = [_Job(stream, sender, id, item) for id, item in items]
        if jobs:
            self._jobs.setdefault(sender, {}).update((job.id, job) for job in jobs)
        self._waiting.extend(jobs)
        self.in_flight += len(jobs)
        self.streams += 1
        self._start()
        try:
            while stream.left or stream.results:
                if not stream.results:
                    stream.changed.clear()
                    await stream.changed.wait()
                    # What was started when the first of these ended may be over as well, and then travels along.
                    await asyncio.sleep(0)
                results, stream.results = stream.results, []
                if results:
                    yield results
        finally:
            self.streams -= 1
            for job in jobs:
                self._cancel(job)

    def drop(self, sender: str, ids: Iterable[int] | None = None) -> None:
        """Stop working on these items of a sender, or on all of them. Those that are over are passed by."""
        jobs = self._jobs.get(sender, {})
        for id in list(jobs) if ids is None else ids:
            if id in jobs:
                self._cancel(jobs[id])

    def fail(self, error: Exception) -> None:
        """End every item that is not over with this error, at once."""
        for jobs in list(self._jobs.values()):
            for job in list(jobs.values()):
                job.stream.results.append((job.id, error))
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
            # An error leaves its traceback behind when it goes to another process; its notes go with it.
            if not isinstance(error, AgoraError):
                error.add_note("where it was raised:\n" + "".join(traceback.format_tb(error.__traceback__)))
            result = error
        finally:
            self._working -= 1
            self._start()
        if not job.over:
            job.stream.results.append((job.id, result))
            self._end(job)

    def _end(self, job: _Job[T, R]) -> None:
        job.over = True
        job.stream.left -= 1
        job.stream.changed.set()
        self.in_flight -= 1
        jobs = self._jobs[job.sender]
        del jobs[job.id]
        if not jobs:
            del self._jobs[job.sender]

    def _cancel(self, job: _Job[T, R]) -> None:
        if job.over:
            return
        self._end(job)
        # Not before the task has begun: one that is cancelled earlier never runs, and `_working` would stay too high.
        if job.task is not None:
            self._cancelled.add(job.task)
            job.task.add_done_callback(self._cancelled.discard)
            job.task.cancel()
