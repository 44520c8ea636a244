"""Slots: so many discussions at once over all phases, and learners first."""

import asyncio
from random import Random

import pytest

from experiments.running.run_context import Slots


async def settle() -> None:
    """Lets every task go on as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


class Holder:
    """Tasks that take a slot and keep it until they are told to end."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.held: list[str] = []

    def start(self, name: str, *, learning: bool) -> tuple[asyncio.Task[None], asyncio.Event]:
        end = asyncio.Event()

        async def hold() -> None:
            async with self._slots.slot(learning=learning):
                self.held.append(name)
                await end.wait()
                self.held.remove(name)

        return asyncio.create_task(hold()), end


async def test_what_a_learner_needs_is_kept_for_it_and_the_rest_goes_to_others_until_it_has_ended() -> None:
    slots = Slots(5)
    holder = Holder(slots)
    with slots.reserved(3):
        others = [holder.start(f"other {n}", learning=False) for n in range(4)]
        await settle()
        assert holder.held == ["other 0", "other 1"]
        learning = [holder.start(f"learner {n}", learning=True) for n in range(3)]
        await settle()
        assert holder.held == ["other 0", "other 1", "learner 0", "learner 1", "learner 2"]
        learning[0][1].set()
        await settle()
        # Free for the moment, and the learner's own.
        assert holder.held == ["other 0", "other 1", "learner 1", "learner 2"]
    await settle()
    assert holder.held == ["other 0", "other 1", "learner 1", "learner 2", "other 2"]
    for task, end in others + learning:
        end.set()
        await task
    assert not holder.held


async def test_a_learner_comes_before_others_that_waited_longer_and_learners_in_the_order_in_which_they_asked() -> None:
    slots = Slots(1)
    holder = Holder(slots)
    started = [holder.start("first", learning=False)]
    await settle()
    started += [holder.start("other", learning=False)]
    started += [holder.start(f"learner {n}", learning=True) for n in range(2)]
    await settle()
    seen = []
    for task, _ in (started[0], started[2], started[3], started[1]):
        seen += holder.held
        next(end for each, end in started if each is task).set()
        await task
        await settle()
    assert seen == ["first", "learner 0", "learner 1", "other"]


@pytest.mark.parametrize("seed", range(5))
async def test_no_slot_is_lost_or_given_twice_whoever_is_cancelled_when(seed: int) -> None:
    random, slots = Random(seed), Slots(3)
    held = most = 0

    async def hold(learning: bool) -> None:
        nonlocal held, most
        async with slots.slot(learning=learning):
            held += 1
            most = max(most, held)
            try:
                for _ in range(random.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                held -= 1

    tasks = []
    with slots.reserved(2):
        for _ in range(60):
            tasks.append(asyncio.create_task(hold(random.random() < 0.5)))
            if random.random() < 0.6:
                random.choice(tasks).cancel()
            if random.random() < 0.5:
                await asyncio.sleep(0)
    done, waiting = await asyncio.wait(tasks, timeout=10)
    assert not waiting
    assert any(not task.cancelled() for task in done)
    assert (held, most) == (0, 3)
    # All of them are there again.
    async with slots.slot(learning=False), slots.slot(learning=False), slots.slot(learning=True):
        pass
