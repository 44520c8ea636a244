"""Works on many items at once and yields their results in the items' order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def in_order(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], concurrency: int
) -> AsyncIterator[tuple[T, R]]:
    """Works on up to `concurrency` items at once and yields (item, result) in the items' order.

    At most twice `concurrency` items are under way or waiting for slower ones. An error of `work` cancels the others.
    """
    gate = asyncio.Semaphore(concurrency)
    window: deque[tuple[T, asyncio.Task[R]]] = deque()

    async def work_in_turn(item: T) -> R:
        async with gate:
            return await work(item)

    async def next_result() -> tuple[T, R]:
        item, task = window[0]
        result = await task
        # Not before: while it is awaited, the task has to be in the window to be cancelled.
        window.popleft()
        return item, result

    try:
        for item in items:
            window.append((item, asyncio.create_task(work_in_turn(item))))
            # One slow item at the front does not leave the others idle until so many are waiting.
            if len(window) >= 2 * concurrency:
                yield await next_result()
        while window:
            yield await next_result()
    finally:
        for _, task in window:
            task.cancel()
        await asyncio.gather(*(task for _, task in window), return_exceptions=True)
