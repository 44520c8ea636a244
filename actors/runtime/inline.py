"""Runs everything in one process, without Ray. For a debugger, a laptop, or one trial of a sweep for each core.

Agents, models and learners are the same objects that actors serve otherwise, so their answers are the same to the byte.
Nothing is restarted: a failure of this process ends the run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.agents.role_agent import RoleAgent
from actors.completions.cache import Reuse
from actors.errors import ClusterError, ModelGone, ModelLost, one_line
from actors.messages import Abilities, Completion, Request, Role, Turn, TurnResult
from actors.models import LazyModel, Model
from actors.processes import collect_rarely
from actors.runtime.launcher import Launcher, ModelPool, OnEvent, ignore
from actors.runtime.team import make_agent
from actors.settings import AgentSettings


class InlinePool(ModelPool):
    """One model in each process that asks for one, without replicas.

    It is loaded when it is first needed, and works on at most `capacity` requests at once.
    """

    def __init__(self, make_model: Callable[[], Model], capacity: int) -> None:
        super().__init__()
        self._arguments = (make_model, capacity)
        self._free = asyncio.Semaphore(capacity)
        self._model = LazyModel(make_model)

    def __reduce__(self) -> tuple[Any, ...]:
        return InlinePool, self._arguments

    def sender(self) -> Model:
        return self

    async def close(self) -> None:
        self.close_caches()
        await self._model.close()

    async def load(self) -> None:
        """Raises what loading the model raises."""
        await self._model.started()

    async def complete(self, request: Request) -> Completion:
        model = await self._model.started()
        async with self._free:
            try:
                return await model.complete(request)
            except ModelLost as error:
                raise ModelGone(f"the model was lost, and without Ray nothing starts it again: {error}") from error

    async def abilities(self) -> Abilities:
        return await self._model.abilities()


class InlineRole:
    """Agents of one role in each process that asks for them."""

    def __init__(self, role: Role, settings: AgentSettings, pool: InlinePool, reuse: Reuse | None) -> None:
        self._arguments = (role, settings, pool, reuse)
        self._client: InlineClient | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return InlineRole, self._arguments

    def client(self) -> "InlineClient":
        if self._client is None:
            role, settings, pool, reuse = self._arguments
            self._client = InlineClient(make_agent(role, pool.model(reuse), settings))
        return self._client

    async def unload(self) -> None:
        _, _, pool, _ = self._arguments
        await pool.close()


class InlineClient:
    """Agents of one role in this process, asked directly."""

    def __init__(self, agent: RoleAgent) -> None:
        self._agent = agent

    def __call__(self, item: Turn) -> Awaitable[TurnResult]:
        return self._agent.take(item)

    def note(self, note: str) -> None:
        self._agent.memory.forget([note])

    def close(self) -> None:
        """Does nothing, as the notes have arrived."""


class Local:
    """Gives a plain object the interface of a remote one: `await Local(thing).method(...)` is `thing.method(...)`."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # Looked up here and not in `call`, so that a wrong name fails where it is written.
        method = getattr(self._thing, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call


class Inline(Launcher[InlinePool]):
    """A runtime without other processes. Use as a context manager."""

    gpus = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._starting: list[str] = []

    def __enter__(self) -> "Inline":
        collect_rarely()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def starting(self) -> int:
        """Models that have to be loaded."""
        return len(self._starting)

    loading = starting  # nothing else takes time to start

    def launch_replicas(
        self,
        make_model: Callable[[], Model],
        replicas: int,
        capacity: int = 64,
        pool: str = "model",
        **resources: float,
    ) -> None:
        """Starts one model that works on as many requests at once as all replicas would. `resources` have no effect."""
        self._pools[pool] = InlinePool(make_model, replicas * capacity)
        self._starting.append(pool)

    def _launch_role(self, role: Role, settings: AgentSettings, pool: InlinePool, reuse: Reuse | None) -> InlineRole:
        return InlineRole(role, settings, pool, reuse)

    def launch(self, name: str, makers: Mapping[str, Callable[[], Any]]) -> dict[str, Local]:
        return {key: Local(make()) for key, make in makers.items()}

    async def wait_until_ready(
        self, on_started: Callable[[str, int], None] = lambda kind, loading: None, on_event: OnEvent = ignore
    ) -> None:
        """Loads all models. Raises ClusterError where one cannot be loaded."""
        while self._starting:
            name = self._starting[0]
            try:
                await self._pools[name].load()
            except Exception as error:
                raise ClusterError(f"{name}: the model could not be loaded: {one_line(error)}") from error
            del self._starting[0]
            on_started("replica", len(self._starting))

    def clear(self) -> None:
        for pool in self._pools.values():
            pool.close_caches()
        self._pools.clear()
        self._starting.clear()
