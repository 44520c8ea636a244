"""Launches agents over pools of replicas. Both runtimes do it in the same way, and differ in where all of it runs."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

from actors.completions.cache import CachedModel, Reuse
from actors.messages import Abilities, Role
from actors.models import Model, abilities_of
from actors.runtime.team import Agents, RoleSource, distinct_roles, instances_of
from actors.settings import AgentSettings

OnEvent = Callable[[str], None]


def ignore(event: str) -> None:
    """Drops an event."""


class ModelPool:
    """The replicas of one model, for whoever sends requests in any process. Each process has its own caches."""

    def __init__(self) -> None:
        self._caches: dict[Reuse, CachedModel] = {}

    def sender(self) -> Model:
        """Returns the replicas as one model for this process."""
        raise NotImplementedError

    def model(self, reuse: Reuse | None) -> Model:
        """Returns the pool as a model, behind a completion cache with `reuse`."""
        if reuse is None:
            return self.sender()
        if reuse not in self._caches:
            self._caches[reuse] = CachedModel(self.sender(), reuse)
        return self._caches[reuse]

    async def close(self) -> None:
        """Closes what this process has opened. The next request opens it again."""
        self.close_caches()

    def close_caches(self) -> None:
        """Closes the completion caches of this process."""
        while self._caches:
            self._caches.popitem()[1].close()


P = TypeVar("P", bound=ModelPool)


class Launcher(Generic[P]):
    """The pools of a runtime by name, and the agents over them."""

    def __init__(self) -> None:
        self._pools: dict[str, P] = {}

    def pool(self, name: str = "model") -> P:
        """Returns a pool, for a sender in another process."""
        return self._pools[name]

    def model(self, reuse: Reuse | None = None, pool: str = "model") -> Model:
        """Returns a pool as a model for this process."""
        return self._pools[pool].model(reuse)

    async def abilities(self, pool: str = "model") -> Abilities:
        """Returns the abilities of a pool's model, once it is loaded. Raises ModelGone where no replica is left."""
        return await abilities_of(self._pools[pool].model(None))

    async def unload(self) -> None:
        """Closes the models that this process has loaded, in the event loop that loaded them."""
        for pool in self._pools.values():
            await pool.close()

    def launch_agents(
        self,
        roles: Sequence[Role],
        settings: AgentSettings,
        reuse: Reuse | None = None,
        pool: str = "model",
        others: Mapping[str, tuple[str, Reuse | None]] = MappingProxyType({}),
    ) -> Agents:
        """Starts the agents of each role, which all its instances share, over replicas launched before.

        With `reuse` equal requests are computed once. `others`: pool and cache, by name, of roles that ask another
        model.
        """
        sources = {}
        for name, role in distinct_roles(roles).items():
            pool_name, role_reuse = others.get(name, (pool, reuse))
            sources[name] = self._launch_role(role, settings, self._pools[pool_name], role_reuse)
        return Agents(sources, instances_of(roles))

    def _launch_role(self, role: Role, settings: AgentSettings, pool: P, reuse: Reuse | None) -> RoleSource:
        raise NotImplementedError
