"""Runs everything in one process, without Ray. For a debugger, a laptop, or one trial of a sweep for each core.

Agents, models and learners are the same objects that actors serve otherwise, so their answers are the same to the byte.
Nothing is restarted: what is lost is lost with this process.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from actors.agents.role_agent import RoleAgent
from actors.completions.cache import CachedModel, Reuse
from actors.errors import ClusterError, ModelGone, ModelLost
from actors.messages import Abilities, Completion, Request, Role, Turn
from actors.models import Model, abilities_of
from actors.processes import collect_rarely
from actors.runtime.pool import Pools
from actors.runtime.remote import one_line
from actors.runtime.supervision import OnEvent, ignore
from actors.runtime.team import LiveTeam, TurnResult, instances_of, make_agent, roles_held
from actors.settings import AgentSettings


class InlinePool:
    """One model in each process that asks for one, without replicas.

    It is loaded when it is first needed, and works on at most `capacity` requests at once.
    """

    def __init__(self, make_model: Callable[[], Model], capacity: int) -> None:
        self._arguments = make_model, capacity
        self._free = asyncio.Semaphore(capacity)
        self._loading = asyncio.Lock()
        self._model: Model | None = None
        self._caches: dict[Reuse, CachedModel] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return InlinePool, self._arguments

    def model(self, reuse: Reuse | None) -> Model:
        if reuse is not None and reuse not in self._caches:
            self._caches[reuse] = CachedModel(self, reuse)
        return self if reuse is None else self._caches[reuse]

    async def close(self) -> None:
        """Closes the model and the completion caches of this process. The next request loads the model again."""
        self.close_caches()
        model, self._model = self._model, None
        if close := getattr(model, "close", None):
            await close()

    def close_caches(self) -> None:
        """Closes the completion caches of this process."""
        while self._caches:
            self._caches.popitem()[1].close()

    async def loaded(self) -> Model:
        """The model, once it is loaded. Raises what loading raises."""
        async with self._loading:
            if self._model is None:
                model = self._arguments[0]()
                if start := getattr(model, "start", None):
                    await start()
                self._model = model
        return self._model

    async def complete(self, request: Request) -> Completion:
        model = self._model or await self.loaded()
        async with self._free:
            try:
                return await model.complete(request)
            except ModelLost as error:
                raise ModelGone(f"the model was lost, and without Ray nothing starts it again: {error}") from error

    async def abilities(self) -> Abilities:
        return await abilities_of(await self.loaded())


@dataclass
class InlineAgents:
    """Makes agents in each process that asks for a team of them.

    roles, models: by role; instances: the role of each agent that is one of several of it.
    """

    roles: Mapping[str, Role]
    settings: AgentSettings
    models: Mapping[str, tuple[InlinePool, Reuse | None]]
    instances: Mapping[str, str]
    _here: dict[str, RoleAgent] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return InlineAgents, (self.roles, self.settings, self.models, self.instances)

    def team(self, name: str = "") -> LiveTeam:
        if not self._here:
            for role in self.roles.values():
                pool, reuse = self.models[role.name]
                self._here[role.name] = make_agent(role, pool.model(reuse), self.settings)
        return LiveTeam({role: InlineClient(agent) for role, agent in self._here.items()}, name, self.instances)

    async def close(self) -> None:
        """Closes the models and caches of this process."""
        for pool, _ in self.models.values():
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


class Inline(Pools[InlinePool]):
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
        self, make_model: Callable[[], Model], replicas: int, capacity: int = 64, pool: str = "model", **placed: float
    ) -> None:
        """Start one model that works on as many requests at once as all replicas would. `placed` has no effect."""
        self._pools[pool] = InlinePool(make_model, replicas * capacity)
        self._starting.append(pool)

    def launch_agents(
        self,
        roles: Sequence[Role],
        settings: AgentSettings,
        reuse: Reuse | None = None,
        pool: str = "model",
        others: Mapping[str, tuple[str, Reuse | None]] = MappingProxyType({}),
    ) -> InlineAgents:
        held = roles_held(roles)
        asked = {role: others.get(role, (pool, reuse)) for role in held}
        models = {role: (self._pools[name], kept) for role, (name, kept) in asked.items()}
        return InlineAgents(held, settings, models, instances_of(roles))

    def launch(self, name: str, made: Mapping[str, Callable[[], Any]]) -> dict[str, Local]:
        return {key: Local(make()) for key, make in made.items()}

    async def wait_until_ready(
        self, on_started: Callable[[str, int], None] = lambda kind, loading: None, on_event: OnEvent = ignore
    ) -> None:
        """Load all models. Raises ClusterError where one cannot be loaded."""
        while self._starting:
            name = self._starting[0]
            try:
                await self._pools[name].loaded()
            except Exception as error:
                raise ClusterError(f"{name}: the model could not be loaded: {one_line(error)}") from error
            del self._starting[0]
            on_started("replica", len(self._starting))

    async def unload(self) -> None:
        for pool in self._pools.values():
            await pool.close()

    def clear(self) -> None:
        for pool in self._pools.values():
            pool.close_caches()
        for ended in (self._pools, self._models, self._starting):
            ended.clear()
