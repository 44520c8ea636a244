"""Launches, supervises and ends all that runs on Ray for one run."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ray

from actors.completions.cache import Reuse
from actors.errors import ClusterError
from actors.messages import Role
from actors.models import Model
from actors.processes import collect_rarely
from actors.runtime.head import connect, disconnect
from actors.runtime.pool import Pools, RemotePool
from actors.runtime.process import AgentProcess, Process, ReplicaProcess
from actors.runtime.remote import RESTARTS, Actor
from actors.runtime.service_client import Client
from actors.runtime.stateful import LearnerProcess, RemoteStateful
from actors.runtime.supervision import START_S, OnEvent, ignore, supervise, wait_until_up, watch_head
from actors.runtime.team import RemoteAgents, instances_of, roles_held
from actors.settings import AgentSettings, RaySettings

# Of the memory that Ray counts, in bytes. What asks for nothing at all is placed at random, whatever its strategy is.
SOME_MEMORY = 1
CLOSE_S = 5.0  # agents write their caches' last completions to disk
END_S = 2.0  # replicas signal their engines' processes


class Cluster(Pools[RemotePool]):
    """Runs agents, models and learners on Ray. A context manager: all their processes end with its block."""

    def __init__(self, settings: RaySettings) -> None:
        super().__init__()
        self._settings = settings
        self._launched: list[Actor] = []
        self._starting: list[Actor] = []
        self._reserved = {"CPU": 0.0, "GPU": 0.0}
        self._supervisors: list[asyncio.Task[None]] = []
        self._start_timeout_s = settings.start_timeout_s or START_S
        self._numbers: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> "Cluster":
        connect(self._settings.address)
        collect_rarely()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.clear()
        finally:
            disconnect(forget=not (kind and issubclass(kind, Exception)))

    def clear(self) -> None:
        """End everything that was launched. More can be launched afterwards."""
        # Where the event loop still runs, supervisors might take for lost what is ended here.
        for task in self._supervisors:
            if not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)
        for model in self._models:
            model.close()
        for kind, method, wait_s in (("agent", "close", CLOSE_S), ("replica", "end_children", END_S)):
            ending = [getattr(actor.handle, method).remote() for actor in self._launched if actor.kind == kind]
            if ending:
                ray.wait(ending, num_returns=len(ending), timeout=wait_s)
        for actor in self._launched:
            ray.kill(actor.handle)
        for ended in (self._supervisors, self._models, self._launched, self._starting):
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
        capacity: int = 64,
        pool: str = "model",
        *,
        cpus: float,
        gpus: float,
        start_timeout_s: float = START_S,
    ) -> None:
        """Start a pool. A replica that dies or hangs is started again, and its requests go to another one.

        make_model: called in each replica's process.
        replicas, cpus, gpus: how many, and what Ray sets aside for each.
        capacity: the most requests that a replica works on at once.
        start_timeout_s: longest time to load its models, unless the settings have a timeout.

        Raises ClusterError where the machine can never hold so many.
        """
        # A cluster at an address may be given more nodes.
        most: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        needed = {kind: self._reserved[kind] + replicas * each for kind, each in (("CPU", cpus), ("GPU", gpus))}
        for kind, each in (("CPU", cpus), ("GPU", gpus)) if self._settings.address is None else ():
            if needed[kind] > most.get(kind, 0.0):
                raise ClusterError(
                    f"{pool}.replicas={replicas} with {pool}.{kind.lower()}s={each:g} each cannot be placed: all "
                    f"replicas need {needed[kind]:g} {kind}s, and there are {most.get(kind, 0.0):g}; ask for "
                    "fewer, or join a cluster that has them with ray.address"
                )
        self._reserved = needed
        timeout_s = self._settings.start_timeout_s or start_timeout_s
        self._start_timeout_s = max(timeout_s, self._start_timeout_s)
        options = {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}
        actors = [self._launch("replica", pool, ReplicaProcess, options, make_model, capacity) for _ in range(replicas)]
        self._pools[pool] = RemotePool(tuple(actors), capacity, timeout_s)

    def launch_agents(
        self,
        roles: Sequence[Role],
        settings: AgentSettings,
        reuse: Reuse | None = None,
        pool: str = "model",
        others: Mapping[str, tuple[str, Reuse | None]] = MappingProxyType({}),
    ) -> RemoteAgents:
        """Start one actor per role, which all instances of the role share, over replicas launched before.

        With `reuse` equal requests are computed once. `others`: pool and cache, by name, of roles that ask another
        model.
        """
        options = {"num_cpus": 0, "memory": SOME_MEMORY, "scheduling_strategy": "SPREAD"}
        actors = {}
        for name, role in roles_held(roles).items():
            asked, kept = others.get(name, (pool, reuse))
            actors[name] = self._launch("agent", name, AgentProcess, options, role, settings, self._pools[asked], kept)
        return RemoteAgents(actors, instances_of(roles))

    def launch(self, name: str, made: Mapping[str, Callable[[], Any]]) -> dict[str, RemoteStateful]:
        """Start one actor that makes objects. The state of each (its `state` and `load`) outlives the process."""
        actor = self._launch("learner", name, LearnerProcess, {"num_cpus": 0}, made)
        client = Client[Any, Any](actor.address)
        return {key: RemoteStateful(key, actor, client) for key in made}

    def _launch(self, kind: str, name: str, process: type[Process], options: Mapping[str, Any], *args: Any) -> Actor:
        # Numbers go on after `clear`, for Ray may still know the names of actors that were ended.
        number = self._numbers[kind, name]
        self._numbers[kind, name] += 1
        unique = f"{name}-{number}" if kind == "replica" else f"{kind} {name} {number}"
        remote: Any = ray.remote  # only the decorator takes groups of threads, not `options`
        actor_class = remote(concurrency_groups={"pulse": 1})(process)
        handle = actor_class.options(name=unique, max_restarts=RESTARTS, **options).remote(*args)
        actor = Actor(unique, kind, unique if kind == "replica" else name, handle)
        self._launched.append(actor)
        self._starting.append(actor)
        return actor

    @property
    def starting(self) -> int:
        """Actors that `wait_until_ready` waits for."""
        return len(self._starting)

    @property
    def loading(self) -> int:
        """Replicas among them, which take as long as their model takes to load."""
        return sum(actor.kind == "replica" for actor in self._starting)

    async def wait_until_ready(
        self, on_started: Callable[[str, int], None] = lambda kind, loading: None, on_event: OnEvent = ignore
    ) -> None:
        """Wait until everything that was launched is up. From then on, actors that die or hang are restarted.

        on_started: called with each actor's kind (`replica`, `agent`, `learner`) and the number of replicas still
        loading.
        on_event: called with one line when an actor is lost, and one when it is up again.

        Raises ClusterError where an actor could not be placed or started in time, or the model could not be loaded.
        """
        starting = [asyncio.create_task(wait_until_up(actor)) for actor in self._starting]
        loading = self.loading
        try:
            async with asyncio.timeout(self._start_timeout_s):
                for task in asyncio.as_completed(starting):
                    actor = await task
                    loading -= actor.kind == "replica"
                    on_started(actor.kind, loading)
        except TimeoutError:
            free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
            late = [actor.title for actor, task in zip(self._starting, starting, strict=True) if not task.done()]
            raise ClusterError(
                f"{', '.join(late)} not up after {self._start_timeout_s:g} s: free now are "
                f"{free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs; ask for fewer model.replicas "
                "or model.gpus, or raise ray.start_timeout_s"
            ) from None
        finally:
            for waiting in starting:
                waiting.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            started, self._starting = self._starting, []
        if not self._supervisors:
            head: str = ray.get_runtime_context().gcs_address
            self._supervisors.append(asyncio.create_task(watch_head(head, on_event)))
        for actor in started:
            watch = supervise(actor, on_event, self._settings.hung_s)
            self._supervisors.append(asyncio.create_task(watch))
