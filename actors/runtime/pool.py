"""Chooses the replica for a request, and the moment to send it."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from actors.errors import ModelGone, ModelLost, ReplicaFull
from actors.messages import Abilities, Completion, Request
from actors.runtime.replica_client import ReplicaClient, ReplicaTransport

RETRY_S = 0.25
# A quick model has made room by then, and its results have brought the news: no call is needed.
ASK_FOR_ROOM_AFTER_S = 0.005
# Preempted machines and kills for memory come in series, and a failed turn changes results: two losses are no proof.
LOSSES = 5
LOST = f"the replica that worked on this request was lost, {LOSSES} times in a row"

LOG = logging.getLogger(__name__)


class Pool:
    """A model made of replicas. Answers do not depend on the choice of replica, only the use of its cache does.

    A request goes to the replica that its shared prefix hashes to, or to the least loaded one when that is full. It is
    sent as late as possible, since what no replica has room for yet can still go to any of them. A request whose
    replica is lost goes to another one that is up, or waits for one to be up again. One that is lost `LOSSES` times is
    an error and not sent again, for it may be what kills them.

    Args:
        transports: at least one.
        capacity: the most requests that each replica works on at once; it is sent at most `bound(capacity)`.
        restart_timeout_s: how long a replica may take to be up again before it counts as gone.
    """

    def __init__(
        self, transports: Sequence[ReplicaTransport], capacity: int = 64, restart_timeout_s: float = 120.0
    ) -> None:
        if not transports:
            raise ValueError("a pool needs at least one replica")
        self._replicas = [ReplicaClient(transport, capacity) for transport in transports]
        self._restart_timeout_s = restart_timeout_s
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._abilities: Abilities | None = None
        self._telling = asyncio.Lock()

    @property
    def waiting(self) -> int:
        """Requests that are kept here because no replica has room for them."""
        return len(self._waiters)

    async def complete(self, request: Request) -> Completion:
        """The completion by one of the replicas.

        Raises:
            ModelError: the model raised it.
            ModelGone: no replica is left.
        """
        lost = 0
        while True:
            replica = await self._replica_with_room(request.prefix)
            try:
                return await replica.complete(request)
            except ReplicaFull:
                # The count of its requests was out of date.
                replica.set_room(0)
            except ModelLost as error:
                self._lose(replica)
                lost += 1
                LOG.warning("%s was lost with %s: %s", request.id, replica.transport.name, error)
                if lost == LOSSES:
                    return Completion(request.id, "", stop="error", error=LOST)
            finally:
                if self._waiters:
                    self._wake()

    async def abilities(self) -> Abilities:
        """What the replicas' model can do, by the first of them that is up. It is asked once; waits as `complete` does.

        Raises:
            ModelGone: no replica is left.
        """
        async with self._telling:
            while self._abilities is None:
                # All replicas have the same model, so that any prefix will do.
                replica = await self._replica_with_room("")
                try:
                    self._abilities = await replica.transport.abilities()
                except ModelLost as error:
                    self._lose(replica)
                    LOG.warning("%s was lost before it told its abilities: %s", replica.transport.name, error)
                finally:
                    if self._waiters:
                        self._wake()
        return self._abilities

    async def _replica_with_room(self, prefix: str) -> ReplicaClient:
        """The replica to send to; waits for one in the order of coming."""
        if not self._waiters and (replica := self._choose(prefix)) is not None:
            return replica
        enqueue = self._waiters.append
        while True:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            enqueue(waiter)
            self._wake()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # the room that it was woken for goes to the next one
                else:
                    with suppress(ValueError):  # `_wake` has taken it out already
                        self._waiters.remove(waiter)
                raise
            if (replica := self._choose(prefix)) is not None:
                return replica
            # The room is taken meanwhile, by a request that never had to wait. This one keeps its place.
            enqueue = self._waiters.appendleft

    def _choose(self, prefix: str) -> ReplicaClient | None:
        """The replica for a prefix; None when the request has to wait."""
        replicas = self._replicas
        if len(replicas) == 1:
            up = replicas if replicas[0].up else []
        else:
            up = [replicas[i] for i in ranking(prefix, len(replicas)) if replicas[i].up]
        if not up:
            return None
        choice = up[0]
        if len(up) > 1 and choice.load >= choice.capacity:
            # Idle capacity is worth more than a warm cache.
            choice = min(up, key=lambda replica: replica.load)
        return choice if choice.room > 0 else None

    def _wake(self) -> None:
        """Wake as many waiters as there is room for. For those that are left, ask the replicas for room."""
        up = [replica for replica in self._replicas if replica.up]
        if not up:
            gone = [f"{replica.transport.name} {replica.gone}" for replica in self._replicas if replica.gone]
            if len(gone) == len(self._replicas):
                while self._waiters:
                    if not (waiter := self._waiters.popleft()).done():
                        waiter.set_exception(ModelGone(f"no replica is left: {'; '.join(gone)}"))
            return
        room = sum(max(0, replica.room) for replica in up)
        while self._waiters and room > 0:
            if not (waiter := self._waiters.popleft()).done():
                waiter.set_result(None)
                room -= 1
        if self._waiters:
            for replica in up:
                if not replica.waits_for_room:
                    replica.waits_for_room = True
                    self._spawn(self._wait_for_room(replica))

    async def _wait_for_room(self, replica: ReplicaClient) -> None:
        try:
            await asyncio.sleep(ASK_FOR_ROOM_AFTER_S)
            if self._waiters:
                replica.set_room(await replica.transport.room())
        except ModelLost:
            self._lose(replica)
        finally:
            replica.waits_for_room = False
            self._wake()

    def _lose(self, replica: ReplicaClient) -> None:
        if replica.up:
            replica.up = False
            self._spawn(self._wait_until_up(replica))

    async def _wait_until_up(self, replica: ReplicaClient) -> None:
        """Take a replica into use again once it is ready. It counts as gone when that takes too long, until it is up
        after all, and for good when that can never be."""
        late_s: float | None = asyncio.get_running_loop().time() + self._restart_timeout_s
        while not replica.up:
            try:
                async with asyncio.timeout_at(late_s):
                    try:
                        await replica.transport.ready()
                    except ModelLost:
                        await asyncio.sleep(RETRY_S)
                        continue
                replica.up = True
                replica.gone = ""
                replica.set_others(0)
            except TimeoutError:
                late_s = None
                replica.gone = f"was not up again after {self._restart_timeout_s:g} s"
            except Exception as error:
                replica.gone = f"cannot be started again: {error}"
                break
            finally:
                self._wake()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        # The event loop alone would not keep the task alive.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@functools.lru_cache(maxsize=4096)
def ranking(prefix: str, replicas: int) -> tuple[int, ...]:
    """Replicas by their hash with the prefix, highest first: rendezvous hashing, where one more replica moves few."""

    def weight(replica: int) -> bytes:
        return hashlib.blake2b(f"{prefix}\x1f{replica}".encode(), digest_size=8).digest()

    return tuple(sorted(range(replicas), key=weight, reverse=True))
