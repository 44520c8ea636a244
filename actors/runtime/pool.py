"""Chooses a replica for each request. Requests of a lost replica go to another one."""

import asyncio
import functools
import hashlib
import logging
import math
from collections.abc import Sequence
from typing import Any

from actors.errors import ModelGone, ModelLost
from actors.messages import Abilities, Completion, Request
from actors.models import Model
from actors.runtime.launcher import ModelPool
from actors.runtime.remote import Actor, loss
from actors.runtime.service_client import Client
from actors.runtime.supervision import wait_until_up
from actors.wire import replace

# Preempted machines and kills for memory come in series, and a failed turn changes results: two losses are no proof.
LOSSES = 5
LOST = f"replica lost: it worked on this request, {LOSSES} times in a row"

LOG = logging.getLogger(__name__)


class ReplicaPool:
    """A model made of replicas. Answers do not depend on the choice of replica; only the use of its prefix cache does.

    A request goes to the replica that its shared prefix hashes to, or to the least loaded one where that has as many
    requests as it works on. What a replica does not work on yet waits in its work queue. A request whose replica is
    lost goes to another one that is up, or waits for one to be up again. After `LOSSES` losses it is an error, for it
    may be what kills them.

    replicas: at least one.
    capacity: the requests that each replica works on at once.
    restart_timeout_s: how long a replica may take to be up again before it counts as gone.
    """

    def __init__(
        self, replicas: "Sequence[RemoteReplica]", capacity: int = 64, restart_timeout_s: float = 120.0
    ) -> None:
        if not replicas:
            raise ValueError("a pool needs at least one replica")
        self._replicas = list(replicas)
        self._up = set(range(len(replicas)))
        self._gone: dict[int, str] = {}
        self._capacity = capacity
        self._restart_timeout_s = restart_timeout_s
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._abilities: Abilities | None = None
        self._asking = asyncio.Lock()

    async def complete(self, request: Request) -> Completion:
        """Returns one replica's completion. Raises the model's ModelError, and ModelGone where none is left."""
        for _ in range(LOSSES):
            number = await self._choose(request.prefix)
            try:
                return replace(await self._replicas[number].complete(request), replica=number + 1)
            except ModelLost as error:
                self._lose(number, error)
        return Completion(request.id, "", stop="error", error=LOST)

    async def abilities(self) -> Abilities:
        """Returns the abilities of the model, as the first replica that is up reports them. Raises ModelGone without
        any."""
        async with self._asking:
            while self._abilities is None:
                number = await self._choose("")  # all replicas have the same model
                try:
                    self._abilities = await self._replicas[number].abilities()
                except ModelLost as error:
                    self._lose(number, error)
        return self._abilities

    async def _choose(self, prefix: str) -> int:
        """Returns the number of a replica that is up. Raises ModelGone where none will be."""
        while not self._up:
            if len(self._gone) == len(self._replicas):
                reasons = [f"{self._replicas[number].name} {reason}" for number, reason in sorted(self._gone.items())]
                raise ModelGone(f"no replica is left: {'; '.join(reasons)}")
            await self._changed.wait()
        choice = next(number for number in ranking(prefix, len(self._replicas)) if number in self._up)
        if len(self._up) > 1 and self._replicas[choice].load >= self._capacity:
            # Idle capacity is worth more than a warm cache.
            choice = min(self._up, key=lambda number: self._replicas[number].load)
        return choice

    def _lose(self, number: int, error: ModelLost) -> None:
        if number in self._up:
            LOG.warning("%s was lost: %s", self._replicas[number].name, error)
            self._up.remove(number)
            task = asyncio.get_running_loop().create_task(self._wait_until_up(number))
            # The event loop alone would not keep the task alive.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait_until_up(self, number: int) -> None:
        """Takes a replica into use again once it is ready. It counts as gone while that takes too long, and for good
        when it can never be."""
        ready = asyncio.create_task(self._replicas[number].ready())
        try:
            await asyncio.wait([ready], timeout=self._restart_timeout_s)
            if not ready.done():
                self._gone[number] = f"was not up again after {self._restart_timeout_s:g} s"
                self._wake()
            await ready
            self._gone.pop(number, None)
            self._up.add(number)
        except Exception as error:
            self._gone[number] = f"cannot be started again: {error}"
        finally:
            ready.cancel()
            self._wake()

    def _wake(self) -> None:
        """Wakes all requests that wait for a replica."""
        self._changed.set()
        self._changed = asyncio.Event()


@functools.lru_cache(maxsize=4096)
def ranking(prefix: str, replicas: int) -> tuple[int, ...]:
    """Ranks replicas by their hash with the prefix. With rendezvous hashing, one more replica moves few."""

    def weight(replica: int) -> bytes:
        return hashlib.blake2b(f"{prefix}\x1f{replica}".encode(), digest_size=8).digest()

    return tuple(sorted(range(replicas), key=weight, reverse=True))


class RemoteReplica:
    """A replica in another process: a client of its service, and the actor's own methods.

    `complete` and `abilities` raise ModelLost while its process is gone or about to end.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self.name = actor.name
        self.complete: Client[Request, Completion] = Client(actor.address, lambda error: ModelLost(loss(error)))

    @property
    def load(self) -> int:
        """Requests that it has, as far as is known here."""
        return self.complete.load

    async def ready(self) -> None:
        """Waits until it is up. Raises ClusterError where it never will be."""
        await wait_until_up(self._actor, starts=math.inf)

    async def abilities(self) -> Abilities:
        try:
            abilities: Abilities = await self._actor.call("abilities")
        except ModelLost:
            raise
        except Exception as error:
            raise ModelLost(loss(error)) from error
        return abilities


class RemotePool(ModelPool):
    """Replicas that were launched as processes."""

    def __init__(self, actors: Sequence[Actor], capacity: int, restart_timeout_s: float) -> None:
        super().__init__()
        self._actors = tuple(actors)
        self._capacity = capacity
        self._restart_timeout_s = restart_timeout_s

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePool, (self._actors, self._capacity, self._restart_timeout_s)

    def sender(self) -> Model:
        replicas = [RemoteReplica(actor) for actor in self._actors]
        return ReplicaPool(replicas, self._capacity, self._restart_timeout_s)
