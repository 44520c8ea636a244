"""An agent as a Ray actor, and the way to it from any process."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from ray.exceptions import RayError

from actors.completions.cache import Reuse
from actors.errors import AgentLost
from actors.memory import collect_rarely
from actors.messages import Role, Turn
from actors.runtime.agents import make_agent
from actors.runtime.batching import Results
from actors.runtime.channel import Address, CallFailed, Channel, ChannelLost, Listener
from actors.runtime.remote import located, loss, own_host
from actors.runtime.replica_actor import PoolHandle
from actors.runtime.team import RemoteTeam, TurnResult
from actors.runtime.work_queue import WorkQueue
from actors.settings import AgentSettings


class AgentActor:
    """The process of a role's agents: role, memories, and a client of the pool under a name that no other has."""

    def __init__(self, sender: str, role: Role, settings: AgentSettings, pool: PoolHandle, reuse: Reuse | None) -> None:
        self._incarnation = uuid.uuid4().hex
        self._failure: Exception | None = None
        try:
            self._model = pool.model(sender, reuse)
            self._agent = make_agent(role, self._model, settings)
            self._queue: WorkQueue[Turn, TurnResult] = WorkQueue(self._agent.take)
        except Exception as error:  # for `ready` to raise: what a constructor raises, Ray reports in many lines
            self._failure = error
        self._listener = Listener(self, frozenset({"take", "drop"}))
        collect_rarely()

    async def ready(self) -> None:
        """Returns once the actor is up."""
        if self._failure is not None:
            raise self._failure

    async def pulse(self) -> tuple[float, str]:
        """0 seconds of standing still, as the event loop answers; and a name that this process alone has."""
        return 0.0, self._incarnation

    async def address(self) -> Address:
        """Where other processes call `take` and `drop`."""
        return await self._listener.address(own_host())

    def take(self, sender: str, turns: list[tuple[int, Turn]], closed: list[str]) -> AsyncIterator[Results[TurnResult]]:
        if self._failure is not None:
            raise self._failure
        self._agent.memory.forget(closed)
        return self._queue.stream(sender, turns)

    def drop(self, sender: str, ids: list[int]) -> None:
        if self._failure is None:
            self._queue.drop(sender, ids)

    async def close(self) -> None:
        """Close what the agent and its cache hold open; what is to be kept is on disk afterwards."""
        parts: list[Any] = [] if self._failure else [self._agent, self._model]
        for part in parts:
            closing = part.close() if hasattr(part, "close") else None
            if closing is not None:
                await closing


class RayAgent:
    """The transport to an `AgentActor`."""

    def __init__(self, name: str, handle: Any, sender: str) -> None:
        self._name = name
        self._sender = sender
        self._channel = Channel(lambda: located(handle))

    def take(self, turns: list[tuple[int, Turn]], closed: list[str]) -> AsyncIterator[Results[TurnResult]]:
        return self._taken(self._channel.stream("take", self._sender, turns, closed))

    async def _taken(self, stream: AsyncIterator[Results[TurnResult]]) -> AsyncIterator[Results[TurnResult]]:
        try:
            async for results in stream:
                yield results
        except CallFailed as error:
            # The agent's own code raised it: its process lives, so nothing has to be replayed.
            raise error.error from error
        except ChannelLost as error:
            raise AgentLost(f"{self._name}: {error}") from error
        except RayError as error:  # of the actor, or of the node that it was on
            raise AgentLost(f"{self._name}: {loss(error)}") from error

    def drop(self, ids: list[int]) -> None:
        # If it gets lost, the work is merely done in vain.
        self._channel.tell("drop", self._sender, ids)

    def close(self) -> None:
        self._channel.close()


@dataclass(frozen=True, slots=True)
class AgentHandles:
    """Agents that were launched, for whoever holds discussions in any process.

    handles: by role; instances: the role of each agent that is one of several of it.
    """

    handles: Mapping[str, Any]
    instances: Mapping[str, str]

    def team(self, name: str = "") -> RemoteTeam:
        """A team of these agents; `name` keeps its discussions apart from other teams'."""
        sender = uuid.uuid4().hex
        agents = {role: RayAgent(role, handle, sender) for role, handle in self.handles.items()}
        return RemoteTeam(agents, name, self.instances)

    async def close(self) -> None:
        """Nothing to do: agents close what they hold open when they end."""
