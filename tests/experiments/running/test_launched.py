"""Waiting for a model that loads for minutes."""

import asyncio
import io
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from rich.console import Console

from actors.runtime.cluster import Cluster
from experiments.records.progress import Progress
from experiments.running.runtime_start import wait


class Loading:
    """Stands for a cluster whose one replica has loaded once the progress shows that time passes."""

    starting, loading = 2, 1

    def __init__(self, shown: io.StringIO) -> None:
        self._shown = shown

    async def wait_until_ready(self, on_started: Callable[[str, int], None], on_event: Any) -> None:
        on_started("agent", 1)
        async with asyncio.timeout(60):
            while "still loading, " not in self._shown.getvalue():
                await asyncio.sleep(0.001)
        on_started("replica", 0)


async def test_while_a_model_loads_the_seconds_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.running.runtime_start.PLAIN_EVERY_S", 0.01)
    shown = io.StringIO()
    with Progress(Console(file=shown)) as progress:
        await wait(cast(Cluster, Loading(shown)), progress)
    lines = shown.getvalue().splitlines()
    assert lines[0] == "starting replicas and agents: 0/2, 1 replica still loading"
    assert re.fullmatch(r"starting replicas and agents: 1/2, 1 replica still loading, \d+ s", lines[1])
    assert lines[-1].startswith("starting replicas and agents: 2/2")
