"""A sender's side of one replica: sends it requests in batches, and keeps count of how full it is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Protocol

from actors.messages import Abilities, Completion, Request
from actors.runtime.batching import Batcher, Results
from actors.runtime.replica import bound

# A replica that sent nothing for so long may have finished what other senders had there.
FRESH_S = 1.0

Completed = tuple[Results[Completion], int]
"""Results, and how many requests of other senders the replica has."""


class ReplicaTransport(Protocol):
    """The calls of one replica. All of them raise ModelLost while the replica's process is gone or about to end."""

    name: str

    def complete(self, requests: list[tuple[int, Request]]) -> AsyncIterator[Completed]:
        """Sends the requests, and yields their results as they come in."""

    async def ready(self) -> None:
        """Returns once the replica can answer. Raises another exception than ModelLost when it never will."""

    async def abilities(self) -> Abilities:
        """What the replica's model can do, once it is loaded."""

    async def room(self) -> int:
        """Returns, once there is room, for how many requests."""

    def drop(self, ids: list[int]) -> None:
        """Takes back requests that nobody waits for any more."""


class ReplicaClient:
    """One replica as its sender knows it. `complete(request)` sends a request, without asking whether there is room.

    `up` is False while the replica is lost, and `gone` then says why it is given up, if it is.
    """

    def __init__(self, transport: ReplicaTransport, capacity: int) -> None:
        self.transport = transport
        self.capacity = capacity
        self.up = True
        self.gone = ""
        self.waits_for_room = False
        self.complete: Batcher[Request, Completion] = Batcher(self._send, drop=transport.drop)
        self._bound = bound(capacity)
        self._others = 0
        self._updated_s = 0.0

    def _send(self, requests: list[tuple[int, Request]]) -> AsyncIterator[Results[Completion]]:
        return self._noted(self.transport.complete(requests))

    async def _noted(self, stream: AsyncIterator[Completed]) -> AsyncIterator[Results[Completion]]:
        async for results, others in stream:
            self.set_others(others)
            yield results

    def set_others(self, others: int) -> None:
        """Note how many requests of other senders the replica has."""
        self._others = others
        # Without others there is nothing that could become out of date.
        self._updated_s = time.monotonic() if others else 0.0

    def set_room(self, room: int) -> None:
        """Note for how many more requests the replica has room."""
        self.set_others(max(0, self._bound - self.complete.pending - room))

    @property
    def load(self) -> int:
        """Requests that the replica has, according to what was last received from it."""
        if self._updated_s and time.monotonic() - self._updated_s > FRESH_S:
            self.set_others(0)
        return self.complete.pending + self._others

    @property
    def room(self) -> int:
        """Requests that it would still take."""
        return self._bound - self.load
