"""What runs in Ray's processes, and the ways to them: replicas for the agents, agents for the driver."""

from __future__ import annotations

import gc
import pickle
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil
import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError

from actors.agents.agent import RoleAgent
from actors.completions.cache import CachedModel, Reuse
from actors.errors import AgentLost, ModelError, ModelLost
from actors.messages import Completion, Request, Role, Turn
from actors.models import Model
from actors.processes import kill
from actors.runtime.batching import Desk, Results
from actors.runtime.pool import Pool
from actors.runtime.replica import Replica
from actors.runtime.team import RemoteTeam, Said
from actors.settings import AgentSettings

# Batches are pickled here and travel as bytes: Ray's own pickler calls back into Python for every object.
PROTOCOL = pickle.HIGHEST_PROTOCOL
RESTARTS = 10


@dataclass(frozen=True, slots=True)
class Replicas:
    """A pool that was launched, as far as a sender in any process needs to know it."""

    names: tuple[str, ...]
    capacity: int
    restart_timeout_s: float

    def model(self, sender: str, reuse: Reuse | None) -> Model:
        """The pool as a model. `sender` is the same name when its process was started anew."""
        incarnation = f"{sender}/{uuid.uuid4().hex}"
        pool = Pool([ReplicaLink(name, incarnation) for name in self.names], self.capacity, self.restart_timeout_s)
        return pool if reuse is None else CachedModel(pool, reuse)


@dataclass(frozen=True, slots=True)
class AgentHandles:
    """Agents that were launched, as far as whoever holds discussions in any process needs to know them."""

    handles: Mapping[str, Any]

    def team(self, name: str = "") -> RemoteTeam:
        """A way to them of one's own; `name` keeps the discussions of several apart."""
        sender = uuid.uuid4().hex
        return RemoteTeam({agent: AgentLink(agent, handle, sender) for agent, handle in self.handles.items()}, name)


class ReplicaActor:
    """A replica's process. `pulse` has a thread of its own, so that it answers while a model is being loaded."""

    def __init__(self, make_model: Callable[[], Model], capacity: int) -> None:
        self._replica = Replica(make_model, capacity)
        self._incarnation = uuid.uuid4().hex

    async def ready(self) -> None:
        await self._replica.ready()

    async def complete(self, packed: bytes) -> AsyncIterator[bytes]:
        async for results in self._replica.complete(*pickle.loads(packed)):
            yield pickle.dumps(results, PROTOCOL)

    async def room(self) -> int:
        return await self._replica.room()

    async def drop(self, sender: str, places: list[tuple[int, int]]) -> None:
        self._replica.drop(sender, places)

    @ray.method(concurrency_group="pulse")
    async def pulse(self) -> tuple[float, str]:
        """For how long the model's event loop has stood still, in seconds, and a name that this process alone has."""
        return self._replica.stalled_s, self._incarnation

    @ray.method(concurrency_group="pulse")
    async def end_children(self) -> None:
        """End what the model has started: Ray ends this process, and of an engine's own processes only the first."""
        kill(psutil.Process().children(recursive=True))


class AgentActor:
    """One role, its memory, and its way to the pool of replicas, under a name that no other sender has."""

    def __init__(
        self, sender: str, role: Role, settings: AgentSettings, replicas: Replicas, reuse: Reuse | None
    ) -> None:
        self._failure: Exception | None = None
        try:
            self._model = replicas.model(sender, reuse)
            self._agent = _agent(role, self._model, settings)
            self._desk: Desk[Turn, Said] = Desk(self._agent.take)
        except Exception as error:  # for `ready` to raise: Ray tells nobody in one line what a constructor raised
            self._failure = error
        collect_rarely()

    async def ready(self) -> None:
        """Returns once the actor is up."""
        if self._failure is not None:
            raise self._failure

    async def take(self, packed: bytes) -> AsyncIterator[bytes]:
        sender, call, turns, closed = pickle.loads(packed)
        self._agent.memory.forget(closed)
        async for results in self._desk.stream((sender, call), turns):
            yield pickle.dumps(results, PROTOCOL)

    async def drop(self, sender: str, places: list[tuple[int, int]]) -> None:
        for call, index in places:
            self._desk.drop((sender, call), index)

    async def close(self) -> None:
        """What the agent and its cache hold open is closed, and written where it belongs."""
        if self._failure is None:
            await _close(self._agent)
            await _close(self._model)


def _agent(role: Role, model: Model, settings: AgentSettings) -> Any:
    if role.agent is None:
        return RoleAgent(role, model, settings)
    from actors.autogen.hosted import HostedAgent  # AutoGen takes longer to import than everything else here together

    return HostedAgent(role, model, settings)


async def _close(thing: object) -> None:
    close = getattr(thing, "close", None)
    closing = close() if close is not None else None
    if closing is not None:
        await closing


class AgentLink:
    """A team's way to one agent. Calls are numbered by each `sender` anew."""

    def __init__(self, name: str, handle: Any, sender: str) -> None:
        self._name = name
        self._handle = handle
        self._sender = sender

    async def __call__(self, call: int, turns: list[Turn], closed: list[str]) -> AsyncIterator[Results[Said]]:
        packed = pickle.dumps((self._sender, call, turns, closed), PROTOCOL)
        try:
            async for ref in self._handle.take.options(num_returns="streaming").remote(packed):
                yield pickle.loads(await ref)
        except RayTaskError:
            raise
        except RayError as error:  # of the actor, or of the node that it was on
            raise AgentLost(f"{self._name}: {type(error).__name__}") from error

    def drop(self, places: list[tuple[int, int]]) -> None:
        self._handle.drop.remote(self._sender, places)


class ReplicaLink:
    """A sender's way to one replica, found by its name: a handle would not survive a restart of the sender."""

    def __init__(self, name: str, sender: str) -> None:
        self.name = name
        self._sender = sender
        self._handle: Any = ray.get_actor(name)

    async def complete(self, call: int, requests: list[Request]) -> AsyncIterator[tuple[Results[Completion], int]]:
        packed = pickle.dumps((self._sender, call, requests), PROTOCOL)
        try:
            async for ref in self._handle.complete.options(num_returns="streaming").remote(packed):
                yield pickle.loads(await ref)
        except RayTaskError as error:
            raise ModelLost(one_line(error.cause)) from error
        except RayError as error:
            raise ModelLost(type(error).__name__) from error

    async def ready(self) -> None:
        try:
            await result(self._handle.ready.remote())
        except ActorDiedError as error:
            raise ModelError(f"it died {RESTARTS + 1} times; its output in Ray's session folder says why") from error
        except RayError as error:
            raise ModelLost(type(error).__name__) from error

    async def room(self) -> int:
        try:
            return int(await result(self._handle.room.remote()))
        except RayError as error:
            raise ModelLost(type(error).__name__) from error

    def drop(self, places: list[tuple[int, int]]) -> None:
        self._handle.drop.remote(self._sender, places)


async def result(ref: Any) -> Any:
    """The value of an ObjectRef, or what the remote code raised, as it was raised there."""
    try:
        return await ref
    except RayTaskError as error:
        raise error.cause from error


class RemoteObject:
    """An actor's methods as coroutines: `await remote.method(...)`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._handle, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await result(method.remote(*args, **kwargs))

        return call


def one_line(error: Exception) -> str:
    """What an error says, without the traceback that Ray adds to it."""
    if isinstance(error, RayActorError):
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[-1] if lines else ''}"
    text = " ".join(str(error).split())
    told = isinstance(error, (ValueError, OSError, ImportError, ModelError))
    return text if told else f"{type(error).__name__}: {text}"


def collect_rarely() -> None:
    """Turns and messages are frozen and make no cycles: by default a third of the time goes into scanning them."""
    gc.set_threshold(100_000)
