"""Ray's part: launches replicas, agents and the topology's learner as actors, and wires their calls together."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from actors.runtime.remote import AgentHandles

# Read when Ray is imported. A replica that is started again is told of in one line of ours (actors/watch.py); Ray's own
# line of a thousand characters would go between the progress bars.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed while executing a task")

import ray

from actors.completions.cache import CachedModel, Reuse
from actors.errors import ClusterError
from actors.messages import Role
from actors.models import Model
from actors.runtime.remote import RESTARTS, AgentActor, RemoteObject, ReplicaActor, Replicas, collect_rarely
from actors.runtime.supervision import News, silent, up, watch
from actors.runtime.team import RemoteTeam
from actors.settings import AgentSettings, RaySettings

CLOSE_S = 5.0
END_S = 2.0


class Cluster:
    """Everything that runs for one run. Use as a context manager: on the way out all its processes end."""

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        self._actors: list[Any] = []
        self._waiting: list[tuple[str, str, Any]] = []
        self._pools: dict[str, Replicas] = {}
        self._agents: list[Any] = []
        self._replicas: list[Any] = []
        self._models: list[Model] = []
        self._wanted = {"CPU": 0.0, "GPU": 0.0}
        self._watches: list[asyncio.Task[None]] = []
        self._senders = 0
        self._numbered: dict[str, int] = {}

    def __enter__(self) -> Cluster:
        address = self._settings.address
        if address and address != "auto":
            _check_answers(address)
        try:
            with warnings.catch_warnings(), interrupted_afterwards():
                # Ray forks only to start another program at once, which LanceDB, where it is loaded, cannot know.
                warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
                ray.init(
                    address=address or "local",
                    include_dashboard=False if address is None else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        except Exception as error:  # a node that does not come up in time is a plain one
            ray.shutdown()
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ClusterError(
                f"Ray at ray.address={address!r} does not answer ({reason}): "
                "start one with `ray start --head`, or leave ray.address out to use a local one"
            ) from error
        except BaseException:
            ray.shutdown()
            raise
        self._gc_threshold = gc.get_threshold()
        collect_rarely()
        return self

    def __exit__(self, *_: object) -> None:
        gc.set_threshold(*self._gc_threshold)
        try:
            self.clear()
        finally:
            ray.shutdown()

    def clear(self) -> None:
        """End everything that was launched. More can be launched afterwards."""
        for task in self._watches:
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
        for ended in (self._watches, self._models, self._agents, self._replicas, self._actors, self._waiting):
            ended.clear()
        self._pools.clear()
        self._wanted = {"CPU": 0.0, "GPU": 0.0}

    @property
    def gpus(self) -> float:
        """How many GPUs there are now."""
        there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return there.get("GPU", 0.0)

    def launch_replicas(
        self,
        make_model: Callable[[], Model],
        replicas: int,
        cpus: float,
        gpus: float,
        capacity: int = 64,
        pool: str = "model",
    ) -> None:
        """Start a pool. A replica that dies or hangs is started again, and its requests go to another one.

        Args:
            make_model: called in each replica's process.
            replicas, cpus, gpus: how many, and what Ray sets aside for each.
            capacity: the most requests that a replica works on at once.
            pool: its name; several pools may run side by side.

        Raises:
            ClusterError: the machine can never hold so many.
        """
        self._check_fits(pool, replicas, cpus, gpus)
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": RESTARTS, "scheduling_strategy": "SPREAD"}
        # Counted on, for Ray may not have let go yet of the names of replicas that were ended.
        start = self._numbered.get(pool, 0)
        self._numbered[pool] = start + replicas
        names = tuple(f"{pool}-{number}" for number in range(start, start + replicas))
        self._pools[pool] = Replicas(names, capacity, self._settings.start_timeout_s)
        for name in names:
            handle = self._launch(ReplicaActor, {**options, "name": name}, make_model, capacity)
            self._waiting.append(("replica", name, handle))
            self._replicas.append(handle)

    def launch_team(
        self, roles: Sequence[Role], settings: AgentSettings, reuse: Reuse | None = None, pool: str = "model"
    ) -> RemoteTeam:
        """As `launch_agents`, for this process alone."""
        return self.launch_agents(roles, settings, reuse, pool).team()

    def launch_agents(
        self, roles: Sequence[Role], settings: AgentSettings, reuse: Reuse | None = None, pool: str = "model"
    ) -> AgentHandles:
        """Start one actor per role, over the replicas launched before; with `reuse`, none asks twice for the same."""
        options = {"num_cpus": 0, "max_restarts": RESTARTS, "scheduling_strategy": "SPREAD"}
        replicas = self._pools[pool]
        handles = {
            role.name: self._launch(AgentActor, options, self._sender(role.name), role, settings, replicas, reuse)
            for role in roles
        }
        self._waiting += [("agent", name, handle) for name, handle in handles.items()]
        return AgentHandles(handles)

    def replicas(self, pool: str = "model") -> Replicas:
        """A pool, as far as other processes need to know it."""
        return self._pools[pool]

    def model(self, reuse: Reuse | None = None, pool: str = "model") -> Model:
        """A pool as a model for this process. It is closed with the cluster."""
        model = self._pools[pool].model(self._sender("driver"), reuse)
        self._models.append(model)
        return model

    def _sender(self, name: str) -> str:
        """A name that stays the same when the process behind it is started anew, and that no other sender has."""
        self._senders += 1
        return f"{self._senders}-{name}"

    def launch(self, plain_class: type, *args: Any, **kwargs: Any) -> RemoteObject:
        """Any plain class as an actor of its own; it is not restarted, since its state would be lost."""
        return RemoteObject(self._launch(plain_class, {"num_cpus": 0}, *args, **kwargs))

    def _launch(self, plain_class: type, options: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        # Threads of their own for methods that must answer while the others are busy; only the decorator takes them.
        remote: Any = ray.remote
        wrapped = (
            remote(concurrency_groups={"pulse": 1})(plain_class) if plain_class is ReplicaActor else remote(plain_class)
        )
        handle = wrapped.options(**options).remote(*args, **kwargs)
        self._actors.append(handle)
        return handle

    @property
    def starting(self) -> int:
        """How many actors `wait_until_ready` waits for."""
        return len(self._waiting)

    @property
    def loading(self) -> int:
        """How many of them are replicas, which take as long as their model takes to load."""
        return sum(kind == "replica" for kind, _, _ in self._waiting)

    async def wait_until_ready(
        self, started: Callable[[str, int], None] = lambda kind, loading: None, news: News = silent
    ) -> None:
        """Calls `started` for each actor that has come up, with its kind (`replica` or `agent`) and the number of
        replicas that are still loading. From then on, a replica that hangs is noticed and started again; `news` gets
        one line when a replica is lost, and one when it is up again.

        Raises:
            ClusterError: an actor could not be placed or started in time, or the model could not be loaded.
        """
        starting = [asyncio.create_task(up(*actor)) for actor in self._waiting]
        loading = self.loading
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                for actor in asyncio.as_completed(starting):
                    kind = await actor
                    loading -= kind == "replica"
                    started(kind, loading)
        except TimeoutError:
            free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
            late = [name for (_, name, _), actor in zip(self._waiting, starting, strict=True) if not actor.done()]
            raise ClusterError(
                f"{', '.join(late)} not up after {self._settings.start_timeout_s:g} s: free now are "
                f"{free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs; ask for fewer model.replicas, "
                "model.cpus or model.gpus, or raise ray.start_timeout_s"
            ) from None
        finally:
            for actor in starting:
                actor.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            waited, self._waiting = self._waiting, []
        for kind, name, handle in waited:
            if kind == "replica":
                self._watches.append(asyncio.create_task(watch(name, handle, news)))
            else:
                self._agents.append(handle)

    def _check_fits(self, pool: str, replicas: int, cpus: float, gpus: float) -> None:
        """What this machine does not have will not come. A cluster may be given more nodes, so there it is waited for,
        unless its autoscaler is known to have no such nodes either.
        """
        most: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        if self._settings.address is not None:
            growth = _autoscaler_limits()
            if growth is None:
                return
            most = {kind: max(most.get(kind, 0.0), growth.get(kind, 0.0)) for kind in ("CPU", "GPU")}
        for kind, each in (("CPU", cpus), ("GPU", gpus)):
            self._wanted[kind] += replicas * each
            if self._wanted[kind] > most.get(kind, 0.0):
                raise ClusterError(
                    f"{pool}.replicas={replicas} with {pool}.{kind.lower()}s={each:g} each cannot be placed: all "
                    f"replicas need {self._wanted[kind]:g} {kind}s, and there are {most.get(kind, 0.0):g}; ask for "
                    "fewer, or join a cluster that has them with ray.address"
                )


def _autoscaler_limits() -> dict[str, float] | None:
    """The most that the cluster's autoscaler may grow it to; None when that is not known."""
    from ray._private.state import state

    limits = state.get_max_resources_from_cluster_config()
    return None if limits is None else {kind: float(most) for kind, most in limits.items()}


@contextmanager
def interrupted_afterwards() -> Iterator[None]:
    """A Ctrl-C meanwhile is heeded at the end: Ray crashes the process when it is interrupted while it connects."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


def _check_answers(address: str) -> None:
    """Ray itself waits long for a host that is not there; a plain connection tells within seconds."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ClusterError(f"ray.address={address!r} is not an address: expected `auto` or `host:port`")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise ClusterError(
            f"Ray at ray.address={address!r} does not answer ({error}): start one with `ray start --head`, "
            "or leave ray.address out to use a local one"
        ) from error
