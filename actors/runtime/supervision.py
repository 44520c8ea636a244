"""Whether actors come up, and whether replicas stay up: one that dies or hangs is started again, and told of."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError

from actors.errors import ClusterError, ModelLost
from actors.runtime.remote import one_line, result

STARTS = 3
RETRY_S = 2.0
PULSE_S = 5.0
HUNG_S = 60.0

LOG = logging.getLogger(__name__)
News = Callable[[str], None]


def silent(line: str) -> None:
    """Where nobody wants the news."""


async def up(kind: str, name: str, handle: Any) -> str:
    """`kind`, once the actor is ready. One that dies on the way is started again by Ray, which is let do so twice."""
    for start in range(1, STARTS + 1):
        try:
            await result(handle.ready.remote())
            return kind
        except (RayActorError, ModelLost) as error:
            if start == STARTS or isinstance(error, ActorDiedError):
                raise ClusterError(f"{name} died {start} times while it was starting: {one_line(error)}") from error
        except Exception as error:
            what = f"{name}: the model could not be loaded" if kind == "replica" else f"{name} could not be started"
            raise ClusterError(f"{what}: {one_line(error)}") from error
        await asyncio.sleep(RETRY_S)
    raise AssertionError


async def watch(name: str, handle: Any, news: News) -> None:
    """Have Ray start a replica anew when its process does not answer, or its event loop stands still; tell when it is
    lost, for whatever reason, and when it is up again.

    Only the driver does so: of two that decide it, the second would end the new process.
    """
    known: str | None = None
    while True:
        stalled_s, process = 0.0, known
        try:
            async with asyncio.timeout(HUNG_S):
                stalled_s, process = await handle.pulse.remote()
        except TimeoutError:
            stalled_s = HUNG_S
        except ActorDiedError:
            return
        except RayError:  # of the actor, or of the node that it was on
            process = None
        if stalled_s >= HUNG_S:
            await asyncio.to_thread(ray.kill, handle, no_restart=False)
        if stalled_s >= HUNG_S or known not in (None, process):
            _tell(news, f"{name} {'hung' if stalled_s else 'was lost'} and is started again")
            noticed = time.monotonic()
            if await _up_again(handle):
                _tell(news, f"{name} is up again after {time.monotonic() - noticed:.0f} s")
            process = None
        known = process
        await asyncio.sleep(PULSE_S)


def _tell(news: News, line: str) -> None:
    LOG.warning(line)
    news(line)


async def _up_again(handle: Any) -> bool:
    """Returns once the replica is up, or False when it cannot be: until then it may well be too busy to answer."""
    while True:
        try:
            await result(handle.ready.remote())
            return True
        except ActorDiedError:
            return False
        except (RayActorError, ModelLost):
            await asyncio.sleep(RETRY_S)
        except Exception:  # the senders ask as well, and tell
            return False
