"""Which replica answers, and when: the one that the request's shared prefix hashes to, or the least loaded when that
is full; and as late as possible, for what a replica has no room for yet can still go to another one.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

from actors.errors import Full, ModelGone, ModelLost
from actors.messages import Completion, Request
from actors.runtime.batching import Batcher, Results
from actors.runtime.replica import bound

FRESH_S = 1.0
RETRY_S = 0.25
LOST_TWICE = "the replica that worked on this request was lost, and so was the one that it went to next"

LOG = logging.getLogger(__name__)
SEEK_AFTER_S = 0.005


class Link(Protocol):
    """The way to one replica. Everything raises ModelLost while the replica's process is gone or about to end."""

    name: str

    def complete(self, call: int, requests: list[Request]) -> AsyncIterator[tuple[Results[Completion], int]]:
        """Yields (results, how many requests of other senders the replica holds)."""

    async def ready(self) -> None:
        """Returns once the replica can answer. Raises another exception than ModelLost when it never will."""

    async def room(self) -> int:
        """Returns, once there is room, for how many requests."""

    def drop(self, places: list[tuple[int, int]]) -> None:
        """Nobody waits any more for these (number of the call, index)."""


class Lane:
    """What a sender knows of one replica."""

    def __init__(self, link: Link, capacity: int) -> None:
        self.link = link
        self.capacity = capacity
        self.up = True
        self.gone = ""
        self.seeking = False
        self._bound = bound(capacity)
        self._others = 0
        self._heard_s = 0.0
        self.send: Batcher[Request, Completion] = Batcher(self._send, drop=link.drop)

    async def _send(self, call: int, requests: list[Request]) -> AsyncIterator[Results[Completion]]:
        async for results, others in self.link.complete(call, requests):
            self.others_are(others)
            yield results

    def others_are(self, others: int) -> None:
        """The replica says how many requests of other senders it holds. What was heard long ago says nothing."""
        self._others = others
        self._heard_s = time.monotonic() if others else 0.0

    def room_is(self, room: int) -> None:
        self.others_are(max(0, self._bound - self.send.pending - room))

    @property
    def load(self) -> int:
        """How many requests the replica holds, as far as is known here."""
        if self._heard_s and time.monotonic() - self._heard_s > FRESH_S:
            self.others_are(0)
        return self.send.pending + self._others

    @property
    def room(self) -> int:
        return self._bound - self.load


class Pool:
    """A model made of replicas. Answers do not depend on the choice of replica, only the use of its cache does.

    A request whose replica is lost goes to another one that is up, or waits for one to be up again. One that is lost
    twice is an error and not asked again, for it may be what kills them.

    Args:
        links: at least one.
        capacity: the most requests that each replica works on at once; it is sent at most `bound(capacity)`.
        restart_timeout_s: how long a replica may take to be up again before it counts as gone.
    """

    def __init__(self, links: Sequence[Link], capacity: int = 64, restart_timeout_s: float = 120.0) -> None:
        if not links:
            raise ValueError("a pool needs at least one replica")
        self._lanes = [Lane(link, capacity) for link in links]
        self._restart_timeout_s = restart_timeout_s
        self._queue: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many requests are kept here because no replica has room for them."""
        return len(self._queue)

    async def complete(self, request: Request) -> Completion:
        """The completion by one of the replicas.

        Raises:
            ModelError: the model said so.
            ModelGone: no replica is left.
        """
        lost = 0
        while True:
            lane = await self._lane(request.prefix)
            try:
                return await lane.send(request)
            except Full:
                lane.room_is(0)
            except ModelLost as error:
                self._lose(lane)
                lost += 1
                LOG.warning("%s was lost with %s: %s", request.id, lane.link.name, error)
                if lost == 2:
                    return Completion(request.id, "", stop="error", error=LOST_TWICE)
            finally:
                if self._queue:
                    self._wake()

    async def _lane(self, prefix: str) -> Lane:
        """A replica that has room; waits for it in the order of coming."""
        if not self._queue and (lane := self._choose(prefix)) is not None:
            return lane
        first = False
        while True:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if first:
                self._queue.appendleft(turn)
            else:
                self._queue.append(turn)
            self._wake()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # the room was meant for this one
                else:
                    with suppress(ValueError):  # it was woken, and passed over, since
                        self._queue.remove(turn)
                raise
            if (lane := self._choose(prefix)) is not None:
                return lane
            first = True

    def _choose(self, prefix: str) -> Lane | None:
        """The replica for a prefix, or none when it has to wait."""
        lanes = self._lanes
        if len(lanes) == 1:
            up = lanes if lanes[0].up else []
        else:
            up = [lanes[i] for i in ranking(prefix, len(lanes)) if lanes[i].up]
        if not up:
            return None
        lane = up[0]
        if len(up) > 1 and lane.load >= lane.capacity:
            lane = min(up, key=lambda lane: lane.load)
        return lane if lane.room > 0 else None

    def _wake(self) -> None:
        """Let as many go on as there is room for; where there is none, ask to be told of it."""
        up = [lane for lane in self._lanes if lane.up]
        if not up:
            gone = [f"{lane.link.name} {lane.gone}" for lane in self._lanes if lane.gone]
            if len(gone) == len(self._lanes):
                self._fail(f"no replica is left: {'; '.join(gone)}")
            return
        room = sum(max(0, lane.room) for lane in up)
        while self._queue and room > 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1
        if self._queue:
            for lane in up:
                if not lane.seeking:
                    lane.seeking = True
                    self._spawn(self._seek(lane))

    def _fail(self, reason: str) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(ModelGone(reason))

    async def _seek(self, lane: Lane) -> None:
        try:
            await asyncio.sleep(SEEK_AFTER_S)  # a quick model has made room by then, and its results have said so
            if self._queue:
                lane.room_is(await lane.link.room())
        except ModelLost:
            self._lose(lane)
        finally:
            lane.seeking = False
            self._wake()

    def _lose(self, lane: Lane) -> None:
        if lane.up:
            lane.up = False
            self._spawn(self._revive(lane))

    async def _revive(self, lane: Lane) -> None:
        """A replica is up again when it says that it is ready. It counts as gone when that takes too long, until it
        is up after all, and for good when that can never be."""
        late_s: float | None = asyncio.get_running_loop().time() + self._restart_timeout_s
        while not lane.up:
            try:
                async with asyncio.timeout_at(late_s):
                    await self._ready(lane)
                lane.up = True
                lane.gone = ""
                lane.others_are(0)
            except TimeoutError:
                late_s = None
                lane.gone = f"was not up again after {self._restart_timeout_s:g} s"
            except Exception as error:
                lane.gone = f"cannot be started again: {error}"
                break
            finally:
                self._wake()

    async def _ready(self, lane: Lane) -> None:
        while True:
            try:
                return await lane.link.ready()
            except ModelLost:
                await asyncio.sleep(RETRY_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@functools.lru_cache(maxsize=4096)
def ranking(prefix: str, replicas: int) -> tuple[int, ...]:
    """Rendezvous hashing: replicas by their hash with the prefix, highest first, so that adding one moves few."""

    def weight(replica: int) -> bytes:
        return hashlib.blake2b(f"{prefix}\x1f{replica}".encode(), digest_size=8).digest()

    return tuple(sorted(range(replicas), key=weight, reverse=True))
