"""Ray actors with a service: the processes of agents and replicas."""

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

import psutil
import ray

from actors.agents.role_agent import RoleAgent
from actors.completions.cache import Reuse
from actors.errors import ModelLost
from actors.messages import Abilities, Completion, Request, Role, Turn, TurnResult
from actors.models import Model, abilities_of, started
from actors.processes import collect_rarely, kill
from actors.runtime.channel import Address
from actors.runtime.launcher import ModelPool
from actors.runtime.remote import one_line, own_host
from actors.runtime.service import Service
from actors.runtime.team import make_agent
from actors.settings import AgentSettings

BEAT_S = 1.0
SEND_S = 0.1  # what was sent last needs a moment to leave the process


class Process:
    """Serves one agent, model or set of learners to clients in other processes.

    It is opened at its first use, and whoever waits for it receives what opening raises. Methods of the group `pulse`
    run in another thread, so that they answer while a model is loading.
    """

    hangs = True
    """True if a blocked event loop means that the process hangs."""
    frozen = True
    """True if no result changes after it was sent."""

    def __init__(self, capacity: int | None = None) -> None:
        self._incarnation = uuid.uuid4().hex
        self._service: Service[Any, Any] = Service(self.serve, capacity, self.note, frozen=self.frozen)
        self._opening: asyncio.Task[None] | None = None
        self._beat_s = 0.0
        self._lost: ModelLost | None = None
        self._ending = asyncio.Event()
        collect_rarely()

    async def open(self) -> None:
        """Makes what the process serves."""

    async def serve(self, item: Any) -> Any:
        """Returns the result of one item, after `ready`."""
        raise NotImplementedError

    def note(self, notes: list[Any]) -> None:
        """Takes what a client sent without expecting an answer."""

    async def close(self) -> None:
        """Closes what the process holds open. What has to be kept is on disk afterwards."""

    async def ready(self) -> None:
        """Returns once the process is opened. Raises ModelLost when it is about to end."""
        if self._lost is not None:
            raise self._lost
        if self._opening is None:
            # One task for all who wait, so that it is opened once.
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await self.open()
        if self.hangs:
            self._beat()

    def _beat(self) -> None:
        self._beat_s = time.monotonic()
        asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    async def address(self) -> Address:
        """Returns the service's address."""
        return await self._service.address(own_host())

    async def last_words(self) -> str:
        """Waits until the process is about to end by itself, and returns why, in one line."""
        await self._ending.wait()
        assert self._lost is not None
        return one_line(self._lost)

    @ray.method(concurrency_group="pulse")
    async def pulse(self) -> tuple[float, str]:
        """Returns the seconds for which the event loop has stood still, and this process's own name."""
        stalled_s = time.monotonic() - self._beat_s if self._beat_s else 0.0
        return stalled_s, self._incarnation

    @ray.method(concurrency_group="pulse")
    async def end_children(self) -> None:
        """Ends what a model has started. Ray ends this process, and of an engine's processes only the first."""
        kill(psutil.Process().children(recursive=True))

    def end(self) -> None:
        """Ends this process and all that it started, so that Ray starts it again."""
        kill(psutil.Process().children(recursive=True))
        os._exit(1)

    def lose(self, error: ModelLost) -> None:
        """Ends the process once all clients have the error."""
        # Many requests fail at once when an engine dies.
        if self._lost is None:
            self._lost = ModelLost(str(error))
            self._ending.set()
            self._service.fail(self._lost)
            asyncio.get_running_loop().call_later(SEND_S, self.end)


class AgentProcess(Process):
    """The agents of one role: they share a role, memories, and a client of their model's pool."""

    def __init__(self, role: Role, settings: AgentSettings, pool: ModelPool, reuse: Reuse | None) -> None:
        super().__init__()
        self._role = role
        self._settings = settings
        self._pool = pool
        self._reuse = reuse
        self._agent: RoleAgent | None = None

    async def open(self) -> None:
        self._agent = make_agent(self._role, self._pool.model(self._reuse), self._settings)

    async def serve(self, item: Turn) -> TurnResult:
        await self.ready()
        assert self._agent is not None
        return await self._agent.take(item)

    def note(self, notes: list[str]) -> None:
        """Forgets discussions that have ended."""
        if self._agent is not None:
            self._agent.memory.forget(notes)

    async def close(self) -> None:
        await self._pool.close()


class ReplicaProcess(Process):
    """One replica of a model, which works on at most `capacity` requests at once."""

    def __init__(self, make_model: Callable[[], Model], capacity: int) -> None:
        super().__init__(capacity)
        self._make_model = make_model
        self._model: Model | None = None
        self._abilities = Abilities()

    async def open(self) -> None:
        try:
            model = await started(self._make_model)
        except ModelLost as error:
            self.lose(error)
            raise
        # A model that cannot tell its abilities is one that cannot be loaded.
        self._abilities = await abilities_of(model)
        self._model = model

    async def serve(self, item: Request) -> Completion:
        try:
            await self.ready()
        except ModelLost:
            raise
        except Exception as error:  # the model cannot be loaded: another replica may do
            raise ModelLost(one_line(error)) from error
        assert self._model is not None
        try:
            return await self._model.complete(item)
        except ModelLost as error:
            self.lose(error)
            raise

    async def abilities(self) -> Abilities:
        """Returns the model's abilities, once it is loaded. Raises the same errors as `ready`."""
        await self.ready()
        return self._abilities
