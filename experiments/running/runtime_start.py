"""Starts the runtime of a run or a sweep, and waits until its agents and models are up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from actors.runtime.cluster import Cluster
from actors.runtime.head import JOIN_S
from actors.runtime.inline import Inline
from actors.runtime.runtime import Runtime
from actors.settings import RaySettings
from actors.signals import handlers_kept
from experiments.config.config import Config
from experiments.records.progress import PLAIN_EVERY_S, Progress


def runtime_started(config: Config, progress: Progress) -> AbstractContextManager[Runtime]:
    """The runtime of a run's agents, models and learners, for a block."""
    if config.runtime == "ray":
        return cluster_started(config.ray, progress)
    return Inline()


@contextmanager
def sweep_runtime_started(config: Config, progress: Progress) -> Iterator[Runtime]:
    """The same for a sweep, whose trials are Ray's processes wherever their agents are."""
    with cluster_started(config.ray, progress) as cluster:
        if config.runtime == "ray":
            yield cluster
        else:
            with Inline() as inline:
                yield inline


@contextmanager
def cluster_started(settings: RaySettings, progress: Progress) -> Iterator[Cluster]:
    """A cluster for the block, which ends with it; afterwards signals are handled as before."""
    where = "on this machine" if settings.address is None else f"at {settings.address}, {JOIN_S:g} s at most"
    bar = progress.phase("starting Ray" if settings.address is None else "joining Ray", total=1, note=where)
    with handlers_kept(), Cluster(settings) as cluster:
        bar.advance()
        yield cluster


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
