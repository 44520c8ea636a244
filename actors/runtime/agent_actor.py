"""An agent as a Ray actor, and the way to it from any process."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from ray.exceptions import RayError, RayTaskError

from actors.agents.agent import RoleAgent
from actors.completions.cache import Reuse
from actors.errors import AgentLost
from actors.messages import Role, Turn
from actors.models import Model
from actors.runtime.batching import Results
from actors.runtime.remote import collect_rarely, loss, pack, stream
from actors.runtime.replica_actor import PoolHandle
from actors.runtime.team import RemoteTeam, TurnResult
from actors.runtime.work_queue import WorkQueue
from actors.settings import AgentSettings


class AgentActor:
    """The process of one agent: its role and memory, and a client of the pool under a name that no other sender has."""

    def __init__(self, sender: str, role: Role, settings: AgentSettings, pool: PoolHandle, reuse: Reuse | None) -> None:
        self._failure: Exception | None = None
        try:
            self._model = pool.model(sender, reuse)
            self._agent = _make_agent(role, self._model, settings)
            self._queue: WorkQueue[Turn, TurnResult] = WorkQueue(self._agent.take)
        except Exception as error:  # for `ready` to raise: what a constructor raises, Ray reports in many lines
            self._failure = error
        collect_rarely()

    async def ready(self) -> None:
        """Returns once the actor is up."""
        if self._failure is not None:
            raise self._failure

    async def take(self, packed: bytes) -> AsyncIterator[bytes]:
        sender, turns, closed = pickle.loads(packed)
        self._agent.memory.forget(closed)
        async for results in self._queue.stream(sender, turns):
            yield pack(results)

    async def drop(self, sender: str, ids: list[int]) -> None:
        self._queue.drop(sender, ids)

    async def close(self) -> None:
        """Close what the agent and its cache hold open; what is to be kept is on disk afterwards."""
        parts: list[Any] = [] if self._failure else [self._agent, self._model]
        for part in parts:
            closing = part.close() if hasattr(part, "close") else None
            if closing is not None:
                await closing


def _make_agent(role: Role, model: Model, settings: AgentSettings) -> Any:
    if role.agent is None:
        return RoleAgent(role, model, settings)
    from actors.autogen.hosted import HostedAgent  # AutoGen takes longer to import than everything else here together

    return HostedAgent(role, model, settings)


class RayAgent:
    """The transport to an `AgentActor`."""

    def __init__(self, name: str, handle: Any, sender: str) -> None:
        self._name = name
        self._handle = handle
        self._sender = sender

    async def take(self, turns: list[tuple[int, Turn]], closed: list[str]) -> AsyncIterator[Results[TurnResult]]:
        try:
            async for results in stream(self._handle.take, self._sender, turns, closed):
                yield results
        # The agent's own code raised it: its process lives, so nothing has to be replayed.
        except RayTaskError:
            raise
        except RayError as error:  # of the actor, or of the node that it was on
            raise AgentLost(f"{self._name}: {loss(error)}") from error

    def drop(self, ids: list[int]) -> None:
        self._handle.drop.remote(self._sender, ids)


@dataclass(frozen=True, slots=True)
class AgentHandles:
    """Agents that were launched, for whoever holds discussions in any process."""

    handles: Mapping[str, Any]

    def team(self, name: str = "") -> RemoteTeam:
        """A team of these agents; `name` keeps its discussions apart from other teams'."""
        sender = uuid.uuid4().hex
        return RemoteTeam({agent: RayAgent(agent, handle, sender) for agent, handle in self.handles.items()}, name)
