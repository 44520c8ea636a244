"""One replica of a model, as its process serves it to many senders. What Ray wraps, without Ray.

It works on at most `capacity` requests at once and lets as many again wait, so that the model is never idle while a
sender is being told that there is room; what comes beyond that bound goes back to its sender, which keeps it until
there is room somewhere. Senders that were refused are served in the order in which they asked for room.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence

import psutil

from actors.errors import Full, ModelLost
from actors.messages import Completion, Request
from actors.models import Model
from actors.processes import kill
from actors.runtime.batching import Desk, Results

BEAT_S = 1.0
FAREWELL_S = 1.0
ROOM_PERIOD_S = 0.05


def bound(capacity: int) -> int:
    """The most requests that a replica holds: those that it works on, and the next ones."""
    return 2 * capacity


def end_process() -> None:
    """End this process and all that it started, now, so that Ray starts it anew."""
    kill(psutil.Process().children(recursive=True))
    os._exit(1)


class Replica:
    """Loads its model at its first use: what loading raises then reaches whoever waits for it.

    Args:
        make_model: called once, in the replica's process.
        capacity: the most requests that the model works on at once.
        end: what to do once the model is lost and everybody who waited has been told.
    """

    def __init__(self, make_model: Callable[[], Model], capacity: int, end: Callable[[], None] = end_process) -> None:
        self._make_model = make_model
        self._bound = bound(capacity)
        self._low = self._bound - max(1, capacity // 4)
        self._end = end
        self._desk: Desk[Request, Completion] = Desk(self._work, capacity)
        self._loading: asyncio.Task[Model] | None = None
        self._model: Model | None = None
        self._lost: ModelLost | None = None
        self._ending: asyncio.Task[None] | None = None
        self._held: Counter[str] = Counter()
        self._seekers: deque[asyncio.Future[int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._senders: dict[str, str] = {}
        self._beating: asyncio.Task[None] | None = None
        self._beat = time.monotonic()

    async def ready(self) -> None:
        """Returns once the model is loaded. Raises ModelLost when this process is about to end."""
        if self._lost is not None:
            raise self._lost
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        await self._loading

    async def complete(
        self, sender: str, call: int, requests: Sequence[Request]
    ) -> AsyncIterator[tuple[Results[Completion], int]]:
        """Yields (results, how many requests of other senders are here); requests beyond the bound end with `Full`.

        `sender` is `<name>/<incarnation>`: what an earlier incarnation of the same sender waited for is dropped.
        """
        await self.ready()
        self._forget_earlier(sender)
        room = max(0, self._bound - self._desk.held)
        taken = requests[:room]
        # Told with the first results and not before: what is taken must count as held before anybody else comes in.
        refused: Results[Completion] = [(index, Full("the replica is full")) for index in range(room, len(requests))]
        self._held[sender] += len(taken)
        left = len(taken)
        try:
            async for results in self._desk.stream((sender, call), taken, refused):
                over = sum(index < room for index, _ in results)
                left -= over
                self._held[sender] -= over
                self._make_room()
                yield results, self._others(sender)
        finally:
            self._held[sender] -= left
            if not self._held[sender]:
                del self._held[sender]
            self._make_room()

    async def room(self) -> int:
        """Wait until there is room, and return for how many requests of this sender."""
        seeker: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._seekers.append(seeker)
        self._make_room()
        return await seeker

    def drop(self, sender: str, places: Sequence[tuple[int, int]]) -> None:
        """Nobody waits any more for these (number of the call, index): their work is cancelled."""
        for call, index in places:
            self._desk.drop((sender, call), index)
        self._make_room()

    @property
    def held(self) -> int:
        """How many requests are here, worked on or waiting; at most `bound(capacity)`."""
        return self._desk.held

    @property
    def stalled_s(self) -> float:
        """For how long the event loop has stood still since the model was loaded; may be asked by another thread."""
        return time.monotonic() - self._beat if self._model is not None else 0.0

    async def _load(self) -> Model:
        model = self._make_model()
        start = getattr(model, "start", None)
        if start is not None:
            try:
                await start()
            except ModelLost as error:
                self._lose(error)
                raise
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
        if self._lost is None:
            self._lost = ModelLost(str(error))
            self._desk.fail(self._lost)
            self._ending = asyncio.create_task(self._farewell())

    async def _farewell(self) -> None:
        """Whoever waits hears of it first, if that goes quickly; then the process ends."""
        begun = time.monotonic()
        while self._desk.calls and time.monotonic() - begun < FAREWELL_S:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # Ray sends what was yielded last
        self._end()

    def _others(self, sender: str) -> int:
        return self._bound if self._seekers else max(0, self._desk.held - self._held[sender])

    def _make_room(self) -> None:
        """Once there is enough room to be worth a call, share it among those who asked, first come, first served."""
        while self._seekers and self._seekers[0].done():
            self._seekers.popleft()
        if not self._seekers:
            return
        free = self._bound - self._desk.held
        if self._desk.held <= self._low:
            share = max(1, free // len(self._seekers))
            for _ in range(min(len(self._seekers), max(1, free // share))):
                seeker = self._seekers.popleft()
                if not seeker.done():
                    seeker.set_result(share)
        if self._seekers and self._timer is None:
            # Those who were told may not come: the others must not wait for them.
            self._timer = asyncio.get_running_loop().call_later(ROOM_PERIOD_S, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._make_room()

    def _forget_earlier(self, sender: str) -> None:
        name, _, incarnation = sender.partition("/")
        earlier = self._senders.get(name)
        self._senders[name] = incarnation
        if earlier is not None and earlier != incarnation:
            for key in self._desk.calls:
                if isinstance(key, tuple) and key[0] == f"{name}/{earlier}":
                    self._desk.drop(key)
