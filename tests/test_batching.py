"""What is ready together travels together; nothing waits for what it does not need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from actors.batching import Batcher, stream
from actors.messages import Completion, Message, Question, Request, Turn
from actors.pool import Pool, preferred
from actors.team import Team


class Doubler:
    """The far side of a batcher: doubles numbers; zero fails, and `slow` numbers wait for the gate."""

    def __init__(self, slow: frozenset[int] = frozenset()) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self._slow = slow

    async def _double(self, number: int) -> int:
        if number in self._slow:
            await self.gate.wait()
        if number == 0:
            raise ValueError("zero")
        return 2 * number

    async def send(self, numbers: list[int]) -> AsyncIterator[list[tuple[int, int | Exception]]]:
        self.batches.append(numbers)
        async for results in stream(self._double, numbers):
            yield results


async def test_items_that_are_ready_together_are_one_call() -> None:
    far = Doubler()
    batcher = Batcher(far.send)
    assert await asyncio.gather(*(batcher(n) for n in range(1, 6))) == [2, 4, 6, 8, 10]
    assert far.batches == [[1, 2, 3, 4, 5]]


async def test_a_batch_holds_no_more_than_its_limit() -> None:
    far = Doubler()
    batcher = Batcher(far.send, limit=2)
    assert await asyncio.gather(*(batcher(n) for n in range(1, 6))) == [2, 4, 6, 8, 10]
    assert far.batches == [[1, 2], [3, 4], [5]]


async def test_no_item_waits_for_a_slow_one_in_its_batch() -> None:
    far = Doubler(slow=frozenset([1]))
    batcher = Batcher(far.send)
    slow, quick = asyncio.ensure_future(batcher(1)), asyncio.ensure_future(batcher(2))
    async with asyncio.timeout(5):
        assert await quick == 4
    assert not slow.done()
    assert batcher.pending == 1
    far.gate.set()
    assert await slow == 2


async def test_an_item_that_fails_fails_alone() -> None:
    batcher = Batcher(Doubler().send)
    results = await asyncio.gather(batcher(0), batcher(3), return_exceptions=True)
    assert isinstance(results[0], ValueError)
    assert results[1] == 6


async def test_a_call_that_breaks_fails_all_that_still_wait_for_it() -> None:
    async def send(numbers: list[int]) -> AsyncIterator[list[tuple[int, int | Exception]]]:
        yield [(0, 10)]
        raise ConnectionResetError("gone")

    batcher: Batcher[int, int] = Batcher(send)
    results = await asyncio.gather(batcher(1), batcher(2), return_exceptions=True)
    assert results[0] == 10
    assert isinstance(results[1], ConnectionResetError)


async def test_a_call_that_forgets_an_item_is_an_error_and_not_a_hang() -> None:
    async def send(numbers: list[int]) -> AsyncIterator[list[tuple[int, int | Exception]]]:
        yield [(0, 10)]

    batcher: Batcher[int, int] = Batcher(send)
    async with asyncio.timeout(5):
        results = await asyncio.gather(batcher(1), batcher(2), return_exceptions=True)
    assert isinstance(results[1], RuntimeError)


async def test_closing_a_stream_cancels_its_work() -> None:
    cancelled = asyncio.Event()

    async def forever(item: int) -> int:
        if item == 0:
            return 0
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return item

    results = stream(forever, [0, 1])
    assert await anext(results) == [(0, 0)]
    await results.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(5):
        await cancelled.wait()


class Counted:
    def __init__(self) -> None:
        self.pending = 0
        self.served: list[str] = []

    async def __call__(self, request: Request) -> Completion:
        self.served.append(request.prefix)
        return Completion(request.id, "")


async def test_a_prefix_always_goes_to_the_same_replica() -> None:
    replicas = [Counted() for _ in range(4)]
    pool = Pool(replicas)
    for number in range(200):
        await pool.complete(Request(str(number), f"p{number % 20}", "", "", ""))
    assert all(len(set(replica.served)) * 10 == len(replica.served) for replica in replicas)
    assert sum(bool(replica.served) for replica in replicas) >= 3


def test_adding_a_replica_moves_few_prefixes() -> None:
    prefixes = [f"p{number}" for number in range(1000)]
    moved = sum(preferred(prefix, 4) != preferred(prefix, 5) for prefix in prefixes)
    assert 100 < moved < 300  # a fifth, where hashing modulo the number would move four fifths


def test_a_full_replica_spills_to_the_least_loaded() -> None:
    replicas = [Counted() for _ in range(3)]
    pool = Pool(replicas, spill=5)
    first = pool.choose("p")
    replicas[first].pending = 5
    assert pool.choose("p") == first
    replicas[first].pending = 6
    assert pool.choose("p") != first


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one replica"):
        Pool([])


async def test_a_closed_discussion_is_forgotten_with_the_next_batch_and_once() -> None:
    calls: list[list[str]] = []

    async def send(turns: list[Turn], closed: list[str]) -> AsyncIterator[list[tuple[int, Message | Exception]]]:
        calls.append(closed)
        yield [(index, Message(turn.id, turn.agent, turn.round)) for index, turn in enumerate(turns)]

    team = Team({"ann": send})
    team.close("d1")
    await team.ask(Turn("d2", Question("q", "?"), "ann", 1, 0))
    await team.ask(Turn("d2", Question("q", "?"), "ann", 2, 0))
    assert calls == [["d1"], []]
