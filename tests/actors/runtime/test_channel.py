"""Items over an open socket: results as they come, errors as they were raised, and nothing for who has no key."""

import asyncio
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.errors import AgentLost
from actors.messages import Kind, Source
from actors.runtime import channel, service
from actors.runtime.channel import HEADER, STREAM_BYTES, Address, ChannelLost, PickledStream, UnpickledStream
from actors.runtime.service import Service
from actors.runtime.service_client import Client
from tests.support.paths import ROOT
from tests.support.waiting import until

HERE = "127.0.0.1"


class Far:
    """The far side: returns what it gets, raises what it gets as an error, and waits at a gate for numbers."""

    def __init__(self, capacity: int | None = None) -> None:
        self.gate = asyncio.Event()
        self.begun: list[Any] = []
        self.cancelled: list[Any] = []
        self.batches: list[list[Any]] = []
        self.notes: list[list[str]] = []
        self.looked = 0
        self._capacity = capacity
        self.start()
        self.client: Client[Any, Any] = Client(self.locate)

    def start(self) -> None:
        """Serves from now on, as a new process would."""
        self.service: Service[Any, Any] = Service(self.work, self._capacity, self.notes.append)
        accept = self.service.accept

        def noting(caller: Any, notes: list[Any], ids: list[int], items: list[tuple[int, Any]]) -> None:
            self.batches.append([item for _, item in items])
            accept(caller, notes, ids, items)

        self.service.accept = noting  # type: ignore[method-assign]

    async def locate(self) -> Address:
        self.looked += 1
        return await self.service.address(HERE)

    async def work(self, item: Any) -> Any:
        self.begun.append(item)
        if isinstance(item, int):
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(item)
                raise
        if isinstance(item, Exception):
            raise item
        return item


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    made = Far()
    yield made
    made.service.close()
    await asyncio.sleep(0)  # the sockets are closed in the next turn of the event loop


async def test_items_travel_over_one_connection_and_none_waits_for_another(far: Far) -> None:
    slow = asyncio.ensure_future(far.client(1))
    async with asyncio.timeout(5):
        assert await asyncio.gather(*map(far.client, "abc")) == ["a", "b", "c"]
    assert not slow.done()
    assert far.client.pending == 1
    far.gate.set()
    assert await slow == 1
    assert far.looked == 1


@pytest.mark.parametrize("size", [0, 1, 65_536, 5_000_000])
async def test_items_of_any_size_arrive_whole(far: Far, size: int) -> None:
    value = os.urandom(size)
    assert await asyncio.gather(*(far.client(value) for _ in range(3))) == [value] * 3


class Unsendable(Exception):
    """Cannot be unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


async def fail(kind: str) -> Any:
    if kind == "Unsendable":
        raise Unsendable("it", "x")
    return lambda: None


async def test_an_error_arrives_as_it_was_raised_and_fails_its_own_item_alone(far: Far) -> None:
    good, bad = await asyncio.gather(far.client("a"), far.client(KeyError("no more")), return_exceptions=True)
    assert good == "a"
    assert isinstance(bad, KeyError)
    assert "raise item" in bad.__notes__[0]
    far.service._work = fail
    for kind in ("Unsendable", "AttributeError|PicklingError"):
        with pytest.raises(RuntimeError, match=kind):
            await far.client(kind)
    assert far.looked == 1


async def test_an_item_that_cannot_be_sent_fails_those_that_are_sent_with_it(far: Far) -> None:
    await far.client("open")
    results = await asyncio.gather(far.client(lambda: None), far.client("a"), return_exceptions=True)
    assert isinstance(results[0], Exception)
    assert far.client.pending == 0
    assert await far.client("b") == "b"


async def test_an_item_that_nobody_waits_for_is_cancelled_and_one_not_sent_is_never_sent(far: Far) -> None:
    await far.client("open")
    given_up, kept = asyncio.ensure_future(far.client(1)), asyncio.ensure_future(far.client(2))
    await until(lambda: len(far.begun) == 3)
    given_up.cancel()
    await until(lambda: far.cancelled == [1])
    assert far.service.in_flight == far.client.pending == 1
    never = asyncio.ensure_future(far.client(3))
    never.cancel()
    far.gate.set()
    assert await kept == 2
    assert 3 not in far.begun


async def test_a_lost_connection_fails_and_cancels_what_is_in_flight_and_the_next_item_opens_another() -> None:
    far = Far()
    far.client = Client(far.locate, lambda error: AgentLost(f"ann: {error}"))
    waiting = asyncio.ensure_future(far.client(1))
    await until(lambda: far.begun == [1])
    far.service.close()  # as the end of the far process would
    far.start()
    with pytest.raises(AgentLost, match=r"^ann: "):
        await waiting
    await until(lambda: far.cancelled == [1])
    assert await far.client("a") == "a"
    assert far.looked == 2
    far.service.close()
    await asyncio.sleep(0)


async def test_a_process_that_cannot_be_reached_is_lost(far: Far) -> None:
    address = await far.locate()
    far.service.close()

    async def gone() -> Address:
        return address

    client: Client[str, str] = Client(gone)
    with pytest.raises(ChannelLost):
        await client("a")
    assert client.pending == 0


async def test_what_locating_raises_is_raised_to_all_that_wait_for_it() -> None:
    async def nowhere() -> Address:
        raise KeyError("no such actor")

    client: Client[str, str] = Client(nowhere)
    results = await asyncio.gather(client("a"), client("b"), return_exceptions=True)
    assert [type(result) for result in results] == 2 * [KeyError]


async def test_notes_travel_with_the_next_items_or_with_the_end_of_the_connection(far: Far) -> None:
    open_files = psutil.Process().num_fds()
    far.client.note("first")
    assert await far.client("a") == "a"
    assert far.notes == [["first"]]
    far.client.note("last")
    far.client.close()
    await until(lambda: far.notes == [["first"], ["last"]])
    # Both ends are closed; what listens stays.
    await until(lambda: psutil.Process().num_fds() <= open_files + 1)
    assert await far.client("a") == "a"
    assert far.looked == 2


async def test_a_service_works_on_no_more_than_its_capacity_at_once_and_in_order() -> None:
    far = Far(capacity=2)
    other: Client[Any, Any] = Client(far.locate)
    sent = [asyncio.ensure_future(far.client(number)) for number in (1, 2, 3)]
    await until(lambda: far.service.in_flight == 3)
    sent += [asyncio.ensure_future(other(number)) for number in (4, 5)]
    await until(lambda: far.service.in_flight == 5)
    assert far.begun == [1, 2]
    sent[2].cancel()  # it waits: it never begins
    await until(lambda: far.service.in_flight == 4)
    far.gate.set()
    assert [await sent[number] for number in (0, 1, 3, 4)] == [1, 2, 4, 5]
    assert far.begun == [1, 2, 4, 5]
    far.service.close()
    await asyncio.sleep(0)


async def test_a_client_knows_how_many_items_of_others_a_service_has() -> None:
    far = Far()
    other: Client[Any, Any] = Client(far.locate)
    waiting = [asyncio.ensure_future(other(number)) for number in (1, 2)]
    await until(lambda: far.service.in_flight == 2)
    await far.client("a")
    assert far.client.load == 2
    far.gate.set()
    await asyncio.gather(*waiting)
    await far.client("b")
    assert far.client.load == 0
    far.service.close()
    await asyncio.sleep(0)


async def test_a_service_that_fails_ends_all_items_at_once(far: Far) -> None:
    waiting = [asyncio.ensure_future(far.client(number)) for number in (1, 2)]
    await until(lambda: len(far.begun) == 2)
    far.service.fail(ValueError("the engine died"))
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == 2 * [ValueError]
    assert far.service.in_flight == 0


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


async def test_an_object_that_was_sent_before_arrives_as_the_same_object(far: Far) -> None:
    question = Source("s", "s", Kind.TEXT, "Place", "A town by the sea. " * 100)
    results = [await far.client((question, number)) for number in range(3)]
    assert [number for _, number in results] == [0, 1, 2]
    assert all(received is far.begun[0][0] for received, _ in far.begun)
    assert all(received is results[0][0] for received, _ in results)
    with pytest.raises(TypeError):
        await far.client((question, threading.Lock()))
    # What was pickled with it has never arrived.
    assert await far.client((question, 4)) == (question, 4)


async def test_objects_that_change_are_sent_whole_each_time(far: Far) -> None:
    changing: list[str] = []
    far.client = Client(far.locate, frozen=False)
    for text in ("a", "b"):
        changing.append(text)
        await far.client((changing, "x"))
    assert [list(received) for received, _ in far.begun] == [["a"], ["a", "b"]]


def test_a_stream_ends_before_both_sides_keep_too_much() -> None:
    sent = PickledStream(frozen=True)
    made = UnpickledStream()
    text = "x" * (STREAM_BYTES // 2)
    sizes: list[int] = []
    for _ in range(5):
        header, packed = sent.pack((text, [1]))
        is_first, size = HEADER.unpack(header)
        assert made.unpack(is_first, memoryview(packed)) == (text, [1])
        sizes.append(size)
    assert sizes[1] < 100 < sizes[0]
    other = PickledStream(frozen=True)
    begun = [HEADER.unpack(other.pack(str(number) * STREAM_BYTES)[0])[0] for number in range(3)]
    assert begun == [True, True, True]


async def test_without_the_key_nothing_is_unpickled(far: Far, tmp_path: Path) -> None:
    trap = tmp_path / "touched"
    address = await far.locate()
    packed = pickle.dumps(([Trap(trap)], [], []))
    frame = HEADER.pack(True, len(packed)) + packed
    for key in (bytes(len(address.key)), b"", address.key[:-1]):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(key + frame)
        async with asyncio.timeout(5):
            assert await reader.read() == b""  # it hangs up
        writer.close()
    assert not trap.exists()
    # The trap does work: with the key it is sprung.
    _, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(address.key + frame)
    await until(trap.exists)
    writer.close()


async def test_connections_without_the_key_are_few_and_short(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "STRANGERS", 4)
    monkeypatch.setattr(channel, "KEY_S", 0.5)
    address = await far.locate()
    assert await far.client("a") == "a"
    held = [await asyncio.open_connection(address.host, address.port) for _ in range(9)]
    async with asyncio.timeout(5):
        assert await held[0][0].read() == b""  # pushed out
        assert await Client[Any, Any](far.locate)("b") == "b"
        assert [await reader.read() for reader, _ in held] == 9 * [b""]  # and all in the end
    assert await far.client("c") == "c"
    assert far.looked == 3  # once here, and once for each client
    for _, writer in held:
        writer.close()


SILENT = """
import asyncio, subprocess
from actors.runtime import channel
from tests.actors.runtime.test_channel import Far

async def silent() -> None:
    channel.GONE_S = 2.0
    far = Far()
    waiting = asyncio.ensure_future(far.client(1))
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
    done = subprocess.run([*alone, sys.executable, "-c", SILENT], cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert done.stdout == "lost\n", done.stderr
