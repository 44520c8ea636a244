"""Calls over an open socket: values as they come, errors as they were raised, and nothing for who has no key."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.runtime.channel import Address, CallFailed, Channel, ChannelLost, Listener
from tests.support.paths import ROOT
from tests.support.waiting import until

HERE = "127.0.0.1"


class Far:
    """The far side: counts up to a number, with a gate before each value that is asked to wait."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.told: list[str] = []
        self.cancelled = 0

    async def count(self, to: int, wait: bool = False) -> AsyncIterator[int]:
        for number in range(to):
            if wait:
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
            yield number

    async def echo(self, value: Any) -> AsyncIterator[Any]:
        yield value

    async def fail(self, error: Exception) -> AsyncIterator[int]:
        yield 1
        raise error

    async def fail_with_more_than_can_be_sent(self) -> AsyncIterator[int]:
        error = ValueError("it has a lock")
        error.lock = asyncio.get_running_loop()  # type: ignore[attr-defined]
        raise error
        yield 0

    def refuse(self) -> AsyncIterator[int]:
        raise ValueError("it could not be made")

    def note(self, text: str) -> None:
        self.told.append(text)


METHODS = frozenset({"count", "echo", "fail", "fail_with_more_than_can_be_sent", "note", "refuse"})


class Located:
    """A channel to a far side, and the places where it was looked for."""

    def __init__(self) -> None:
        self.far = Far()
        self.listener = Listener(self.far, METHODS)
        self.looked = 0
        self.channel = Channel(self.locate)

    async def locate(self) -> Address:
        self.looked += 1
        return await self.listener.address(HERE)

    async def values(self, method: str, *arguments: object) -> list[Any]:
        return [value async for value in self.channel.stream(method, *arguments)]


@pytest.fixture
async def located() -> AsyncIterator[Located]:
    made = Located()
    yield made
    made.listener.close()
    await asyncio.sleep(0)  # the sockets are closed in the next turn of the event loop


async def test_a_call_yields_what_the_method_yields_over_one_connection(located: Located) -> None:
    assert await asyncio.gather(*(located.values("count", number) for number in range(4))) == [
        [],
        [0],
        [0, 1],
        [0, 1, 2],
    ]
    assert located.looked == 1


async def test_a_call_over_an_open_connection_is_made_before_anything_of_it_is_asked_for(located: Located) -> None:
    await located.values("count", 1)
    values = located.channel.stream("count", 1, True)
    located.channel.tell("note", "after it")
    await until(lambda: located.far.told)
    located.listener.close()  # what it was doing is lost with it, which nobody could know of a call that was not made
    with pytest.raises(ChannelLost):
        await anext(values)
    assert located.looked == 1


async def test_a_call_does_not_wait_for_another(located: Located) -> None:
    slow = asyncio.create_task(located.values("count", 2, True))
    async with asyncio.timeout(5):
        assert await located.values("count", 1) == [0]
    assert not slow.done()
    located.far.gate.set()
    assert await slow == [0, 1]


@pytest.mark.parametrize("size", [0, 1, 65_536, 5_000_000])
async def test_values_of_any_size_arrive_whole(located: Located, size: int) -> None:
    value = os.urandom(size)
    several = await asyncio.gather(*(located.values("echo", value) for _ in range(3)))
    assert several == [[value]] * 3


async def test_an_error_arrives_as_it_was_raised_after_what_was_yielded_before(located: Located) -> None:
    values = located.channel.stream("fail", KeyError("no more"))
    assert await anext(values) == 1
    with pytest.raises(CallFailed, match="no more") as raised:
        await anext(values)
    assert isinstance(raised.value.error, KeyError)
    assert await located.values("count", 1) == [0]  # the connection is as good as before


async def test_an_error_that_cannot_be_sent_is_told_in_words(located: Located) -> None:
    with pytest.raises(CallFailed, match="ValueError: it has a lock"):
        await located.values("fail_with_more_than_can_be_sent")


async def test_what_a_method_raises_before_it_yields_anything_is_no_lost_connection(located: Located) -> None:
    with pytest.raises(CallFailed, match="it could not be made"):
        await located.values("refuse")
    assert await located.values("count", 1) == [0]
    assert located.looked == 1


async def test_a_channel_that_was_closed_leaves_nothing_open_and_opens_again(located: Located) -> None:
    open_files = psutil.Process().num_fds()
    for number in range(3):
        assert await located.values("count", 1) == [0]
        assert located.looked == number + 1
        located.channel.close()
        # Both ends, and what listens, which stays.
        await until(lambda: psutil.Process().num_fds() <= open_files + 1)


async def test_calls_of_a_lost_connection_end_on_both_sides_and_the_next_opens_another(
    located: Located,
) -> None:
    waiting = asyncio.create_task(located.values("count", 1, True))
    assert await located.values("count", 1) == [0]
    located.listener.close()  # as the end of the far process would
    located.listener = Listener(located.far, METHODS)
    with pytest.raises(ChannelLost):
        await waiting
    await until(lambda: located.far.cancelled == 1)
    assert await located.values("count", 2) == [0, 1]
    assert located.looked == 2


async def test_a_call_over_a_connection_that_is_lost_by_then_ends(located: Located) -> None:
    connection = await located.channel._open()
    located.listener.close()
    await until(connection.closed.done)
    async with asyncio.timeout(5):
        _, lost = await connection.call("count", (1,)).get()
    assert isinstance(lost, ChannelLost)


async def test_a_process_that_cannot_be_reached_is_lost(located: Located) -> None:
    address = await located.locate()
    located.listener.close()

    async def gone() -> Address:
        return address

    with pytest.raises(ChannelLost):
        await anext(Channel(gone).stream("count", 1))


async def test_what_is_told_is_not_answered_and_needs_a_connection(located: Located) -> None:
    located.channel.tell("note", "nobody hears this")
    assert await located.values("count", 1) == [0]
    located.channel.tell("note", "this arrives")
    await until(lambda: located.far.told)
    assert located.far.told == ["this arrives"]


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


async def test_without_the_key_nothing_is_unpickled(located: Located, tmp_path: Path) -> None:
    trap = tmp_path / "touched"
    address = await located.locate()
    packed = pickle.dumps(Trap(trap))
    frame = len(packed).to_bytes(8, "big") + bytes(8) + b"\0" + packed
    for key in (bytes(len(address.key)), b"", address.key[:-1]):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(key + frame)
        async with asyncio.timeout(5):
            assert await reader.read() == b""  # it hangs up
        writer.close()
    assert not trap.exists()
    # The trap does work: with the key it would have been sprung.
    _, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(address.key + frame)
    await until(trap.exists)
    writer.close()


SILENT = """
import asyncio, subprocess
from actors.runtime import channel
from tests.actors.runtime.test_channel import HERE, METHODS, Far

async def silent() -> None:
    channel.GONE_S = 2.0
    far = Far()
    listener = channel.Listener(far, METHODS)
    address = await listener.address(HERE)
    async def locate() -> channel.Address:
        return address
    values = channel.Channel(locate).stream("count", 2, True)
    waiting = asyncio.ensure_future(anext(values))
    await asyncio.sleep(0.5)
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    try:
        await asyncio.wait_for(waiting, 60)
    except channel.ChannelLost:
        while not far.cancelled:  # the far end has noticed it as well
            await asyncio.sleep(0.1)
        print("lost")

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
asyncio.run(silent())
"""


def test_a_node_that_falls_silent_without_ending_its_connections_is_lost() -> None:
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("ip") is None or subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("needs a network of its own: unshare, ip, and the right to use them")
    told = subprocess.run([*alone, sys.executable, "-c", SILENT], cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert told.stdout == "lost\n", told.stderr
