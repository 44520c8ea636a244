"""One replica of a model, as its process serves it to many senders, without Ray."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

import psutil

from actors.errors import ModelLost, ReplicaFull
from actors.messages import Abilities, Completion, Request
from actors.models import Model, abilities_of
from actors.processes import kill
from actors.prompting.safe_text import one_line
from actors.runtime.batching import Results
from actors.runtime.work_queue import WorkQueue

BEAT_S = 1.0
DRAIN_S = 1.0
# What Ray yielded last needs a moment to leave the process.
SEND_S = 0.1
OFFER_EVERY_S = 0.05


def bound(capacity: int) -> int:
    """The most requests that a replica takes: those that it works on, and as many again.

    So the model is never idle while a sender learns that there is room.
    """
    return 2 * capacity


def end_process() -> None:
    """End this process and all that it started, now, so that Ray starts it anew."""
    kill(psutil.Process().children(recursive=True))
    os._exit(1)


class Replica:
    """Serves one model to many senders, on at most `capacity` requests at once and with backpressure.

    Requests beyond `bound(capacity)` go back to their sender, which keeps them until there is room somewhere. Senders
    that wait for room get it in the order in which they came. The model is loaded at its first use, so that whoever
    waits for it receives what loading raises.

    Args:
        make_model: called once, in the replica's process.
        capacity: the most requests that the model works on at once.
        end: ends the process, once the model is lost and all senders have the error.
    """

    def __init__(self, make_model: Callable[[], Model], capacity: int, end: Callable[[], None] = end_process) -> None:
        self._make_model = make_model
        self._bound = bound(capacity)
        # Room for a quarter of what the model works on is worth a call to the sender; for one request it is not.
        self._low = self._bound - max(1, capacity // 4)
        self._end = end
        self._queue: WorkQueue[Request, Completion] = WorkQueue(self._work, capacity)
        self._loading: asyncio.Task[Model] | None = None
        self._model: Model | None = None
        self._abilities = Abilities()
        self._lost: ModelLost | None = None
        self._ending = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self._waiters: deque[asyncio.Future[int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._senders: dict[str, str] = {}
        self._beating: asyncio.Task[None] | None = None
        self._beat = time.monotonic()

    async def ready(self) -> None:
        """Returns once the model is loaded. Raises ModelLost when this process is about to end."""
        if self._lost is not None:
            raise self._lost
        if self._loading is None:
            # One task for all who wait, so that the model is loaded once.
            self._loading = asyncio.create_task(self._load())
        await self._loading

    async def abilities(self) -> Abilities:
        """What the model can do, once it is loaded. Raises what `ready` raises."""
        await self.ready()
        return self._abilities

    async def complete(
        self, sender: str, requests: Sequence[tuple[int, Request]]
    ) -> AsyncIterator[tuple[Results[Completion], int]]:
        """Yields (results, requests of other senders here); requests beyond the bound end with ReplicaFull.

        `sender` is `<name>/<incarnation>`: what an earlier incarnation of the same sender waited for is dropped.
        """
        await self.ready()
        self._drop_earlier(sender)
        room = max(0, self._bound - self._queue.in_flight)
        refused: Results[Completion] = [(id, ReplicaFull("the replica is full")) for id, _ in requests[room:]]
        async for results in self._queue.stream(sender, requests[:room], refused):
            self._offer_room()
            yield results, self._others(sender)

    async def room(self) -> int:
        """Wait until there is room, and return for how many requests of this sender."""
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._offer_room()
        return await waiter

    def drop(self, sender: str, ids: Sequence[int]) -> None:
        """Cancel the work on these requests of a sender, which waits for them no more."""
        self._queue.drop(sender, ids)
        self._offer_room()

    async def last_words(self) -> str:
        """Waits until this process is about to end, and says why, in one line."""
        await self._ending.wait()
        return one_line(str(self._lost))

    @property
    def in_flight(self) -> int:
        """Requests that are here, worked on or waiting; at most `bound(capacity)`."""
        return self._queue.in_flight

    @property
    def stalled_s(self) -> float:
        """Seconds for which the event loop has stood still since the model was loaded. Safe from another thread."""
        return time.monotonic() - self._beat if self._model is not None else 0.0

    async def _load(self) -> Model:
        model = self._make_model()
        # Only models that have something to load have `start`.
        start = getattr(model, "start", None)
        if start is not None:
            try:
                await start()
            except ModelLost as error:
                self._lose(error)
                raise
        # Here, so that a model that cannot tell is one that cannot be loaded.
        self._abilities = await abilities_of(model)
        self._beat = time.monotonic()
        self._beating = asyncio.create_task(self._keep_beating())
        self._model = model
        return model

    async def _keep_beating(self) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(BEAT_S)

    async def _work(self, request: Request) -> Completion:
        assert self._model is not None
        try:
            return await self._model.complete(request)
        except ModelLost as error:
            self._lose(error)
            raise

    def _lose(self, error: ModelLost) -> None:
        # Many requests fail at once when an engine dies; the first one starts the end.
        if self._lost is None:
            self._lost = ModelLost(str(error))
            self._ending.set()
            self._queue.fail(self._lost)
            self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        """End the process once all senders have the error, or after DRAIN_S."""
        begun = time.monotonic()
        while self._queue.streams and time.monotonic() - begun < DRAIN_S:
            await asyncio.sleep(0.01)
        await asyncio.sleep(SEND_S)
        self._end()

    def _others(self, sender: str) -> int:
        # With waiters, the replica counts as full for all senders: else those that do not wait would overtake them.
        return self._bound if self._waiters else self._queue.in_flight - self._queue.in_flight_of(sender)

    def _offer_room(self) -> None:
        """Once there is room enough to be worth a call, share it among the waiters, first come, first served."""
        while self._waiters and self._waiters[0].done():
            self._waiters.popleft()
        if not self._waiters:
            return
        free = self._bound - self._queue.in_flight
        if self._queue.in_flight <= self._low:
            share = max(1, free // len(self._waiters))
            for _ in range(min(len(self._waiters), max(1, free // share))):
                waiter = self._waiters.popleft()
                if not waiter.done():
                    waiter.set_result(share)
        if self._waiters and self._timer is None:
            # A sender that was offered room may not use it, and then no result would bring the next offer.
            self._timer = asyncio.get_running_loop().call_later(OFFER_EVERY_S, self._offer_again)

    def _offer_again(self) -> None:
        self._timer = None
        self._offer_room()

    def _drop_earlier(self, sender: str) -> None:
        name, _, _ = sender.partition("/")
        earlier = self._senders.get(name, sender)
        self._senders[name] = sender
        if earlier != sender:
            self._queue.drop(earlier)
