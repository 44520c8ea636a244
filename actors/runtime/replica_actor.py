"""A replica as a Ray actor, and the way to it from any process."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import psutil
import ray
from ray.exceptions import RayError, RayTaskError

from actors.completions.cache import CachedModel, Reuse
from actors.errors import ModelError, ModelLost
from actors.messages import Abilities, Request
from actors.models import Model
from actors.processes import kill
from actors.runtime.channel import Address, CallFailed, Channel, ChannelLost, Listener
from actors.runtime.pool import Pool
from actors.runtime.remote import GONE, located, loss, one_line, own_host, result, started_no_more
from actors.runtime.replica import Replica
from actors.runtime.replica_client import Completed


class ReplicaActor:
    """The process of a `Replica`.

    Methods of the group `pulse` run in a thread of their own, so that they answer while a model is being loaded.
    """

    def __init__(self, make_model: Callable[[], Model], capacity: int) -> None:
        self._replica = Replica(make_model, capacity)
        # Tells this process from the one that Ray starts after it under the same name.
        self._incarnation = uuid.uuid4().hex
        self._listener = Listener(self._replica, frozenset({"complete", "drop"}))

    async def address(self) -> Address:
        """Where senders call `Replica.complete` and `drop`."""
        return await self._listener.address(own_host())

    async def ready(self) -> None:
        await self._replica.ready()

    async def abilities(self) -> Abilities:
        return await self._replica.abilities()

    async def room(self) -> int:
        return await self._replica.room()

    async def last_words(self) -> str:
        return await self._replica.last_words()

    @ray.method(concurrency_group="pulse")
    async def pulse(self) -> tuple[float, str]:
        """For how long the model's event loop has stood still, in seconds, and a name that this process alone has."""
        return self._replica.stalled_s, self._incarnation

    @ray.method(concurrency_group="pulse")
    async def end_children(self) -> None:
        """End what the model has started: Ray ends this process, and of an engine's own processes only the first."""
        kill(psutil.Process().children(recursive=True))


class RayReplica:
    """The transport to a `ReplicaActor`, found by its name: a handle would not survive a restart of the sender."""

    def __init__(self, name: str, sender: str) -> None:
        self.name = name
        self._sender = sender
        self._found: Any = None
        self._channel = Channel(self._locate)

    def _handle(self) -> Any:
        """Raises ModelLost where it had died for good before this sender looked for it."""
        if self._found is None:
            try:
                self._found = ray.get_actor(self.name)
            except ValueError as error:
                raise ModelLost(f"it {GONE}") from error
        return self._found

    async def _locate(self) -> Address:
        return await located(self._handle())

    def complete(self, requests: list[tuple[int, Request]]) -> AsyncIterator[Completed]:
        return self._completed(self._channel.stream("complete", self._sender, requests))

    async def _completed(self, stream: AsyncIterator[Completed]) -> AsyncIterator[Completed]:
        try:
            async for completed in stream:
                yield completed
        except CallFailed as error:  # raised by the replica's own code, with a reason
            raise ModelLost(one_line(error.error)) from error
        except ChannelLost as error:
            raise ModelLost(str(error)) from error
        except RayError as error:
            raise ModelLost(loss(error)) from error

    async def ready(self) -> None:
        try:
            handle = self._handle()
        except ModelLost as error:
            raise ModelError(str(error)) from error
        try:
            await result(handle.ready.remote())
        except RayError as error:
            if await started_no_more(handle, error):
                raise ModelError(f"it {GONE}") from error  # no ModelLost, so that the pool gives it up
            raise ModelLost(loss(error)) from error

    async def abilities(self) -> Abilities:
        try:
            abilities: Abilities = await self._handle().abilities.remote()
        except RayTaskError as error:
            raise ModelLost(one_line(error.cause)) from error
        except RayError as error:
            raise ModelLost(loss(error)) from error
        return abilities

    async def room(self) -> int:
        try:
            return int(await result(self._handle().room.remote()))
        except RayError as error:
            raise ModelLost(loss(error)) from error

    def drop(self, ids: list[int]) -> None:
        # If it gets lost, the work is merely done in vain.
        self._channel.tell("drop", self._sender, ids)


@dataclass(frozen=True, slots=True)
class PoolHandle:
    """Replicas that were launched, for a sender in any process."""

    names: tuple[str, ...]
    capacity: int
    restart_timeout_s: float

    def model(self, sender: str, reuse: Reuse | None) -> Model:
        """The pool as a model. `sender` is the same name when its process was started anew."""
        # The replica drops what an earlier incarnation was waiting for.
        incarnation = f"{sender}/{uuid.uuid4().hex}"
        pool = Pool([RayReplica(name, incarnation) for name in self.names], self.capacity, self.restart_timeout_s)
        return pool if reuse is None else CachedModel(pool, reuse)
