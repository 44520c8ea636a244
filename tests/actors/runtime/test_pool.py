"""Where a request goes, and what becomes of it when its replica is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import ClassVar

import pytest

from actors.errors import ModelError, ModelGone, ModelLost
from actors.messages import Abilities, Completion, Request
from actors.models import abilities_of
from actors.runtime.pool import LOSSES, LOST, ReplicaPool, ranking
from actors.runtime.process import ReplicaProcess
from actors.runtime.service_client import Client
from tests.support.waiting import until


def request(number: int, prefix: str = "p") -> Request:
    return Request(str(number), prefix, "", "", "", seed=number)


class Gated:
    """Answers with its replica's name once its gate is open; one request may be what kills it."""

    def __init__(self, name: str, deadly: str = "", times: int = 0) -> None:
        self.name = name
        self.open = asyncio.Event()
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.most = self.working = 0
        self.deadly, self.times = deadly, times

    async def complete(self, request: Request) -> Completion:
        self.begun.append(request.id)
        self.working += 1
        self.most = max(self.most, self.working)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.id)
            raise
        finally:
            self.working -= 1
        if request.id == self.deadly and self.times:
            self.times -= 1
            raise ModelLost("the engine died")
        return Completion(request.id, self.name)

    async def abilities(self) -> Abilities:
        return Abilities(schema=True, context_tokens=99)


class Process(ReplicaProcess):
    """A replica's process in this one, whose end only closes its connections."""

    made: ClassVar[list[Process]] = []
    ended = False

    def __init__(self, make_model: Callable[[], Gated], capacity: int) -> None:
        super().__init__(make_model, capacity)
        self.made.append(self)

    def end(self) -> None:
        self.ended = True
        self._service.close()


class Far:
    """A replica, without Ray; once its model is lost, a process with the same model follows, if it `restarts`."""

    def __init__(self, model: Gated, capacity: int = 8, restarts: bool = True) -> None:
        self.name = model.name
        self.model = model
        self.told = 0
        self._capacity, self._restarts = capacity, restarts
        self._process = Process(lambda: model, capacity)
        self.complete: Client[Request, Completion] = Client(
            lambda: self.process.address(), lambda error: ModelLost(str(error))
        )

    @property
    def process(self) -> Process:
        """Raises ModelLost where it was lost for good."""
        if self._process.ended:
            if not self._restarts:
                raise ModelLost("no process")
            self._process = Process(lambda: self.model, self._capacity)
        return self._process

    @property
    def load(self) -> int:
        return self.complete.load

    async def ready(self) -> None:
        while True:
            if self._process.ended and not self._restarts:
                raise ModelError("it died too often")
            try:
                return await self.process.ready()
            except ModelLost:
                await asyncio.sleep(0.01)

    async def abilities(self) -> Abilities:
        self.told += 1
        return await self.process.abilities()

    def by_another(self) -> Far:
        """The same replica, for another sender."""
        other = Far(self.model, self._capacity)
        other._process = self._process
        return other


@pytest.fixture(autouse=True)
async def here(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr("actors.runtime.process.own_host", lambda: "127.0.0.1")
    yield
    while Process.made:
        Process.made.pop()._service.close()
    await asyncio.sleep(0)  # the sockets are closed in the next turn of the event loop


def replicas(number: int, capacity: int = 8, is_open: bool = True) -> list[Far]:
    made = [Far(Gated(str(i)), capacity) for i in range(number)]
    for far in made if is_open else ():
        far.model.open.set()
    return made


async def test_a_prefix_always_goes_to_the_same_replica() -> None:
    pool = ReplicaPool(replicas(4, 64))
    served: dict[str, set[str]] = {}
    for number in range(200):
        prefix = f"p{number % 20}"
        served.setdefault(prefix, set()).add((await pool.complete(request(number, prefix))).text)
    assert all(len(names) == 1 for names in served.values())
    assert len(set.union(*served.values())) >= 3


async def test_a_full_replica_spills_to_the_least_loaded_and_works_on_no_more_than_its_capacity() -> None:
    fars = replicas(3, 4, is_open=False)
    pool = ReplicaPool(fars, capacity=4)
    first, *others = (fars[i] for i in ranking("p", 3))
    sent = [asyncio.ensure_future(pool.complete(request(n))) for n in range(4)]
    await until(lambda: first.model.working == 4)
    assert sum(other.model.working for other in others) == 0
    sent += [asyncio.ensure_future(pool.complete(request(n))) for n in range(4, 30)]
    await until(lambda: all(far.model.working == 4 for far in fars))
    assert sorted(far.load for far in fars) == [10, 10, 10]
    for far in fars:
        far.model.open.set()
    assert [answer.id for answer in await asyncio.gather(*sent)] == [str(n) for n in range(30)]
    assert max(far.model.most for far in fars) == 4


@pytest.mark.parametrize("number", [1, 2])
async def test_a_request_whose_replica_is_lost_is_sent_again_and_answered_once(number: int) -> None:
    fars = replicas(number)
    first = fars[ranking("p", number)[0]]
    first.model.deadly, first.model.times = "3", 1
    pool = ReplicaPool(fars, capacity=8)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(pool.complete(request(n)) for n in range(8)))
        again = await pool.complete(request(9))
    assert [answer.id for answer in answers] == [str(n) for n in range(8)]
    assert again.id == "9"
    assert Counter(name for far in fars for name in far.model.begun)["3"] == 2


@pytest.mark.parametrize(("losses", "error"), [(LOSSES - 1, ""), (LOSSES, LOST)])
async def test_a_request_that_is_lost_too_often_fails_and_the_others_do_not(losses: int, error: str) -> None:
    far = Far(Gated("0", deadly="3", times=losses))
    far.model.open.set()
    pool = ReplicaPool([far], capacity=8)
    async with asyncio.timeout(20):
        lost = await pool.complete(request(3))
        assert (lost.stop, lost.error) == ("error" if error else "stop", error)
        assert (await pool.complete(request(4))).id == "4"


async def test_with_no_replica_left_a_request_fails_at_once_with_the_reason() -> None:
    far = Far(Gated("model-0", deadly="3", times=9), restarts=False)
    far.model.open.set()
    pool = ReplicaPool([far], capacity=8)
    async with asyncio.timeout(20):
        for number in (3, 4):
            with pytest.raises(ModelGone, match=r"model-0 .*it died too often"):
                await pool.complete(request(number))


async def test_a_replica_that_does_not_come_up_again_in_time_is_given_up() -> None:
    far = Far(Gated("model-0", deadly="3", times=1))

    async def never() -> None:
        await asyncio.Event().wait()

    far.model.open.set()
    far.ready = never  # type: ignore[method-assign]
    with pytest.raises(ModelGone, match=r"\bmodel-0 .*\b0\.2 s"):
        await ReplicaPool([far], capacity=8, restart_timeout_s=0.2).complete(request(3))


async def test_a_request_that_nobody_waits_for_is_taken_out_of_the_replica() -> None:
    [far] = replicas(1, 2, is_open=False)
    pool = ReplicaPool([far], capacity=2)
    sent = [asyncio.ensure_future(pool.complete(request(n))) for n in range(4)]
    await until(lambda: far.model.working == 2 and far.process._service.in_flight == 4)
    for number in (0, 2):  # worked on, and waiting in the replica
        sent[number].cancel()
    await until(lambda: far.model.cancelled == ["0"] and far.process._service.in_flight == 2)
    far.model.open.set()
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert [answer.id for answer in answers if isinstance(answer, Completion)] == ["1", "3"]
    assert sorted(far.model.begun) == ["0", "1", "3"]


async def test_a_model_s_abilities_are_asked_for_once_by_all_who_want_them() -> None:
    fars = replicas(2)
    pool = ReplicaPool(fars, capacity=8)
    told = await asyncio.gather(*(pool.abilities() for _ in range(5)), abilities_of(pool))
    assert set(told) == {Abilities(schema=True, context_tokens=99)}
    assert sum(far.told for far in fars) == 1


async def test_abilities_are_told_by_another_replica_where_one_is_lost_and_by_none_where_all_are() -> None:
    fars = [Far(Gated(str(i)), restarts=False) for i in range(2)]
    fars[ranking("", 2)[0]]._process.ended = True
    assert await ReplicaPool(fars, capacity=8).abilities() == Abilities(schema=True, context_tokens=99)
    for far in fars:
        far._process.ended = True
    with pytest.raises(ModelGone, match="it died too often"):
        await ReplicaPool(fars, capacity=8).abilities()


async def test_a_model_that_tells_nothing_can_do_the_least() -> None:
    class Plain:
        async def complete(self, request: Request) -> Completion:
            return Completion(request.id, "")

    assert await ReplicaProcess(Plain, 1).abilities() == Abilities()
