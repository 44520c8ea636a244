"""An object whose process is lost goes on as if it were not. Without Ray: the class of the process is the process."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from actors.errors import ClusterError
from actors.runtime import stateful
from actors.runtime.remote import Actor
from actors.runtime.stateful import LearnerProcess, RemoteStateful
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import PruningSettings
from topologies.learning.variants import EFFECTS, M3PRUNE, RLOO, Variant

Fate = Callable[[], Exception | None]
MODALITIES = ["text", "text", "text", "visual", "visual"]


class Counter:
    """Adds up; its state is the sum."""

    def __init__(self, start: int) -> None:
        self._sum = start

    def add(self, number: int) -> int:
        if number < 0:
            raise ValueError("only upwards")
        self._sum += number
        return self._sum

    def state(self) -> int:
        return self._sum

    def load(self, state: int) -> None:
        self._sum = state


class Client:
    """Stands for the client. `fate` says what comes before and after each call: None, or an error of the process.

    With `new` the process that an error ended is replaced by another one; else the call or its answer is lost alone.
    """

    def __init__(
        self, make: Callable[[], LearnerProcess], fate: Callable[[], Exception | None], new: bool = True
    ) -> None:
        self._make, self._fate, self._new = make, fate, new
        self.process = make()

    async def __call__(self, item: Any) -> Any:
        self.strike()
        value = await self.process.serve(item)
        await asyncio.sleep(0)
        self.strike()
        return value

    def strike(self) -> None:
        if error := self._fate():
            if self._new:
                self.process = self._make()
            raise error


def remote_of(name: str, client: Any) -> RemoteStateful:
    return RemoteStateful(name, Actor("the actor", "learner", "the actor"), client)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "RETRY_S", 0)


def fate(seed: int, share: float = 0.3) -> Fate:
    random = Random(seed)
    return lambda: ActorUnavailableError("killed", None) if random.random() < share else None


def counter(fate: Fate, new: bool = True) -> RemoteStateful:
    return remote_of("it", Client(lambda: LearnerProcess({"it": partial(Counter, 1)}), fate, new))


@pytest.mark.parametrize(("seed", "new"), list(product(range(5), (True, False))))
async def test_whatever_is_lost_every_call_is_done_once(seed: int, new: bool) -> None:
    remote, ours = counter(fate(seed), new), Counter(1)
    for number in range(30):
        assert await remote.add(number) == ours.add(number)
    assert await remote.state() == ours.state()


@pytest.mark.parametrize("seed", range(5))
async def test_objects_in_one_process_are_lost_together_and_know_nothing_of_each_other(seed: int) -> None:
    client = Client(lambda: LearnerProcess({"low": partial(Counter, 1), "high": partial(Counter, 100)}), fate(seed))
    ours = {"low": Counter(1), "high": Counter(100)}
    remote = {name: remote_of(name, client) for name in ours}
    random = Random(seed)
    for number in range(40):
        name = random.choice(["low", "high"])
        assert await remote[name].add(number) == ours[name].add(number)
    assert [await remote[name].state() for name in ours] == [counter.state() for counter in ours.values()]


async def test_calls_side_by_side_are_made_one_after_another() -> None:
    remote = counter(fate(7))
    assert sorted(await asyncio.gather(*(remote.add(1) for _ in range(20)))) == list(range(2, 22))


async def test_a_call_that_was_cancelled_has_changed_nothing() -> None:
    remote = counter(lambda: None)
    given_up = asyncio.create_task(remote.add(5))
    await asyncio.sleep(0)  # done, and its answer is on the way
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    assert await remote.add(2) == 3


async def test_what_the_object_itself_raises_is_raised_and_changes_nothing() -> None:
    remote = counter(lambda: None)
    with pytest.raises(ValueError, match="only upwards"):
        await remote.add(-1)
    assert await remote.add(2) == 3


async def test_a_process_that_is_started_no_more_is_one_line() -> None:
    with pytest.raises(ClusterError, match=r"^the actor: .*\b11 times"):
        await counter(ActorDiedError).add(1)


@pytest.mark.parametrize("variant", [M3PRUNE, RLOO, EFFECTS])
async def test_a_learner_whose_process_is_lost_again_and_again_learns_the_same(variant: Variant) -> None:
    settings = {"variant": variant, "pruning": PruningSettings(steps=3), "seed": 4}
    make = lambda: LearnerProcess({"it": partial(Learner, MODALITIES, **settings)})  # noqa: E731
    remote, ours = remote_of("it", Client(make, fate(11, 0.2))), Learner(MODALITIES, **settings)
    random = np.random.default_rng(5)
    while not ours.finished:
        wirings, expected = await remote.sample(6), ours.sample(6)
        np.testing.assert_array_equal(wirings.spatial, expected.spatial)
        np.testing.assert_array_equal((await remote.chances()).spatial, ours.chances().spatial)
        scores = random.random((6, 2, 5)), random.random(6), np.arange(6) // 2
        assert await remote.learn(wirings, *scores) == ours.learn(wirings, *scores)
        if ours.step == 3:
            await remote.next_stage()
            ours.next_stage()
    theirs = await remote.state()
    assert all(np.array_equal(theirs[name], mine, equal_nan=True) for name, mine in ours.state().items())
    np.testing.assert_array_equal((await remote.inference()).spatial, ours.inference().spatial)
