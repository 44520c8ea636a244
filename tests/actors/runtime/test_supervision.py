"""What is said of a replica that is lost, without Ray: a handle whose pulse comes from another process."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, OutOfMemoryError

from actors.errors import ClusterError
from actors.runtime import remote, supervision
from actors.runtime.remote import Actor
from actors.runtime.supervision import LESS, supervise, wait_until_up, watch_head


class Method:
    def __init__(self, values: Iterator[object]) -> None:
        self._values = values

    async def remote(self) -> object:
        value = next(self._values)
        if isinstance(value, Exception):
            raise value
        return value


class Silent:
    async def remote(self) -> None:
        await asyncio.Event().wait()


class Handle:
    """Restarted once, between its first pulse and its second, and ended for good after it."""

    def __init__(self) -> None:
        self.pulse: Any = Method(iter([(0.0, "first"), (0.0, "second"), (0.0, "second"), ActorDiedError()]))
        self.ready: Any = Method(iter([None]))
        self.last_words: Any = Silent()


def actor(handle: object) -> Actor:
    return Actor("model-0", "replica", "model-0", handle)


def agent(handle: object) -> Actor:
    return Actor("agent text_critic 0", "agent", "text_critic", handle)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PULSE_S", "AGAIN_S", "RETRY_S"):
        monkeypatch.setattr(supervision, name, 0)


async def events(monkeypatch: pytest.MonkeyPatch, killed: list[int]) -> list[str]:
    counts = chain(killed, repeat(killed[-1]))
    monkeypatch.setattr(supervision, "kills", lambda: next(counts))
    heard: list[str] = []
    with suppress(StopIteration):
        await asyncio.wait_for(supervise(actor(Handle()), heard.append, hung_s=60), 20)
    return heard


async def test_a_replica_that_was_lost_as_memory_ran_out_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, again, gone = await events(monkeypatch, [3, 4])
    assert lost == (
        "model-0 was lost, as memory ran out and processes were killed: use fewer replicas or agents, or a smaller "
        "model, and is started again"
    )
    assert again.startswith("model-0 ")
    assert gone.startswith("model-0 has died 11 times ")


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("no answer for 120 s", " (no answer for 120 s)"),
        (ActorDiedError(), ""),
        (OutOfMemoryError("low"), ", " + LESS + ","),
    ],
    ids=["its own", "killed", "killed for memory"],
)
async def test_why_a_process_ends_is_passed_on(words: object, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "AGAIN_S", 1)
    heard: list[str] = []
    handle = Handle()
    handle.last_words = Method(chain([words], repeat(ActorDiedError())))
    await asyncio.wait_for(supervise(actor(handle), heard.append, 60), 20)
    assert heard[0] == f"model-0 was lost{how} and is started again"


class Late(Handle):
    """Answers when it was given up once already: this process had been stopped together with it."""

    def __init__(self) -> None:
        super().__init__()
        self.pulse = LateMethod(iter([(0.0, "first"), ActorDiedError()]))


class LateMethod(Method):
    async def remote(self) -> object:
        await asyncio.sleep(0.05)
        return await super().remote()


async def test_an_answer_that_comes_late_since_this_process_stood_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "AGAIN_S", 60)
    monkeypatch.setattr(remote.ray, "kill", lambda *_, **__: pytest.fail("it was killed"))
    heard: list[str] = []
    await asyncio.wait_for(supervise(actor(Late()), heard.append, hung_s=0.001), 60)
    [gone] = heard
    assert gone.startswith("model-0 has died 11 times ")


class Starting:
    """Restarted once by Ray, and stopped while it starts; the third process shows a pulse first, and is ready later.

    A process that was stopped says nothing where it was `reached` before, and is unavailable otherwise.
    """

    def __init__(self, reached: bool) -> None:
        self.pulse, self.ready = (SimpleNamespace(remote=answer) for answer in (self._pulse, self._ready))
        self.last_words = Silent()
        self.killed, self._reached = asyncio.Event(), reached
        self._pulses = iter([(0.0, "first"), (0.0, "second")])
        self._later = iter([(0.0, "third"), (0.0, "third"), ActorDiedError()])

    async def _stopped(self) -> None:
        if self._reached:
            await self.killed.wait()
        raise ActorUnavailableError("it is there and does not answer", None)

    async def _pulse(self) -> object:
        value = next(self._later if self.killed.is_set() else self._pulses, None)
        if value is None:
            await self._stopped()
        if isinstance(value, Exception):
            raise value
        return value

    async def _ready(self) -> None:
        if not self.killed.is_set():
            await self._stopped()
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("reached", [True, False])
async def test_one_that_is_stopped_while_it_starts_is_started_once_more(
    reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[Starting] = []

    def kill(handle: Starting, no_restart: bool) -> None:
        killed.append(handle)
        loop.call_soon_threadsafe(handle.killed.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(remote.ray, "kill", kill)
    heard: list[str] = []
    handle = Starting(reached)
    await asyncio.wait_for(supervise(actor(handle), heard.append, hung_s=0.1), 60)
    assert killed == [handle]
    assert [line.partition(" after")[0] for line in heard] == [
        "model-0 was lost and is started again",
        "model-0 is up again",
        "model-0 has died 11 times and is started no more",
    ]


class Dying:
    """Answers a pulse, dies while it gets ready, and is unavailable for long before the next process answers."""

    def __init__(self, deaths: int) -> None:
        away = [ActorUnavailableError("it is being started again", None)] * 9
        processes = [[(0.0, str(number)), *away] for number in range(deaths)]
        self.pulse = Method(chain(*processes, repeat((0.0, "up"))))
        self.ready = Method(chain([ActorUnavailableError("it has died", None)] * deaths, repeat(None)))


async def test_an_actor_that_is_long_in_being_started_again_has_died_once() -> None:
    assert (await wait_until_up(agent(Dying(2)))).title == "text_critic"


async def test_the_third_death_at_the_start_is_an_error() -> None:
    with pytest.raises(ClusterError, match=r"^text_critic .*\b3 times"):
        await wait_until_up(agent(Dying(3)))


@pytest.mark.parametrize("known", [True, False])
async def test_an_actor_that_was_killed_for_memory_is_given_up_once_ray_does_not_know_its_name(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_actor(name: str) -> None:
        if not known:
            raise ValueError(name)

    monkeypatch.setattr(remote.ray, "get_actor", get_actor)
    assert await actor(None).given_up(OutOfMemoryError("low")) is not known


async def test_a_head_that_is_lost_is_said_once_and_so_is_its_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PULSE_S", 0.5)
    monkeypatch.setattr(supervision, "AGAIN_S", 0.01)
    events: asyncio.Queue[str] = asyncio.Queue()
    head = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = head.sockets[0].getsockname()[1]
    watching = asyncio.create_task(watch_head(f"127.0.0.1:{port}", events.put_nowait))
    await asyncio.sleep(1.2)
    assert events.empty()
    for _ in range(2):
        head.close()
        await head.wait_closed()
        assert f"127.0.0.1:{port} does not" in await events.get()
        await asyncio.sleep(0.1)
        assert events.empty()
        head = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port)
        assert f"127.0.0.1:{port} answers" in await events.get()
    watching.cancel()
    head.close()
