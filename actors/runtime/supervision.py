"""Waits for actors to come up, and restarts dead and hanging ones."""

import asyncio
import logging
import math
import time
from contextlib import suppress

from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError, RayError

from actors.errors import ClusterError, ModelLost
from actors.processes import kills, low_limits
from actors.runtime.launcher import OnEvent
from actors.runtime.remote import OUT_OF_MEMORY, RESTARTS, Actor, loss, one_line

STARTS = 3
RETRY_S = 0.5
PULSE_S = 5.0
AGAIN_S = 1.0
STARTING = 2  # times as long as a process that is up may a new one be without a sign of life
LESS = "as memory ran out and processes were killed: use fewer replicas or agents, or a smaller model"

HUNG = "hung"
LOST = "was lost"

LOG = logging.getLogger(__name__)


async def wait_until_up(actor: Actor, starts: float = STARTS) -> Actor:
    """Returns the actor once it is ready. Ray restarts one that dies on the way.

    Raises ClusterError when it has died `starts` times, and where it cannot be started.
    """
    killed = kills()
    dead_processes: set[str] = set()
    while True:
        # While Ray restarts an actor every call fails: only a process that has answered is one that can die.
        process = ""
        try:
            _, process = await actor.call("pulse")
            await actor.call("ready")
            return actor
        except (RayActorError, OutOfMemoryError, NodeDiedError, ModelLost) as error:
            if process:
                dead_processes.add(process)
            given_up = await actor.given_up(error)
            if len(dead_processes) >= starts or given_up:
                times = RESTARTS + 1 if given_up else len(dead_processes)
                for_memory = kills() > killed or loss(error) == OUT_OF_MEMORY
                reason = LESS if for_memory else low_limits() or one_line(error)
                raise ClusterError(f"{actor.title} died {times} times while it was starting: {reason}") from error
        except Exception as error:
            failed = ": the model could not be loaded" if actor.kind == "replica" else " could not be started"
            raise ClusterError(f"{actor.title}{failed}: {one_line(error)}") from error
        await asyncio.sleep(RETRY_S)


async def supervise(actor: Actor, on_event: OnEvent, hung_s: float) -> None:
    """Restarts an actor, by Ray, while its process does not answer or its event loop hangs.

    Ends when it can be restarted no more. `on_event` gets a line when it is lost, for whatever reason, and when it is
    up again.

    Only the driver supervises: of two supervisors, the second would end the new process.
    """
    process: str | None = None
    killed = kills()
    words = asyncio.create_task(_last_words(actor))
    try:
        while True:
            if words.done() and not words.result():  # the process was not there, and Ray knew nothing
                words = asyncio.create_task(_last_words(actor))
            fault = ""
            try:
                stalled_s, answering_process = await pulse(actor, hung_s)
                # Another process that answers means that Ray has restarted the actor between two pulses.
                restarted = process is not None and process != answering_process
                process = answering_process
                if stalled_s >= hung_s:
                    fault = HUNG
                elif restarted or (words.done() and words.result()):
                    fault = LOST
            except TimeoutError:
                fault = HUNG
            except RayError as error:  # of the actor, or of the node that it was on
                fault = LOST
                if await actor.given_up(error):
                    _report(on_event, f"{actor.title} has died {RESTARTS + 1} times and is started no more")
                    return

            if fault:
                if fault == HUNG:
                    await actor.restart()
                await asyncio.wait([words], timeout=AGAIN_S)
                reason = words.result() if words.done() else ""
                words.cancel()
                details = ""
                if kills() > killed or reason == OUT_OF_MEMORY:
                    details = f", {LESS},"
                elif reason:
                    details = f" ({reason})"
                killed = kills()
                _report(on_event, f"{actor.title} {fault}{details} and is started again")
                noticed_s = time.monotonic()
                if await _up_again(actor, hung_s):
                    _report(on_event, f"{actor.title} is up again after {time.monotonic() - noticed_s:.0f} s")
                process = None
                words = asyncio.create_task(_last_words(actor))
            await asyncio.sleep(PULSE_S)
    finally:
        words.cancel()


async def _last_words(actor: Actor) -> str:
    """Waits until the actor's process ends, and returns why. Ray knows where memory ran out."""
    try:
        words: str = await actor.call("last_words")
        return words
    except RayError as error:
        return OUT_OF_MEMORY if loss(error) == OUT_OF_MEMORY else ""


async def watch_head(address: str, on_event: OnEvent) -> None:
    """Reports to `on_event` when the cluster's head is lost, and when it is back.

    The head has Ray's control store at `address` (`host:port`). Ray waits a minute for it and then ends this process.
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


async def pulse(actor: Actor, hung_s: float) -> tuple[float, str]:
    """Returns the actor's sign of life. Raises TimeoutError where there is none."""
    answer: asyncio.Task[tuple[float, str]] = asyncio.create_task(actor.call("pulse"))
    try:
        # Twice: where it was this process that stood still, the answer is there a moment later.
        for wait_s in (hung_s, AGAIN_S):
            await asyncio.wait([answer], timeout=wait_s)
            if answer.done():
                return answer.result()
    finally:
        answer.cancel()
    raise TimeoutError


def _report(on_event: OnEvent, line: str) -> None:
    LOG.warning(line)
    on_event(line)


async def _up_again(actor: Actor, hung_s: float) -> bool:
    """Returns once the actor is up, or False when it never will be. A process that shows no sign of life is ended."""
    ready = asyncio.create_task(wait_until_up(actor, starts=math.inf))
    # There is no pulse before the process is there, which takes a while.
    patience_s = STARTING * hung_s
    wait_s = patience_s
    try:
        while True:
            await asyncio.wait([ready], timeout=wait_s)
            if ready.done():
                return ready.exception() is None
            try:
                await pulse(actor, hung_s)  # there is one while a model is being loaded
                wait_s = hung_s
            except (TimeoutError, RayError):  # a process that was stopped does not answer, or cannot be reached
                await actor.restart()
                # On a machine that is busy enough every start takes so long, and would be ended for good.
                patience_s *= 2
                wait_s = patience_s
    finally:
        ready.cancel()
