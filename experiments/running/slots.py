"""How many discussions are held at once, by all phases of a run that go on side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress


class Slots:
    """So many discussions at once, those that a learner learns from before all others.

    Every step of a learner waits for the last discussion of the step before, so a run is over no sooner than its
    learners. What they need at once is kept free for them; the others share the rest, which is nothing where learners
    need all there is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = 0
        self._held = {True: 0, False: 0}  # by whether a learner learns from them
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {True: deque(), False: deque()}

    @contextmanager
    def kept(self, slots: int) -> Iterator[None]:
        """Keeps some for a learner, for the block; those that others have come free when their discussions end."""
        self._kept += slots
        try:
            yield
        finally:
            self._kept -= slots
            self._wake()

    @asynccontextmanager
    async def slot(self, *, learning: bool) -> AsyncIterator[None]:
        """One of them for the block, in the order of those that ask."""
        await self._acquire(learning)
        try:
            yield
        finally:
            self._release(learning)

    def _is_free(self, learning: bool) -> bool:
        if sum(self._held.values()) >= self._most:
            return False
        return learning or (not self._waiting[True] and self._held[False] < self._most - self._kept)

    async def _acquire(self, learning: bool) -> None:
        waiting = self._waiting[learning]
        if not waiting and self._is_free(learning):
            self._held[learning] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `_wake` may have passed it by already
                    waiting.remove(turn)
                self._wake()  # others may have waited behind it
            else:
                self._release(learning)  # it was given one in the same moment
            raise

    def _release(self, learning: bool) -> None:
        self._held[learning] -= 1
        self._wake()

    def _wake(self) -> None:
        """Gives what is free to those that wait."""
        for learning in (True, False):
            waiting = self._waiting[learning]
            while waiting and self._is_free(learning):
                turn = waiting.popleft()
                if not turn.done():  # a cancelled one takes none
                    self._held[learning] += 1
                    turn.set_result(None)
