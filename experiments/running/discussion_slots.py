"""Limits the discussions of a run that go on at once, and counts the turns of each phase as progress."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from actors.messages import Message, Turn
from experiments.records.failures import Breaker
from experiments.records.progress import Bar
from topologies.topology import Team


class CountedTeam:
    """Counts the turns of a team: as progress before a discussion ends, and in the run's circuit breaker.

    Turns of a repeated discussion count again. A recorded team cannot be asked again, so it may fail.
    """

    def __init__(self, team: Team, bar: Bar, breaker: Breaker) -> None:
        self.recorded, self.usage = team.recorded, team.usage
        self._team = team
        self._bar = bar
        self._breaker = breaker

    async def ask(self, turn: Turn) -> Message:
        """Returns the message of a turn. Raises TooManyFailures where turns keep failing."""
        message = await self._team.ask(turn)
        self._bar.turn()
        if not self.recorded:
            self._breaker.turn(turn.discussion.partition("/")[0], message)
        return message

    def close(self, discussion: str) -> None:
        self._team.close(discussion)


@dataclass
class _Queue:
    """Slots in use by one kind of discussion, and those that wait for one."""

    used: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class Slots:
    """Limits discussions to a number at once, and gives those of learners precedence.

    Every step of a learner waits for the last discussion of the step before, so a run ends no sooner than its learners.
    Slots that they need at once are reserved for them; other discussions share the rest, which may be none.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._reserved = 0
        self._learning, self._others = _Queue(), _Queue()

    @contextmanager
    def reserved(self, slots: int) -> Iterator[None]:
        """Reserves slots for a learner while the block runs; those in use come free when their discussions end."""
        self._reserved += slots
        try:
            yield
        finally:
            self._reserved -= slots
            self._wake()

    @asynccontextmanager
    async def slot(self, *, learning: bool) -> AsyncIterator[None]:
        """Waits for a slot, first come, first served, and holds it while the block runs."""
        queue = self._learning if learning else self._others
        await self._acquire(queue)
        try:
            yield
        finally:
            queue.used -= 1
            self._wake()

    def _is_free(self, queue: _Queue) -> bool:
        if self._learning.used + self._others.used >= self._most:
            return False
        return queue is self._learning or (
            not self._learning.waiting and self._others.used < self._most - self._reserved
        )

    async def _acquire(self, queue: _Queue) -> None:
        if not queue.waiting and self._is_free(queue):
            queue.used += 1
            return
        turn = asyncio.get_running_loop().create_future()
        queue.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `_wake` may have passed it by already
                    queue.waiting.remove(turn)
            else:
                queue.used -= 1  # it got a slot in the same moment
            self._wake()  # others may have waited behind it
            raise

    def _wake(self) -> None:
        """Gives free slots to those that wait."""
        for queue in (self._learning, self._others):
            while queue.waiting and self._is_free(queue):
                turn = queue.waiting.popleft()
                if not turn.done():  # a cancelled one takes none
                    queue.used += 1
                    turn.set_result(None)
