"""Waits for actors to come up, and has those that die or hang started again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError

from actors.errors import ClusterError, ModelLost
from actors.memory import kills
from actors.runtime.remote import OUT_OF_MEMORY, RESTARTS, deaths, loss, one_line, result, started_no_more
from actors.runtime.runtime import OnEvent

STARTS = 3
RETRY_S = 2.0
PULSE_S, AGAIN_S = 5.0, 1.0
STARTING = 2  # times as long as a process that is up may a new one be without a sign of life
LESS = "as memory ran out and processes were killed: use fewer replicas or agents, or a smaller model"

LOG = logging.getLogger(__name__)


async def wait_until_up(kind: str, name: str, handle: Any) -> str:
    """Returns `kind` once the actor is ready. Ray restarts one that dies on the way; the third death is an error.

    Raises:
        ClusterError: it died too often, or could not be started.
    """
    killed_before, models_lost = kills(), 0
    while True:
        try:
            await result(handle.ready.remote())
            return kind
        except (RayActorError, OutOfMemoryError, ModelLost) as error:
            # While Ray starts it again it is unavailable at every call, which on a busy machine is many times.
            died, for_good = await deaths(handle)
            models_lost += isinstance(error, ModelLost)  # whose process may have outlived its engine
            died = max(died, models_lost)
            if died >= STARTS or for_good:
                for_memory = kills() > killed_before or (isinstance(error, RayError) and loss(error) == OUT_OF_MEMORY)
                reason = LESS if for_memory else one_line(error)
                raise ClusterError(f"{name} died {died} times while it was starting: {reason}") from error
        except Exception as error:
            what = f"{name}: the model could not be loaded" if kind == "replica" else f"{name} could not be started"
            raise ClusterError(f"{what}: {one_line(error)}") from error
        await asyncio.sleep(RETRY_S)


async def supervise(
    name: str, handle: Any, on_event: OnEvent, hung_s: float, last_words: Callable[[], Awaitable[str]] | None = None
) -> None:
    """Has Ray restart an actor with a process that does not answer or an event loop that stands still, until it can be
    restarted no more. `on_event` gets a line when it is lost, for whatever reason, and when it is up again.

    `last_words` waits for what a process says of why it is about to end. Only the driver supervises: of two
    supervisors, the second would end the new process.
    """
    process: str | None = None
    killed_before = await killed_for_memory()
    with LastWords(last_words) as words:
        while True:
            words.listen()
            stalled_s, lost, answering = 0.0, False, process
            try:
                stalled_s, answering = await _pulse(handle, hung_s)
                # Another process that answers means that Ray has restarted the actor between two pulses.
                lost = process not in (None, answering) or bool(words.said)
            except TimeoutError:
                stalled_s = hung_s
            except RayError as error:  # of the actor, or of the node that it was on
                lost = True
                if await started_no_more(handle, error):
                    _report(on_event, f"{name} has died {RESTARTS + 1} times and is started no more")
                    return
            hung = stalled_s >= hung_s
            if hung:
                # In a thread: the call may block, and other actors are watched by this event loop.
                await asyncio.to_thread(ray.kill, handle, no_restart=False)
            if hung or lost:
                reason = await words.heard()
                killed = await killed_for_memory()
                how = f", {LESS}," if killed > killed_before else f" ({reason})" if reason else ""
                killed_before = killed
                _report(on_event, f"{name} {'hung' if hung else 'was lost'}{how} and is started again")
                noticed = time.monotonic()
                if await _up_again(handle, hung_s):
                    _report(on_event, f"{name} is up again after {time.monotonic() - noticed:.0f} s")
                answering = None
            process = answering
            await asyncio.sleep(PULSE_S)


class LastWords:
    """Listens to what an actor's processes say of why they are about to end. One that is killed says nothing."""

    def __init__(self, ask: Callable[[], Awaitable[str]] | None) -> None:
        self._ask = ask
        self._answer: asyncio.Task[str] | None = None

    def __enter__(self) -> LastWords:
        return self

    def __exit__(self, *_: object) -> None:
        if self._answer is not None:
            self._answer.cancel()

    @property
    def said(self) -> str:
        """What the present process has said so far."""
        return self._answer.result() if self._answer is not None and self._answer.done() else ""

    def listen(self) -> None:
        """Ask, unless the question stands."""
        if self._ask is not None and (self._answer is None or (self._answer.done() and not self.said)):
            self._answer = asyncio.create_task(self._answered(self._ask))

    async def heard(self) -> str:
        """What a process that has ended has said; the next `listen` asks the one after it."""
        answer, self._answer = self._answer, None
        if answer is None:
            return ""
        await asyncio.wait([answer], timeout=AGAIN_S)
        answer.cancel()  # does nothing to one that is there
        return answer.result() if answer.done() else ""

    async def _answered(self, ask: Callable[[], Awaitable[str]]) -> str:
        try:
            return await ask()
        except RayError:
            return ""


async def watch_head(address: str, on_event: OnEvent) -> None:
    """Has `on_event` told when the cluster's head is lost, and when it is back. Ray gives it a minute, and then ends
    this process without asking it.

    Args:
        address: `host:port` of Ray's control store, which is on the head.
    """
    while True:
        await asyncio.sleep(PULSE_S)
        if await _answers(address):
            continue
        _report(on_event, f"Ray's head at {address} does not answer: unless it is back in a minute, the run ends here")
        while not await _answers(address):
            await asyncio.sleep(AGAIN_S)
        _report(on_event, f"Ray's head at {address} answers again")


async def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    for _ in range(2):
        with suppress(OSError):  # a time-out is one
            async with asyncio.timeout(PULSE_S):
                _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            return True
        await asyncio.sleep(AGAIN_S)
    return False


async def _pulse(handle: Any, hung_s: float) -> tuple[float, str]:
    """What the actor says. Raises TimeoutError where it says nothing."""

    async def answer() -> tuple[float, str]:
        said: tuple[float, str] = await handle.pulse.remote()
        return said

    asked = asyncio.create_task(answer())
    try:
        # Twice: where it was this process that stood still, the answer is there a moment later.
        for wait_s in (hung_s, AGAIN_S):
            if (await asyncio.wait([asked], timeout=wait_s))[0]:
                return asked.result()
    finally:
        asked.cancel()
    raise TimeoutError


async def killed_for_memory() -> int:
    """Processes that were killed so far because memory ran out: by Ray on any node, or by the kernel on this one."""
    return kills() + await asyncio.to_thread(_killed_by_ray)


def _killed_by_ray() -> int:
    if not ray.is_initialized():
        return 0
    try:
        from ray._private.state import state
        from ray.core.generated import common_pb2, gcs_pb2

        rows = state._connect_and_get_accessor().get_worker_table()
        exits = [gcs_pb2.WorkerTableData.FromString(row).exit_type for row in rows]  # type: ignore[attr-defined]
        return exits.count(common_pb2.NODE_OUT_OF_MEMORY)  # type: ignore[attr-defined]
    # Internal to Ray, and no reason to stop watching actors.
    except Exception as error:
        LOG.warning("what Ray has killed for memory is not known: %r", error)
        return 0


def _report(on_event: OnEvent, line: str) -> None:
    LOG.warning(line)
    on_event(line)


async def _up_again(handle: Any, hung_s: float) -> bool:
    """Returns once the actor is up, or False when it never will be. A process that shows no sign of life is ended."""
    ready = asyncio.create_task(_ready(handle))
    # There is no pulse before the process is there, which takes a while.
    wait_s = patience_s = STARTING * hung_s
    try:
        while not (await asyncio.wait([ready], timeout=wait_s))[0]:
            try:
                await _pulse(handle, hung_s)  # there is one while a model is being loaded
                wait_s = hung_s
            except (TimeoutError, RayError):  # a process that was stopped does not answer, or cannot be reached
                await asyncio.to_thread(ray.kill, handle, no_restart=False)
                # On a machine that is busy enough every start takes so long, and would be ended for good.
                patience_s *= 2
                wait_s = patience_s
        return ready.result()
    finally:
        ready.cancel()


async def _ready(handle: Any) -> bool:
    """Returns once the actor is ready, however often its process is lost before, or False when it never will be."""
    while True:
        try:
            await result(handle.ready.remote())
            return True
        except (RayActorError, OutOfMemoryError, ModelLost) as error:
            if await started_no_more(handle, error):
                return False
            await asyncio.sleep(RETRY_S)
        except Exception:  # its senders ask as well, and raise it
            return False
