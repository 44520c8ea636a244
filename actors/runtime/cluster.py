"""Launches, supervises and ends all that runs on Ray for one run."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from actors.completions.cache import Reuse
from actors.errors import AgentLost, ClusterError
from actors.messages import Role, Turn, TurnResult
from actors.models import Model
from actors.processes import collect_rarely
from actors.runtime.head import connect, disconnect
from actors.runtime.launcher import Launcher, OnEvent, ignore
from actors.runtime.pool import RemotePool
from actors.runtime.process import AgentProcess, Process, ReplicaProcess
from actors.runtime.remote import RESTARTS, Actor, loss
from actors.runtime.service_client import Client
from actors.runtime.stateful import LearnerProcess, RemoteStateful
from actors.runtime.supervision import pulse, supervise, wait_until_up, watch_head
from actors.settings import START_S, AgentSettings, RaySettings

# Of the memory that Ray counts, in bytes. What asks for nothing at all is placed at random, whatever its strategy is.
SOME_MEMORY = 1
CLOSE_S = 5.0  # agents write their caches' last completions to disk
END_S = 2.0  # replicas signal their engines' processes


class RemoteRole:
    """The process of a role's agents."""

    def __init__(self, role: str, actor: Actor) -> None:
        self._role = role
        self._actor = actor

    def client(self) -> Client[Turn, TurnResult]:
        return Client(self._actor.address, self._lost)

    def _lost(self, error: Exception) -> AgentLost:
        return AgentLost(f"agent lost: {self._role}: {loss(error)}")

    async def unload(self) -> None:
        """Does nothing: agents close what they hold open when they end."""


class Cluster(Launcher[RemotePool]):
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
        """Ends everything that was launched. More can be launched afterwards."""
        # Where the event loop still runs, supervisors might take the processes that end here for lost.
        for task in self._supervisors:
            if not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)
        for pool in self._pools.values():
            pool.close_caches()
        self._end("agent", "close", CLOSE_S)
        self._end("replica", "end_children", END_S)
        for actor in self._launched:
            ray.kill(actor.handle)
        self._supervisors.clear()
        self._pools.clear()
        self._launched.clear()
        self._starting.clear()
        self._reserved = {"CPU": 0.0, "GPU": 0.0}

    def _end(self, kind: str, method: str, wait_s: float) -> None:
        ending = [getattr(actor.handle, method).remote() for actor in self._launched if actor.kind == kind]
        if ending:
            ray.wait(ending, num_returns=len(ending), timeout=wait_s)

    @property
    def gpus(self) -> float:
        """GPUs in the cluster now."""
        return _resources().get("GPU", 0.0)

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
        """Starts a pool. A replica that dies or hangs is started again, and its requests go to another one.

        make_model: called in each replica's process.
        replicas, cpus, gpus: how many, and what Ray sets aside for each.
        capacity: the most requests that a replica works on at once.
        start_timeout_s: longest time to load its models, unless the settings have a timeout.

        Raises ClusterError where the machine can never hold so many.
        """
        self._reserve(pool, replicas, {"CPU": cpus, "GPU": gpus})
        timeout_s = self._settings.start_timeout_s or start_timeout_s
        self._start_timeout_s = max(timeout_s, self._start_timeout_s)
        options = {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}
        actors = [self._launch("replica", pool, ReplicaProcess, options, make_model, capacity) for _ in range(replicas)]
        self._pools[pool] = RemotePool(actors, capacity, timeout_s)

    def _reserve(self, pool: str, replicas: int, amounts: Mapping[str, float]) -> None:
        reserved = {kind: self._reserved[kind] + replicas * amount for kind, amount in amounts.items()}
        # A cluster at an address may be given more nodes.
        if self._settings.address is None:
            resources = _resources()
            for kind, amount in amounts.items():
                total = resources.get(kind, 0.0)
                if reserved[kind] > total:
                    raise ClusterError(
                        f"{pool}.replicas={replicas} with {pool}.{kind.lower()}s={amount:g} each cannot be placed: all "
                        f"replicas need {reserved[kind]:g} {kind}s, and there are {total:g}; ask for fewer, or join a "
                        "cluster that has them with ray.address"
                    )
        self._reserved = reserved

    def _launch_role(self, role: Role, settings: AgentSettings, pool: RemotePool, reuse: Reuse | None) -> RemoteRole:
        options = {"num_cpus": 0, "memory": SOME_MEMORY, "scheduling_strategy": "SPREAD"}
        return RemoteRole(
            role.name, self._launch("agent", role.name, AgentProcess, options, role, settings, pool, reuse)
        )

    def launch(self, name: str, makers: Mapping[str, Callable[[], Any]]) -> dict[str, RemoteStateful]:
        """Starts one actor that makes objects. The state of each (its `state` and `load`) outlives the process."""
        actor = self._launch("learner", name, LearnerProcess, {"num_cpus": 0}, makers)
        client = Client[Any, Any](actor.address, frozen=False)
        return {key: RemoteStateful(key, actor, client) for key in makers}

    def _launch(
        self, kind: str, name: str, process: type[Process], options: Mapping[str, Any], *arguments: Any
    ) -> Actor:
        # Numbers go on after `clear`, for Ray may still know the names of actors that were ended.
        number = self._numbers[kind, name]
        self._numbers[kind, name] += 1
        if kind == "replica":
            title = unique_name = f"{name}-{number}"
        else:
            title = name
            unique_name = f"{kind} {name} {number}"
        remote: Any = ray.remote  # only the decorator takes groups of threads, not `options`
        actor_class = remote(concurrency_groups={"pulse": 1})(process)
        handle = actor_class.options(name=unique_name, max_restarts=RESTARTS, **options).remote(*arguments)
        actor = Actor(unique_name, kind, title, handle)
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
        return len([actor for actor in self._starting if actor.kind == "replica"])

    async def wait_until_ready(
        self, on_started: Callable[[str, int], None] = lambda kind, loading: None, on_event: OnEvent = ignore
    ) -> None:
        """Waits until everything that was launched is up. From then on, actors that die or hang are restarted.

        on_started: called with each actor's kind (`replica`, `agent`, `learner`) and the number of replicas still
        loading.
        on_event: called with one line when an actor is lost, and one when it is up again.

        Raises ClusterError where an actor could not be placed or started in time, or the model could not be loaded.
        """
        waiting = {asyncio.create_task(wait_until_up(actor)): actor for actor in self._starting}
        loading = self.loading
        try:
            async with asyncio.timeout(self._start_timeout_s):
                for task in asyncio.as_completed(waiting):
                    actor = await task
                    if actor.kind == "replica":
                        loading -= 1
                    on_started(actor.kind, loading)
        except TimeoutError:
            late_actors = [actor for task, actor in waiting.items() if not task.done()]
            reason = await self._reason_of_delay(late_actors)
            raise ClusterError(reason) from None
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            self._starting = []

        if not self._supervisors:
            head: str = ray.get_runtime_context().gcs_address
            self._supervisors.append(asyncio.create_task(watch_head(head, on_event)))
        for actor in waiting.values():
            supervision = supervise(actor, on_event, self._settings.hung_s)
            self._supervisors.append(asyncio.create_task(supervision))

    async def _reason_of_delay(self, late_actors: Sequence[Actor]) -> str:
        """Names the actors without a process, for which Ray found no place, and those that still load."""
        pulses = await asyncio.gather(*(pulse(actor, 0) for actor in late_actors), return_exceptions=True)
        placed_titles: list[str] = []
        unplaced_titles: list[str] = []
        for actor, sign_of_life in zip(late_actors, pulses, strict=True):
            titles = unplaced_titles if isinstance(sign_of_life, BaseException) else placed_titles
            titles.append(actor.title)

        reasons: list[str] = []
        if unplaced_titles:
            free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
            reasons.append(
                f"no process for {', '.join(unplaced_titles)} (free now are {free.get('CPU', 0):g} CPUs and "
                f"{free.get('GPU', 0):g} GPUs; ask for fewer model.replicas or model.gpus)"
            )
        if placed_titles:
            reasons.append(f"still loading: {', '.join(placed_titles)}")
        reasons.append("to wait longer, raise ray.start_timeout_s")
        return f"not ready after {self._start_timeout_s:g} s: {'; '.join(reasons)}"


def _resources() -> dict[str, float]:
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources
