"""Waiting for a condition that other tasks or processes bring about."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Returns once the condition holds. Raises TimeoutError after `timeout_s` seconds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
