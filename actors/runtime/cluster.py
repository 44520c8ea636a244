"""Everything that runs on Ray for one run: launched, waited for, supervised, and ended with it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ray

from actors.completions.cache import CachedModel, Reuse
from actors.errors import ClusterError
from actors.memory import collect_rarely
from actors.messages import Abilities, Role
from actors.models import Model, abilities_of
from actors.runtime.agent_actor import AgentActor, AgentHandles
from actors.runtime.agents import instances_of, roles_held
from actors.runtime.connection import connect, disconnect, session_folder
from actors.runtime.head import forget_session
from actors.runtime.remote import RESTARTS
from actors.runtime.replica_actor import PoolHandle, ReplicaActor
from actors.runtime.runtime import START_S, OnEvent, ignore
from actors.runtime.stateful_actor import StatefulActor, StatefulObject
from actors.runtime.supervision import supervise, wait_until_up, watch_head
from actors.settings import AgentSettings, RaySettings

# Of the memory that Ray counts, in bytes. What asks for nothing at all is placed at random, whatever its strategy says.
SOME_MEMORY = 1
CLOSE_S = 5.0  # agents write their caches' last completions to disk
END_S = 2.0  # replicas signal their engines' processes


class Cluster:
    """Everything that runs for one run. Use as a context manager: on the way out all its processes end."""

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        self._actors: list[Any] = []
        self._starting: list[tuple[str, str, Any]] = []
        self._pools: dict[str, PoolHandle] = {}
        self._agents: list[Any] = []
        self._replicas: list[Any] = []
        self._models: list[Model] = []
        self._reserved = {"CPU": 0.0, "GPU": 0.0}
        self._supervisors: list[asyncio.Task[None]] = []
        self._senders = 0
        self._start_timeout_s = settings.start_timeout_s or START_S
        self._next_number: dict[str, int] = {}

    def __enter__(self) -> Cluster:
        connect(self._settings.address)
        self._session = session_folder() if self._settings.address is None else None
        self._gc_threshold = gc.get_threshold()
        collect_rarely()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        gc.set_threshold(*self._gc_threshold)
        try:
            self.clear()
        finally:
            disconnect()
        # What failed may be told by its logs.
        if self._session and not (kind and issubclass(kind, Exception)):
            forget_session(self._session)

    def clear(self) -> None:
        """End everything that was launched. More can be launched afterwards."""
        # Where the event loop still runs, supervisors might take for lost what is ended here.
        for task in self._supervisors:
            if not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)
        for model in self._models:
            if isinstance(model, CachedModel):
                model.close()
        closing = [agent.close.remote() for agent in self._agents]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=CLOSE_S)
        ending = [replica.end_children.remote() for replica in self._replicas]
        if ending:
            ray.wait(ending, num_returns=len(ending), timeout=END_S)
        for actor in self._actors:
            ray.kill(actor)
        for ended in (self._supervisors, self._models, self._agents, self._replicas, self._actors, self._starting):
            ended.clear()
        self._pools.clear()
        self._reserved = {"CPU": 0.0, "GPU": 0.0}

    @property
    def gpus(self) -> float:
        """GPUs in the cluster now."""
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return resources.get("GPU", 0.0)

    def launch_replicas(
        self,
        make_model: Callable[[], Model],
        replicas: int,
        cpus: float,
        gpus: float,
        capacity: int = 64,
        pool: str = "model",
        start_timeout_s: float = START_S,
    ) -> None:
        """Start a pool. A replica that dies or hangs is started again, and its requests go to another one.

        Args:
            make_model: called in each replica's process.
            replicas, cpus, gpus: how many, and what Ray sets aside for each.
            capacity: the most requests that a replica works on at once.
            pool: its name; several pools may run side by side.
            start_timeout_s: how long its models take to load at most, where the settings do not say.

        Raises:
            ClusterError: the machine can never hold so many.
        """
        self._check_fits(pool, replicas, cpus, gpus)
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": RESTARTS, "scheduling_strategy": "SPREAD"}
        # Numbers go on after `clear`, for Ray may not have let go yet of the names of replicas that were ended.
        start = self._next_number.get(pool, 0)
        self._next_number[pool] = start + replicas
        names = tuple(f"{pool}-{number}" for number in range(start, start + replicas))
        timeout_s = self._settings.start_timeout_s or start_timeout_s
        self._start_timeout_s = max(timeout_s, self._start_timeout_s)
        self._pools[pool] = PoolHandle(names, capacity, timeout_s)
        remote: Any = ray.remote  # only the decorator takes groups of threads, not `options`
        actor_class = remote(concurrency_groups={"pulse": 1})(ReplicaActor)
        for name in names:
            handle = self._launch(actor_class, {**options, "name": name}, make_model, capacity)
            self._starting.append(("replica", name, handle))
            self._replicas.append(handle)

    def launch_agents(
        self,
        roles: Sequence[Role],
        settings: AgentSettings,
        reuse: Reuse | None = None,
        pool: str = "model",
        others: Mapping[str, tuple[str, Reuse | None]] = MappingProxyType({}),
    ) -> AgentHandles:
        """Start one actor per role, over the replicas launched before; with `reuse`, none asks twice for the same.

        All instances of a role share its actor, which keeps their turns apart.

        Args:
            others: pool and cache of the roles that ask another model, by the role's name.
        """
        options = {
            "num_cpus": 0,
            "memory": SOME_MEMORY,
            "max_restarts": RESTARTS,
            "scheduling_strategy": "SPREAD",
        }
        actor_class = ray.remote(AgentActor)
        handles = {}
        for name, role in roles_held(roles).items():
            asked, kept = others.get(name, (pool, reuse))
            handles[name] = self._launch(
                actor_class, options, self._sender(name), role, settings, self._pools[asked], kept
            )
        self._starting += [("agent", name, handle) for name, handle in handles.items()]
        return AgentHandles(handles, instances_of(roles))

    def pool(self, name: str = "model") -> PoolHandle:
        """A pool, for a sender in another process."""
        return self._pools[name]

    def model(self, reuse: Reuse | None = None, pool: str = "model") -> Model:
        """A pool as a model for this process. It is closed with the cluster."""
        model = self._pools[pool].model(self._sender("driver"), reuse)
        self._models.append(model)
        return model

    async def abilities(self, pool: str = "model") -> Abilities:
        """What the model of a pool can do. Raises ModelGone where no replica is left.

        Called after `wait_until_ready`, it takes one call; before, as long as the model takes to load.
        """
        return await abilities_of(self._pools[pool].model(self._sender("driver"), reuse=None))

    def _sender(self, name: str) -> str:
        """A name that no other sender has, and that stays the same when the process behind it is started anew."""
        self._senders += 1
        return f"{self._senders}-{name}"

    def launch(self, name: str, made: Mapping[str, Callable[[], Any]]) -> dict[str, StatefulObject]:
        """What is `made`, in one actor; what it says as `state` and takes with `load` outlives the actor's process."""
        options = {"num_cpus": 0, "max_restarts": RESTARTS}
        remote: Any = ray.remote
        actor_class = remote(concurrency_groups={"pulse": 1})(StatefulActor)
        handle = self._launch(actor_class, options, made)
        self._starting.append(("learner", name, handle))
        return {key: StatefulObject(name, handle, key) for key in made}

    def _launch(self, actor_class: Any, options: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        handle = actor_class.options(**options).remote(*args, **kwargs)
        self._actors.append(handle)
        return handle

    @property
    def starting(self) -> int:
        """Actors that `wait_until_ready` waits for."""
        return len(self._starting)

    @property
    def loading(self) -> int:
        """Replicas among them, which take as long as their model takes to load."""
        return sum(kind == "replica" for kind, _, _ in self._starting)

    async def wait_until_ready(
        self, on_started: Callable[[str, int], None] = lambda kind, loading: None, on_event: OnEvent = ignore
    ) -> None:
        """Wait until all that was launched is up. From then on, what dies or hangs is noticed and restarted.

        Args:
            on_started: called for each actor that has come up, with its kind (`replica`, `agent` or `learner`) and the
                number of replicas that are still loading.
            on_event: called with one line when an actor is lost, and one when it is up again.

        Raises:
            ClusterError: an actor could not be placed or started in time, or the model could not be loaded.
        """
        starting = [asyncio.create_task(wait_until_up(*actor)) for actor in self._starting]
        loading = self.loading
        try:
            async with asyncio.timeout(self._start_timeout_s):
                for actor in asyncio.as_completed(starting):
                    kind = await actor
                    loading -= kind == "replica"
                    on_started(kind, loading)
        except TimeoutError:
            free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
            late = [name for (_, name, _), actor in zip(self._starting, starting, strict=True) if not actor.done()]
            raise ClusterError(
                f"{', '.join(late)} not up after {self._start_timeout_s:g} s: free now are "
                f"{free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs; ask for fewer model.replicas "
                "or model.gpus, or raise ray.start_timeout_s"
            ) from None
        finally:
            for actor in starting:
                actor.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            started, self._starting = self._starting, []
        if not self._supervisors:
            head: str = ray.get_runtime_context().gcs_address
            self._supervisors.append(asyncio.create_task(watch_head(head, on_event)))
        for kind, name, handle in started:
            words = handle.last_words.remote if kind == "replica" else None
            watch = supervise(name, handle, on_event, self._settings.hung_s, words)
            self._supervisors.append(asyncio.create_task(watch))
            if kind == "agent":
                self._agents.append(handle)

    def _check_fits(self, pool: str, replicas: int, cpus: float, gpus: float) -> None:
        """Raises ClusterError for replicas that can never be placed.

        What this machine does not have will not come. A cluster may be given more nodes, so there it is waited for,
        unless its autoscaler is known to have no such nodes either.
        """
        most: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        if self._settings.address is not None:
            growth = _autoscaler_limits()
            if growth is None:
                return
            most = {kind: max(most.get(kind, 0.0), growth.get(kind, 0.0)) for kind in ("CPU", "GPU")}
        each_takes = {"CPU": cpus, "GPU": gpus}
        needed = {kind: self._reserved[kind] + replicas * each for kind, each in each_takes.items()}
        for kind, each in each_takes.items():
            if needed[kind] > most.get(kind, 0.0):
                raise ClusterError(
                    f"{pool}.replicas={replicas} with {pool}.{kind.lower()}s={each:g} each cannot be placed: all "
                    f"replicas need {needed[kind]:g} {kind}s, and there are {most.get(kind, 0.0):g}; ask for "
                    "fewer, or join a cluster that has them with ray.address"
                )
        # Of those that are launched: what was refused takes nothing.
        self._reserved.update(needed)


def _autoscaler_limits() -> dict[str, float] | None:
    """CPUs and GPUs that the cluster's autoscaler may grow it to; None when that is not known."""
    from ray._private.state import state

    limits = state.get_max_resources_from_cluster_config()
    return None if limits is None else {kind: float(most) for kind, most in limits.items()}
