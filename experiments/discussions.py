"""Holding discussions: replayed when an agent's process died, many at once, and always yielded in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

from actors.memory import MemoryLost
from actors.messages import Message, Question, Trace, Turn, Usage
from actors.team import AgentLost
from topologies.topology import Topology, discussion_id

REPLAYS = 6

T = TypeVar("T")
R = TypeVar("R")


class Agents(Protocol):
    """Who is asked: a team, or a recorded run in its place. `usage` is what each agent has spent so far."""

    usage: dict[str, Usage]

    async def ask(self, turn: Turn) -> Message: ...

    def close(self, discussion: str) -> None: ...


async def hold(topology: Topology, question: Question, team: Agents, seed: int, sample: int = 0) -> Trace:
    """One discussion, from its start again when an agent was lost: with the same seeds it ends the same.

    Raises:
        AgentLost: an agent was lost every time.
    """
    for replay in range(REPLAYS + 1):
        if replay:
            await asyncio.sleep(0.1 * 2**replay)  # the agent's process is being started again
        try:
            return await topology.answer(question, team.ask, seed, sample)
        except* (AgentLost, MemoryLost) as lost:
            reason = str(lost.exceptions[0])
        finally:
            team.close(discussion_id(topology.method, question, sample))
    raise AgentLost(f"{question.id}: agents were lost {REPLAYS + 1} times, last: {reason}")


async def in_order(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], concurrency: int
) -> AsyncIterator[tuple[T, R]]:
    """Work on up to `concurrency` items at once and yield (item, result) in the items' order.

    Results wait for slower ones before them, but never more than twice `concurrency` are under way or waiting, so
    memory does not grow with the number of items. What `work` raises is raised here; the rest is cancelled.
    """
    gate = asyncio.Semaphore(concurrency)
    window: deque[tuple[T, asyncio.Task[R]]] = deque()

    async def gated(item: T) -> R:
        async with gate:
            return await work(item)

    try:
        for item in items:
            window.append((item, asyncio.create_task(gated(item))))
            if len(window) >= 2 * concurrency:
                yield await _first(window)
        while window:
            yield await _first(window)
    finally:
        for _, task in window:
            task.cancel()
        await asyncio.gather(*(task for _, task in window), return_exceptions=True)


async def _first(window: deque[tuple[T, asyncio.Task[R]]]) -> tuple[T, R]:
    item, task = window[0]
    result = await task
    window.popleft()
    return item, result
