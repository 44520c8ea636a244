"""How many discussions are held at once, by all phases of a run that go on side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class _Line:
    """Those that ask alike: how many slots they have, and who waits for one."""

    held: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class Slots:
    """So many discussions at once, those that a learner learns from before all others.

    Every step of a learner waits for the last discussion of the step before, so a run is over no sooner than its
    learners. What they need at once is kept free for them; the others share the rest, which is nothing where learners
    need all there is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = 0
        self._learning, self._others = _Line(), _Line()

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
        line = self._learning if learning else self._others
        await self._acquire(line)
        try:
            yield
        finally:
            self._release(line)

    def _is_free(self, line: _Line) -> bool:
        if self._learning.held + self._others.held >= self._most:
            return False
        return line is self._learning or (not self._learning.waiting and self._others.held < self._most - self._kept)

    async def _acquire(self, line: _Line) -> None:
        if not line.waiting and self._is_free(line):
            line.held += 1
            return
        turn = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `_wake` may have passed it by already
                    line.waiting.remove(turn)
                self._wake()  # others may have waited behind it
            else:
                self._release(line)  # it was given one in the same moment
            raise

    def _release(self, line: _Line) -> None:
        line.held -= 1
        self._wake()

    def _wake(self) -> None:
        """Gives what is free to those that wait."""
        for line in (self._learning, self._others):
            while line.waiting and self._is_free(line):
                turn = line.waiting.popleft()
                if not turn.done():  # a cancelled one takes none
                    line.held += 1
                    turn.set_result(None)
