"""Where a request goes, when, and what becomes of it when its replica is lost."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import pytest

from actors.errors import ModelError, ModelGone, ModelLost
from actors.messages import Abilities, Completion, Request
from actors.models import abilities_of
from actors.runtime.batching import Results
from actors.runtime.pool import LOSSES, LOST, Pool, ranking
from actors.runtime.replica import Replica, bound
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
        self._deadly, self._times = deadly, times

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
        if request.id == self._deadly and self._times:
            self._times -= 1
            raise ModelLost("the engine died")
        return Completion(request.id, self.name)

    async def abilities(self) -> Abilities:
        return Abilities(schema=True, context_tokens=99)


class Wire:
    """A replica in this process; after its model was lost, one with the same model takes its place, if `restarts`."""

    def __init__(self, model: Gated, capacity: int, sender: str = "ann/1", restarts: bool = True) -> None:
        self.name = model.name
        self.model = model
        self.answered: Counter[str] = Counter()
        self.peak = self.told = 0
        self._make = partial(Replica, lambda: model, capacity, self._ended)
        self._sender = sender
        self._restarts = restarts
        self.replica: Replica | None = self._make()

    def by(self, sender: str) -> Wire:
        """The same replica, for another sender."""
        other = Wire(self.model, 1, sender)
        other.replica = self.replica
        return other

    def _ended(self) -> None:
        self.replica = self._make() if self._restarts else None

    async def complete(self, requests: list[tuple[int, Request]]) -> AsyncIterator[tuple[Results[Completion], int]]:
        async for results, others in self._present().complete(self._sender, requests):
            self.peak = max(self.peak, self._present().in_flight)
            results = pickle.loads(pickle.dumps(results))
            self.answered.update(result.id for _, result in results if isinstance(result, Completion))
            yield results, others

    async def ready(self) -> None:
        if self.replica is None:
            raise ModelError("it died too often")
        await self.replica.ready()

    async def abilities(self) -> Abilities:
        self.told += 1
        return await self._present().abilities()

    async def room(self) -> int:
        return await self._present().room()

    def drop(self, ids: list[int]) -> None:
        self._present().drop(self._sender, ids)

    def _present(self) -> Replica:
        if self.replica is None:
            raise ModelLost("no process")
        return self.replica


async def test_a_prefix_always_goes_to_the_same_replica() -> None:
    wires = [Wire(Gated(str(i)), 64) for i in range(4)]
    pool = Pool(wires)
    for wire in wires:
        wire.model.open.set()
    served: dict[str, set[str]] = {}
    for number in range(200):
        prefix = f"p{number % 20}"
        served.setdefault(prefix, set()).add((await pool.complete(request(number, prefix))).text)
    assert all(len(replicas) == 1 for replicas in served.values())
    assert len(set.union(*served.values())) >= 3


def test_adding_a_replica_moves_few_prefixes() -> None:
    prefixes = [f"p{number}" for number in range(1000)]
    moved = sum(ranking(prefix, 4)[0] != ranking(prefix, 5)[0] for prefix in prefixes)
    assert 100 < moved < 300  # a fifth, where hashing modulo the number would move four fifths


async def test_a_full_replica_spills_to_the_least_loaded_and_the_rest_waits_at_the_sender() -> None:
    wires = [Wire(Gated(str(i)), capacity=4) for i in range(3)]
    pool = Pool(wires, capacity=4)
    first, *others = (wires[i] for i in ranking("p", 3))
    sent = [asyncio.ensure_future(pool.complete(request(n))) for n in range(4)]
    await until(lambda: first.model.working == 4)
    assert sum(other.model.working for other in others) == 0
    sent += [asyncio.ensure_future(pool.complete(request(n))) for n in range(4, 30)]
    await until(lambda: all(other.model.working == 4 for other in others) and pool.waiting == 30 - 3 * bound(4))
    assert [wire.replica.in_flight for wire in wires if wire.replica] == [bound(4)] * 3
    for wire in wires:
        wire.model.open.set()
    answers = await asyncio.gather(*sent)
    assert [answer.id for answer in answers] == [str(n) for n in range(30)]
    assert max(wire.model.most for wire in wires) == 4
    assert pool.waiting == 0


async def test_many_senders_together_never_pass_a_replicas_bound_and_all_are_served() -> None:
    wire = Wire(Gated("r"), capacity=4)
    wire.model.open.set()
    wires = [wire.by(f"s{i}/1") for i in range(11)]
    pools = [Pool([wire], capacity=4) for wire in wires]
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(pool.complete(request(i)) for i in range(40) for pool in pools))
    assert len(answers) == 440
    assert wire.model.most <= 4
    assert max(wire.peak for wire in wires) <= bound(4)
    assert len(wire.model.begun) == 440


async def test_a_replica_that_others_have_filled_is_full_for_every_sender() -> None:
    wires = [Wire(Gated(str(i)), capacity=4) for i in range(2)]
    first, second = (wires[i] for i in ranking("p", 2))
    ann = Pool([first.by("ann/1")], capacity=4)
    bob = Pool([wire.by("bob/1") for wire in wires], capacity=4)
    sent = [asyncio.ensure_future(ann.complete(request(n))) for n in range(bound(4))]
    await until(lambda: first.replica and first.replica.in_flight == bound(4))
    sent += [asyncio.ensure_future(bob.complete(request(n))) for n in range(10, 13)]
    await until(lambda: second.model.working == 3)
    for wire in wires:
        wire.model.open.set()
    assert {answer.text for answer in (await asyncio.gather(*sent))[-3:]} == {second.name}


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_request_whose_replica_is_lost_is_sent_once_more_and_answered_once(replicas: int) -> None:
    wires = [Wire(Gated(str(i), deadly="3", times=1), capacity=8) for i in range(replicas)]
    first = wires[ranking("p", replicas)[0]]
    for wire in wires:
        wire.model._times = 1 if wire is first else 0
        wire.model.open.set()
    pool = Pool(wires, capacity=8)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(pool.complete(request(n)) for n in range(8)))
        again = await pool.complete(request(9))
    assert [answer.id for answer in answers] == [str(n) for n in range(8)]
    assert sum((wire.answered for wire in wires), Counter()) == Counter([str(n) for n in range(8)] + ["9"])
    if replicas == 1:
        assert again.text == "0"


@pytest.mark.parametrize(("losses", "error"), [(LOSSES - 1, ""), (LOSSES, LOST)])
async def test_a_request_that_is_lost_too_often_fails_and_the_others_do_not(losses: int, error: str) -> None:
    wire = Wire(Gated("0", deadly="3", times=losses), capacity=8)
    wire.model.open.set()
    pool = Pool([wire], capacity=8)
    async with asyncio.timeout(20):
        lost = await pool.complete(request(3))
        assert (lost.stop, lost.error) == ("error" if error else "stop", error)
        assert (await pool.complete(request(4))).id == "4"


async def test_with_no_replica_left_a_request_fails_at_once_with_the_reason() -> None:
    wire = Wire(Gated("model-0", deadly="3", times=9), capacity=8, restarts=False)
    wire.model.open.set()
    pool = Pool([wire], capacity=8)
    async with asyncio.timeout(20):
        for number in (3, 4):
            with pytest.raises(
                ModelGone, match="no replica is left: model-0 cannot be started again: it died too often"
            ):
                await pool.complete(request(number))


async def test_a_replica_that_does_not_come_up_again_in_time_is_given_up() -> None:
    wire = Wire(Gated("model-0", deadly="3", times=1), capacity=8)

    async def never() -> None:
        await asyncio.Event().wait()

    wire.model.open.set()
    wire.ready = never  # type: ignore[method-assign]
    with pytest.raises(ModelGone, match=r"model-0 was not up again after 0\.2 s"):
        await Pool([wire], capacity=8, restart_timeout_s=0.2).complete(request(3))


async def test_a_request_that_nobody_waits_for_is_taken_out_of_the_replica() -> None:
    wire = Wire(Gated("r"), capacity=2)
    pool = Pool([wire], capacity=2)
    sent = [asyncio.ensure_future(pool.complete(request(n))) for n in range(6)]
    await until(lambda: wire.model.working == 2 and pool.waiting == 2)
    for number in (0, 2, 4):  # worked on, waiting in the replica, waiting here
        sent[number].cancel()
    await until(lambda: wire.model.cancelled == ["0"] and pool.waiting == 0)
    wire.model.open.set()
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert [a.id for a in answers if isinstance(a, Completion)] == ["1", "3", "5"]
    assert sorted(wire.model.begun) == ["0", "1", "3", "5"]


async def test_what_an_earlier_incarnation_of_a_sender_waited_for_is_dropped() -> None:
    wire = Wire(Gated("r"), capacity=4)
    before = asyncio.ensure_future(Pool([wire.by("ann/1")], capacity=4).complete(request(1)))
    bob = asyncio.ensure_future(Pool([wire.by("bob/1")], capacity=4).complete(request(2)))
    await until(lambda: wire.model.working == 2)
    after = asyncio.ensure_future(Pool([wire.by("ann/2")], capacity=4).complete(request(3)))
    await until(lambda: wire.model.cancelled == ["1"] and wire.model.working == 2)
    wire.model.open.set()
    assert [(await sent).id for sent in (bob, after)] == ["2", "3"]
    with pytest.raises(RuntimeError, match="without a result"):
        await before


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one replica"):
        Pool([])


async def test_a_model_s_abilities_are_asked_for_once_by_all_who_want_them() -> None:
    wires = [Wire(Gated(str(i)), 8) for i in range(2)]
    pool = Pool(wires, capacity=8)
    told = await asyncio.gather(*(pool.abilities() for _ in range(5)), abilities_of(pool))
    assert set(told) == {Abilities(schema=True, context_tokens=99)}
    assert sum(wire.told for wire in wires) == 1


async def test_abilities_are_told_by_another_replica_where_one_is_lost() -> None:
    wires = [Wire(Gated(str(i)), 8, restarts=False) for i in range(2)]
    wires[ranking("", 2)[0]].replica = None
    assert await Pool(wires, capacity=8).abilities() == Abilities(schema=True, context_tokens=99)


async def test_there_are_no_abilities_where_no_replica_is_left() -> None:
    wire = Wire(Gated("a"), 8, restarts=False)
    wire.replica = None
    with pytest.raises(ModelGone, match="it died too often"):
        await Pool([wire], capacity=8).abilities()


async def test_a_model_that_tells_nothing_can_do_the_least() -> None:
    class Plain:
        async def complete(self, request: Request) -> Completion:
            return Completion(request.id, "")

    assert await Replica(Plain, 1).abilities() == Abilities()
