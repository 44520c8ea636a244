"""Ray's part: launches replicas, agents and the topology's learner as actors, and wires their calls together."""

from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import socket
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.agent import RoleAgent
from actors.batching import Batcher, stream
from actors.messages import Completion, Request, Turn
from actors.models import Model, ModelError
from actors.pool import Pool
from actors.roles import Role
from actors.settings import AgentSettings, RaySettings
from actors.team import AgentLost, Results, Team

# Batches are pickled here and travel as bytes: Ray's own pickler calls back into Python for every object.
PROTOCOL = pickle.HIGHEST_PROTOCOL


class ClusterError(Exception):
    """The cluster cannot do what was asked of it; one line says why and what to do."""


class ReplicaActor:
    """One replica of the model, loaded at its first use: what loading raises then reaches whoever waits for it."""

    def __init__(self, make_model: Callable[[], Model]) -> None:
        self._make_model = make_model
        self._loading: asyncio.Task[Model] | None = None

    async def ready(self) -> None:
        """Returns once the model is loaded."""
        await self._model()

    async def complete(self, packed: bytes) -> AsyncIterator[bytes]:
        requests: list[Request] = pickle.loads(packed)
        model = await self._model()
        async for results in stream(model.complete, requests):
            yield pickle.dumps(results, PROTOCOL)

    async def _model(self) -> Model:
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        return await self._loading

    async def _load(self) -> Model:
        model = self._make_model()
        start = getattr(model, "start", None)
        if start is not None:
            await start()
        return model


class AgentActor:
    """One role, its memory, and its handle to the pool of replicas."""

    def __init__(self, role: Role, settings: AgentSettings, replicas: Sequence[str]) -> None:
        # By name: handles as arguments would not survive a restart of this actor.
        pool = Pool([Batcher(_requests_to(ray.get_actor(name))) for name in replicas])
        self._agent = RoleAgent(role, pool, settings)
        _collect_rarely()

    async def ready(self) -> None:
        """Returns once the actor is up."""

    async def take(self, packed: bytes) -> AsyncIterator[bytes]:
        turns, closed = pickle.loads(packed)
        self._agent.memory.forget(closed)
        async for results in stream(self._agent.take, turns):
            yield pickle.dumps(results, PROTOCOL)


class Cluster:
    """Everything that runs for one run. Use as a context manager: on the way out all its processes end."""

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        self._actors: list[Any] = []
        self._waiting: list[Any] = []
        self._replicas: list[str] = []

    def __enter__(self) -> Cluster:
        address = self._settings.address
        if address and address != "auto":
            _check_answers(address)
        try:
            with warnings.catch_warnings():
                # Ray forks only to start another program at once, which LanceDB, where it is loaded, cannot know.
                warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
                ray.init(
                    address=address or "local",
                    include_dashboard=False if address is None else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ClusterError(
                f"Ray at ray.address={address!r} does not answer ({reason}): "
                "start one with `ray start --head`, or leave ray.address out to use a local one"
            ) from error
        self._gc_threshold = gc.get_threshold()
        _collect_rarely()
        return self

    def __exit__(self, *_: object) -> None:
        gc.set_threshold(*self._gc_threshold)
        for actor in self._actors:
            ray.kill(actor)
        ray.shutdown()

    def launch_replicas(self, make_model: Callable[[], Model], replicas: int, cpus: float, gpus: float) -> None:
        """Start the pool. A replica that dies is started again; its requests come back as `ModelError`."""
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": 10, "scheduling_strategy": "SPREAD"}
        self._replicas = [f"replica-{number}" for number in range(replicas)]
        for name in self._replicas:
            self._waiting.append(self._launch(ReplicaActor, {**options, "name": name}, make_model))

    def launch_team(self, roles: Sequence[Role], settings: AgentSettings) -> Team:
        """Start one actor per role, over the replicas launched before."""
        options = {"num_cpus": 0, "max_restarts": 10, "scheduling_strategy": "SPREAD"}
        handles = {role.name: self._launch(AgentActor, options, role, settings, self._replicas) for role in roles}
        self._waiting += handles.values()
        return Team({name: _turns_to(name, handle) for name, handle in handles.items()})

    def launch(self, plain_class: type, *args: Any, **kwargs: Any) -> RemoteObject:
        """Any plain class as an actor of its own; it is not restarted, since its state would be lost."""
        return RemoteObject(self._launch(plain_class, {"num_cpus": 0}, *args, **kwargs))

    def _launch(self, plain_class: type, options: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        handle: Any = ray.remote(plain_class).options(**options).remote(*args, **kwargs)
        self._actors.append(handle)
        return handle

    @property
    def starting(self) -> int:
        """How many actors `wait_until_ready` waits for."""
        return len(self._waiting)

    async def wait_until_ready(self, started: Callable[[], None] = lambda: None) -> None:
        """Calls `started` for each actor that has come up.

        Raises:
            ClusterError: an actor could not be placed or started in time, or the model could not be loaded.
        """
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                for ready in asyncio.as_completed([_result(actor.ready.remote()) for actor in self._waiting]):
                    await ready
                    started()
        except (ValueError, ModuleNotFoundError) as error:
            raise ClusterError(f"the model could not be loaded: {error}") from error
        except TimeoutError:
            free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
            raise ClusterError(
                f"the actors were not up after {self._settings.start_timeout_s:g} s: free now are "
                f"{free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs; ask for fewer model.replicas, "
                "model.cpus or model.gpus, or raise ray.start_timeout_s"
            ) from None


def _collect_rarely() -> None:
    """Turns and messages are frozen and make no cycles: by default a third of the time goes into scanning them."""
    gc.set_threshold(100_000)


async def _result(ref: Any) -> Any:
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
            return await _result(method.remote(*args, **kwargs))

        return call


def _turns_to(name: str, handle: Any) -> Callable[[list[Turn], list[str]], Results]:
    async def send(turns: list[Turn], closed: list[str]) -> Results:
        try:
            async for ref in handle.take.options(num_returns="streaming").remote(
                pickle.dumps((turns, closed), PROTOCOL)
            ):
                yield pickle.loads(await ref)
        except RayActorError as error:
            raise AgentLost(f"{name}: {type(error).__name__}") from error

    return send


def _requests_to(handle: Any) -> Callable[[list[Request]], AsyncIterator[list[tuple[int, Completion | Exception]]]]:
    async def send(requests: list[Request]) -> AsyncIterator[list[tuple[int, Completion | Exception]]]:
        try:
            async for ref in handle.complete.options(num_returns="streaming").remote(pickle.dumps(requests, PROTOCOL)):
                yield pickle.loads(await ref)
        except RayActorError as error:
            raise ModelError(f"the replica died: {type(error).__name__}") from error

    return send


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
