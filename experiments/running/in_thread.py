"""Work on files beside the event loop that must not be left in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: Callable[[], T]) -> T:
    """Does the work in a thread and returns its result. Cancelled meanwhile, it waits for the end of the work first:
    whoever cancels may close the files that are being written. Raises what the work raises."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled():
            working.result()  # an error of the work says more than that it was cancelled
        raise
