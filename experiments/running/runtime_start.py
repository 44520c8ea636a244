"""Starts the runtime of a run or a sweep, and waits for its agents and models."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

from actors.runtime.head import JOIN_S
from actors.runtime.inline import Inline
from actors.runtime.runtime import Runtime
from actors.signals import restored_handlers
from experiments.config.config import Config
from experiments.records.progress import PLAIN_EVERY_S, Progress


@contextmanager
def runtime_started(config: Config, progress: Progress, trials: bool = False) -> Iterator[Runtime]:
    """Starts the runtime for a block. Processes of `trials` are Ray's. Signals are handled as before afterwards."""
    with ExitStack() as started:
        if config.runtime == "ray" or trials:
            from actors.runtime.cluster import Cluster  # it imports Ray

            address = config.ray.address
            where = "on this machine" if address is None else f"at {address}, {JOIN_S:g} s at most"
            bar = progress.phase("starting Ray" if address is None else "joining Ray", total=1, note=where)
            started.enter_context(restored_handlers())
            runtime: Runtime = started.enter_context(Cluster(config.ray))
            bar.advance()
        if config.runtime != "ray":
            runtime = started.enter_context(Inline())
        yield runtime


@asynccontextmanager
async def ready(runtime: Runtime, progress: Progress) -> AsyncIterator[None]:
    """Waits as `wait` does. Ends as `held`."""
    async with held(runtime, progress):
        await wait(runtime, progress)
        yield


@asynccontextmanager
async def held(runtime: Runtime, progress: Progress) -> AsyncIterator[None]:
    """Closes the models that this process has loaded after the block. An error in it ends what threads count."""
    try:
        yield
    except BaseException:
        # A thread may be building the knowledge graph, and asyncio waits for its end.
        progress.interrupt()
        raise
    finally:
        await runtime.unload()


async def wait(runtime: Runtime, progress: Progress) -> None:
    """Waits until everything that was launched is up, and shows the progress."""
    loading, begun = runtime.loading, time.monotonic()

    def left() -> str:
        return f"{loading} {'replica' if loading == 1 else 'replicas'} still loading" if loading else ""

    def started(kind: str, still_loading: int) -> None:
        nonlocal loading
        loading = still_loading
        bar.advance(note=left())

    async def tick() -> None:
        # A large model loads for minutes, in which nothing else would be shown.
        while True:
            await asyncio.sleep(PLAIN_EVERY_S)
            bar.advance(0, note=left() and f"{left()}, {time.monotonic() - begun:.0f} s")

    bar = progress.phase("starting replicas and agents", total=runtime.starting, note=left())
    ticking = asyncio.create_task(tick())
    try:
        await runtime.wait_until_ready(started, on_event=progress.print)
    finally:
        ticking.cancel()
