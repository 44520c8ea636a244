"""What is ready together travels in a few calls; nothing waits for what it does not need."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator

from actors.messages import Message, Question, Turn, Usage
from actors.runtime.batching import Batcher, Results
from actors.runtime.team import RemoteTeam, TurnResult
from actors.runtime.work_queue import WorkQueue
from tests.support.waiting import until


class Doubler:
    """The far side of a batcher: doubles numbers; zero fails, and `slow` numbers wait for the gate."""

    def __init__(self, slow: frozenset[int] = frozenset()) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.cancelled: list[int] = []
        self._slow = slow
        self.queue = WorkQueue(self._double)

    async def _double(self, number: int) -> int:
        if number in self._slow:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(number)
                raise
        if number == 0:
            raise ValueError("zero")
        return 2 * number

    async def send(self, numbers: list[tuple[int, int]]) -> AsyncIterator[Results[int]]:
        self.batches.append([number for _, number in numbers])
        async for results in self.queue.stream("sender", numbers):
            yield results

    def drop(self, ids: list[int]) -> None:
        self.queue.drop("sender", ids)


async def test_items_that_are_ready_together_are_sent_in_parts() -> None:
    far = Doubler()
    batcher = Batcher(far.send)
    assert await asyncio.gather(*(batcher(n) for n in range(1, 6))) == [2, 4, 6, 8, 10]
    assert far.batches == [[1, 2], [3, 4], [5]]


async def test_a_part_is_sent_before_what_is_ready_after_it_is_made() -> None:
    sent: list[list[int]] = []

    def send(numbers: list[tuple[int, int]]) -> AsyncIterator[Results[int]]:
        sent.append([number for _, number in numbers])
        return Doubler().send(numbers)

    batcher = Batcher(send)
    had: list[int] = []

    async def ask(number: int) -> None:
        had.append(len(sent))
        await batcher(number)

    await asyncio.gather(*map(ask, range(1, 6)))
    assert had == [0, 0, 1, 1, 2]


async def test_parts_grow_with_what_is_on_its_way() -> None:
    far = Doubler(slow=frozenset(range(1, 200)))
    batcher = Batcher(far.send)
    asking = [asyncio.ensure_future(batcher(n)) for n in range(1, 200)]
    await until(lambda: sum(map(len, far.batches)) == 199)
    sizes = list(map(len, far.batches))
    assert sizes[0] == 2
    assert sizes[:-1] == sorted(sizes[:-1])
    assert max(sizes) > 10
    far.gate.set()
    assert await asyncio.gather(*asking) == [2 * n for n in range(1, 200)]


async def test_what_cannot_be_sent_fails_those_that_ask_for_it() -> None:
    def send(numbers: list[tuple[int, int]]) -> AsyncIterator[Results[int]]:
        raise pickle.PicklingError("not that")

    batcher: Batcher[int, int] = Batcher(send)
    results = await asyncio.gather(batcher(1), batcher(2), batcher(3), return_exceptions=True)
    assert [type(result) for result in results] == 3 * [pickle.PicklingError]
    assert batcher.pending == 0


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
    async def send(numbers: list[tuple[int, int]]) -> AsyncIterator[Results[int]]:
        yield [(0, 10)]
        raise ConnectionResetError("gone")

    batcher: Batcher[int, int] = Batcher(send)
    results = await asyncio.gather(batcher(1), batcher(2), return_exceptions=True)
    assert results[0] == 10
    assert isinstance(results[1], ConnectionResetError)


async def test_a_call_that_forgets_an_item_is_an_error_and_not_a_hang() -> None:
    async def send(numbers: list[tuple[int, int]]) -> AsyncIterator[Results[int]]:
        yield [(0, 10)]

    batcher: Batcher[int, int] = Batcher(send)
    async with asyncio.timeout(5):
        results = await asyncio.gather(batcher(1), batcher(2), return_exceptions=True)
    assert isinstance(results[1], RuntimeError)


async def test_an_item_that_nobody_waits_for_any_more_is_not_worked_on() -> None:
    far = Doubler(slow=frozenset([1, 2]))
    batcher = Batcher(far.send, drop=far.drop)
    given_up, kept = asyncio.ensure_future(batcher(1)), asyncio.ensure_future(batcher(2))
    assert await batcher(3) == 6
    given_up.cancel()
    await until(lambda: far.cancelled)
    assert far.cancelled == [1]
    assert far.queue.in_flight == batcher.pending == 1
    far.gate.set()
    assert await kept == 4


async def test_an_item_given_up_before_it_was_sent_is_never_sent() -> None:
    far = Doubler()
    batcher = Batcher(far.send, drop=far.drop)
    given_up, kept = asyncio.ensure_future(batcher(1)), asyncio.ensure_future(batcher(2))
    given_up.cancel()
    assert await kept == 4
    assert far.batches == [[2]]


async def test_closing_a_stream_cancels_its_work() -> None:
    far = Doubler(slow=frozenset([1]))
    results = far.queue.stream("sender", [(0, 3), (1, 1)])
    assert await anext(results) == [(0, 6)]
    await results.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    assert far.cancelled == [1]
    assert far.queue.in_flight == far.queue.in_flight_of("sender") == 0
    assert far.queue.streams == 0


async def test_a_queue_works_on_no_more_than_its_capacity_at_once_and_in_order() -> None:
    begun: list[int] = []
    gates = [asyncio.Event() for _ in range(5)]

    async def work(item: int) -> int:
        begun.append(item)
        await gates[item].wait()
        return item

    queue: WorkQueue[int, int] = WorkQueue(work, capacity=2)
    results = queue.stream("sender", [(number, number) for number in range(5)])
    first = asyncio.ensure_future(anext(results))
    await asyncio.sleep(0.01)
    assert begun == [0, 1]
    assert queue.in_flight == 5
    gates[1].set()
    assert await first == [(1, 1)]
    assert begun == [0, 1, 2]
    queue.drop("sender", [3])  # it waits: it never begins
    for gate in gates:
        gate.set()
    assert sorted([index for ended in [part async for part in results] for index, _ in ended]) == [0, 2, 4]
    assert begun == [0, 1, 2, 4]


async def test_work_that_is_dropped_before_its_first_step_gives_its_place_back() -> None:
    queue: WorkQueue[int, int] = WorkQueue(lambda item: asyncio.sleep(0, item), capacity=1)
    stream = queue.stream("first", [(0, 1)])
    asking = asyncio.ensure_future(anext(stream, None))
    asyncio.get_running_loop().call_soon(queue.drop, "first")
    assert await asking is None
    async with asyncio.timeout(5):
        assert [part async for part in queue.stream("second", [(0, 2)])] == [[(0, 2)]]


class Agent:
    """Answers every turn with an empty message, and has spent a call on it."""

    def __init__(self) -> None:
        self.closed: list[list[str]] = []

    async def take(self, turns: list[tuple[int, Turn]], closed: list[str]) -> AsyncIterator[Results[TurnResult]]:
        self.closed.append(closed)
        yield [
            (id, (Message(turn.id, turn.agent, turn.round), Usage(calls=1, prompt_tokens=turn.seed)))
            for id, turn in turns
        ]

    def drop(self, ids: list[int]) -> None:
        raise AssertionError


async def test_a_closed_discussion_is_forgotten_with_the_next_batch_and_once() -> None:
    ann = Agent()
    team = RemoteTeam({"ann": ann})
    team.close("d1")
    await team.ask(Turn("d2", Question("q", "?"), "ann", 1, 0))
    await team.ask(Turn("d2", Question("q", "?"), "ann", 2, 0))
    assert ann.closed == [["d1"], []]


async def test_a_team_adds_up_what_each_agent_has_spent() -> None:
    team = RemoteTeam({"ann": Agent(), "bob": Agent()})
    for seed in (5, 7):
        assert (await team.ask(Turn("d", Question("q", "?"), "ann", 1, seed))).agent == "ann"
    assert team.usage == {"ann": Usage(calls=2, prompt_tokens=12), "bob": Usage()}


async def test_what_a_phase_spends_beside_others_is_its_own_and_its_agents_forget_as_all_do() -> None:
    ann = Agent()
    team = RemoteTeam({"ann": ann})
    one, other = team.metered(), team.metered()
    one.close("d1")
    for phase, seed in ((one, 5), (other, 7), (one, 6)):
        await phase.ask(Turn("d2", Question("q", "?"), "ann", 1, seed))
    assert (one.usage["ann"].prompt_tokens, other.usage["ann"].prompt_tokens) == (11, 7)
    assert team.usage == {"ann": Usage()}
    assert ann.closed == [["d1"], [], []]


async def test_instances_of_a_role_share_its_calls_and_have_a_usage_each() -> None:
    critic = Agent()
    team = RemoteTeam({"critic": critic, "bob": Agent()}, instances={"critic_1": "critic", "critic_2": "critic"})
    team.close("d0")
    turns = [Turn("d", Question("q", "?"), name, 1, seed) for name, seed in (("critic_1", 5), ("critic_2", 7))]
    assert [answer.agent for answer in await asyncio.gather(*map(team.ask, turns))] == ["critic_1", "critic_2"]
    assert critic.closed == [["d0"]]
    assert {name: usage.prompt_tokens for name, usage in team.usage.items()} == {"bob": 0, "critic_1": 5, "critic_2": 7}


async def test_an_unexpected_error_tells_where_it_was_raised_in_another_process_too() -> None:
    async def work(number: int) -> int:
        return 1 // number

    queue: WorkQueue[int, int] = WorkQueue(work)
    [[(_, error)]] = [results async for results in queue.stream("sender", [(1, 0)])]
    assert isinstance(error, ZeroDivisionError)
    [note] = pickle.loads(pickle.dumps(error)).__notes__
    assert "return 1 // number" in note
