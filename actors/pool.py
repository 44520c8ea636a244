"""Which replica answers: the one that the request's shared prefix hashes to, or the least loaded when that is full."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Sequence
from typing import Protocol

from actors.messages import Completion, Request


class Replica(Protocol):
    """A way to one replica: calling it completes a request, `pending` counts what is under way through it."""

    pending: int

    def __call__(self, request: Request, /) -> Awaitable[Completion]: ...


class Pool:
    """A model made of replicas. Answers do not depend on the choice of replica, only the use of its cache does.

    Args:
        replicas: at least one.
        spill: how many more requests than the least loaded replica the preferred one may hold before a request
            goes elsewhere.
    """

    def __init__(self, replicas: Sequence[Replica], spill: int = 32) -> None:
        if not replicas:
            raise ValueError("a pool needs at least one replica")
        self._replicas = replicas
        self._spill = spill

    async def complete(self, request: Request) -> Completion:
        return await self._replicas[self.choose(request.prefix)](request)

    def choose(self, prefix: str) -> int:
        """The index of the replica for a prefix."""
        if len(self._replicas) == 1:
            return 0
        first = preferred(prefix, len(self._replicas))
        loads = [replica.pending for replica in self._replicas]
        least = min(range(len(loads)), key=lambda i: (loads[i], i))
        return first if loads[first] <= loads[least] + self._spill else least


def preferred(prefix: str, replicas: int) -> int:
    """Rendezvous hashing: the replica whose hash with the prefix is highest, so that adding one moves few prefixes."""

    def weight(replica: int) -> bytes:
        return hashlib.blake2b(f"{prefix}\x1f{replica}".encode(), digest_size=8).digest()

    return max(range(replicas), key=weight)
