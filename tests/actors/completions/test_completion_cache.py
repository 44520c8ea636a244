"""What was answered once is not asked again; what could differ is never confused; and no disk stops a run."""

import asyncio
import contextlib
import logging
import math
import os
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from actors.completions import completion_store
from actors.completions.cache import CachedModel, Reuse, completion_key
from actors.completions.completion_store import CompletionStore, file_name
from actors.errors import ModelError
from actors.messages import Completion, Kind, Question, Request, Role, Source, Turn
from actors.messages import Modality as M
from actors.prompting.prompt import build_request


class Echo:
    """Answers with the request's own part and counts; waits while `gate` is closed and fails `failures` times."""

    def __init__(self, stop: str = "stop", failures: int = 0, text: str | None = None) -> None:
        self.requests: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._stop = stop
        self._failures = failures
        self._text = text

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request.id)
        await self.gate.wait()
        if self._failures:
            self._failures -= 1
            raise ModelError("the replica died")
        text = f"{request.own} {request.seed}" if self._text is None else self._text
        return Completion(request.id, text, 10, 5, cached_tokens=8, stop=self._stop, limit_tokens=9)


def ask(id: str, own: str = "who?", **changes: Any) -> Request:
    return Request(**{"id": id, "prefix": "p", "system": "s", "shared": "q", "own": own, **changes})


def picture(image: Path | None, text: str = "") -> Source:
    return Source("i1", "d1", Kind.IMAGE, "a lake", text, None if image is None else str(image))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "not" / "there yet")


@pytest.fixture(params=["memory", "disk"])
def reuse(request: pytest.FixtureRequest, folder: str) -> Reuse:
    """Either place alone."""
    return Reuse(folder, "echo", disk_gb=0, memory_mb=1) if request.param == "memory" else on_disk(folder)


def on_disk(folder: str, disk_gb: float = 1.0) -> Reuse:
    return Reuse(folder, "echo", disk_gb, memory_mb=0)


@pytest.fixture
def store(folder: str) -> Iterator[CompletionStore]:
    opened = CompletionStore(folder, 10**9)
    yield opened
    opened.close()


def database(folder: str) -> Path:
    return Path(folder) / file_name(Path(folder))


# What is given again


async def test_an_equal_request_is_answered_again_without_asking(reuse: Reuse) -> None:
    model = Echo()
    cached = CachedModel(model, reuse)
    first = await cached.complete(ask("a"))
    again = await cached.complete(ask("b", prefix="another replica"))
    cached.close()
    assert first == Completion("a", "who? 0", 10, 5, cached_tokens=8, limit_tokens=9)
    assert again == Completion("b", "who? 0", 10, 5, limit_tokens=again.limit_tokens, reused=True)
    assert model.requests == ["a"]


async def test_what_was_computed_is_found_by_the_next_process(folder: str) -> None:
    ugly = "a \ud800 b \0 c 🂡"
    for requests in (["a"], []):
        model = Echo("length")
        cached = CachedModel(model, on_disk(folder))
        completion = await cached.complete(ask("a", own=ugly))
        cached.close()
        assert completion.text == f"{ugly} 0"
        assert completion.stop == "length"
        assert model.requests == requests


async def test_a_reply_is_given_again_with_its_tokens_probabilities(reuse: Reuse) -> None:
    tokens = (("Par", -0.1), ("is \ud800", -1.2345678901234567), ("", -0.0), ("\n", -math.inf))

    class Telling:
        async def complete(self, request: Request) -> Completion:
            return Completion(request.id, "".join(text for text, _ in tokens), tokens=tokens)

    cached = CachedModel(Telling(), reuse)
    await cached.complete(ask("a"))
    again = await cached.complete(ask("b"))
    cached.close()
    assert again.reused
    assert again.tokens == tokens


@pytest.mark.parametrize(("stop", "text"), [("too_long", "a"), ("error", "a"), ("stop", ""), ("length", " \n")])
async def test_what_is_no_answer_is_not_kept_and_asked_for_again(reuse: Reuse, stop: str, text: str) -> None:
    model = Echo(stop, text=text)
    cached = CachedModel(model, reuse)
    for id in "ab":
        assert not (await cached.complete(ask(id))).reused
    cached.close()
    assert model.requests == ["a", "b"]


async def test_memory_is_bounded_and_what_was_used_longest_ago_goes_first(folder: str) -> None:
    model = Echo()
    cached = CachedModel(model, Reuse(folder, "echo", disk_gb=0, memory_mb=0.02))
    long = "x" * 4000
    for id in "abcdaea":
        await cached.complete(ask(id, own=id + long))
    assert model.requests == ["a", "b", "c", "d", "e"]
    await cached.complete(ask("b", own="b" + long))
    assert model.requests[5:] == ["b"]
    cached.close()


# Keys

SEEN = {
    "system": "t",
    "shared": "r",
    "own": "what?",
    "seed": 1,
    "temperature": 0.5,
    "max_tokens": 9,
    "schema": "{}",
    "likelihoods": True,
    "rejected": "no",
    "correction": "again",
}
UNSEEN = {"id": "b", "prefix": "another replica"}


def test_a_key_changes_with_each_value_that_a_model_can_see_and_with_no_other() -> None:
    # What the parts say stands in `own`, and pictures count by their files.
    assert {*SEEN, *UNSEEN, "parts", "images"} == {field.name for field in fields(Request)}
    key = completion_key(ask("a"), "m", [])
    changed = [completion_key(replace(ask("a"), **{name: value}), "m", []) for name, value in SEEN.items()]
    assert len({key, completion_key(ask("a"), "n", []), *changed}) == len(SEEN) + 2
    assert completion_key(replace(ask("a"), **UNSEEN), "m", []) == key
    # A text that ends where another begins is no other request's.
    whole, divided = ask("a", rejected="ab", correction="c"), ask("a", rejected="a", correction="bc")
    assert completion_key(whole, "m", []) != completion_key(divided, "m", [])


def test_a_key_changes_with_what_a_model_is_told_of_a_picture_and_with_the_order_of_pictures() -> None:
    def key(*shown: Source) -> bytes:
        return completion_key(ask("a", images=shown), "m", [bytes(16)] * len(shown))

    lake, hill = picture(None), replace(picture(None), id="i2")
    told = [replace(lake, **{name: "other"}) for name in ("id", "title", "text")]
    assert len({key(), key(lake), key(lake, hill), key(hill, lake), *map(key, told)}) == 7
    assert key(replace(lake, doc="other", image="elsewhere.png")) == key(lake)


async def test_pictures_count_by_what_is_in_their_files(tmp_path: Path, reuse: Reuse) -> None:
    model = Echo()
    cached = CachedModel(model, reuse)
    here, copy = tmp_path / "here.png", tmp_path / "copy.png"
    for path in (here, copy):
        Image.new("RGB", (8, 8), "blue").save(path)
    assert not (await cached.complete(ask("1", images=(picture(here),)))).reused
    assert (await cached.complete(ask("2", images=(picture(here),)))).reused
    assert (await cached.complete(ask("3", images=(picture(copy),)))).reused
    assert not (await cached.complete(ask("4", images=(picture(None),)))).reused
    assert not (await cached.complete(ask("5", images=(picture(None, "a lake"),)))).reused
    Image.new("RGB", (8, 8), "green").save(here)
    os.utime(here, ns=(0, 0))
    assert not (await cached.complete(ask("6", images=(picture(here),)))).reused
    assert (await cached.complete(ask("7", images=(picture(copy),)))).reused
    cached.close()


async def test_a_picture_that_cannot_be_read_is_for_the_model_to_report(tmp_path: Path, reuse: Reuse) -> None:
    model = Echo()
    cached = CachedModel(model, reuse)
    for missing in (tmp_path / "none.png", tmp_path, tmp_path / "\0"):
        for _ in range(2):
            assert not (await cached.complete(ask("1", images=(picture(missing),)))).reused
    cached.close()
    assert len(model.requests) == 6


async def test_agents_that_read_the_same_in_two_discussions_share_one_answer(reuse: Reuse) -> None:
    model = Echo()
    cached = CachedModel(model, reuse)
    question = Question("q", "Which lake?", evidence=(picture(None, "a lake at dusk"),))
    for sample in range(3):
        turn = Turn(f"{sample}/q", question, "ann", 1, seed=3)
        await cached.complete(build_request(turn, Role("", M.VISUAL, "You doubt.")))
    cached.close()
    assert model.requests == ["0/q/1/ann"]


# Requests under way


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_equal_requests_under_way_are_asked_once(reuse: Reuse) -> None:
    model = Echo("too_long")
    model.gate.clear()
    cached = CachedModel(model, reuse)
    waiting = [asyncio.create_task(cached.complete(ask(id))) for id in "abcd"]
    await settle()
    model.gate.set()
    completions = await asyncio.gather(*waiting)
    cached.close()
    assert model.requests == ["a"]
    assert [c.id for c in completions] == list("abcd")
    assert [c.reused for c in completions] == [False, True, True, True]
    assert [c.cached_tokens for c in completions] == [8, 0, 0, 0]
    assert {c.limit_tokens for c in completions} == {9}


async def test_a_failure_is_not_shared_and_one_that_waited_asks(reuse: Reuse) -> None:
    model = Echo(failures=2)
    cached = CachedModel(model, reuse)
    async with asyncio.timeout(5):
        results = await asyncio.gather(*(cached.complete(ask(id)) for id in "abcd"), return_exceptions=True)
    cached.close()
    assert model.requests == ["a", "b", "c"]
    assert [type(result) for result in results] == [ModelError, ModelError, Completion, Completion]


async def test_when_the_one_that_asks_is_cancelled_one_that_waited_asks(reuse: Reuse) -> None:
    model = Echo()
    model.gate.clear()
    cached = CachedModel(model, reuse)
    waiting = [asyncio.create_task(cached.complete(ask(id))) for id in "abc"]
    await settle()
    waiting[0].cancel()
    await settle()
    model.gate.set()
    async with asyncio.timeout(5):
        results = await asyncio.gather(*waiting, return_exceptions=True)
    cached.close()
    assert model.requests == ["a", "b"]
    assert isinstance(results[0], asyncio.CancelledError)
    assert [result.text for result in results[1:] if isinstance(result, Completion)] == ["who? 0", "who? 0"]


async def test_one_that_waits_and_is_cancelled_harms_nobody(reuse: Reuse) -> None:
    model = Echo()
    model.gate.clear()
    cached = CachedModel(model, reuse)
    waiting = [asyncio.create_task(cached.complete(ask(id))) for id in "abc"]
    await settle()
    waiting[1].cancel()
    await settle()
    model.gate.set()
    async with asyncio.timeout(5):
        results = await asyncio.gather(*waiting, return_exceptions=True)
    cached.close()
    assert model.requests == ["a"]
    assert [type(result) for result in results] == [Completion, asyncio.CancelledError, Completion]


# The disk

WORKER = """
import sys
from actors.completions.completion_store import CompletionStore
from actors.messages import Completion

folder, limit, start, end, rounds = sys.argv[1], *map(int, sys.argv[2:])
for _ in range(rounds):
    store = CompletionStore(folder, limit)
    for number in range(start, end):
        key = number.to_bytes(16, "big")
        completion = store.get(key)
        assert completion is None or completion.text == f"{number} " * 50, completion
        if completion is None:
            store.put_all([(key, Completion("", f"{number} " * 50, number, 1))])
    print("put", flush=True)
    if limit > 0 and rounds > 1:
        store.close()
sys.stdin.read()
store.close()
"""


def worker(folder: str, start: int, end: int, limit: int = 10**9, rounds: int = 1) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-W", "error", "-c", WORKER, folder, *map(str, (limit, start, end, rounds))]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def numbers(folder: str, of: range) -> int:
    """How many of the workers' completions a new process finds, all whole."""
    store = CompletionStore(folder, 10**9)
    completions = [(n, store.get(n.to_bytes(16, "big"))) for n in of]
    store.close()
    assert all(c.text == f"{n} " * 50 for n, c in completions if c is not None)
    return sum(c is not None for _, c in completions)


def test_many_processes_open_write_and_read_one_new_folder_at_once(folder: str) -> None:
    workers = [worker(folder, 40 * i, 40 * i + 80, rounds=5) for i in range(6)]
    for process in workers:
        _, errors = process.communicate("", timeout=60)
        assert (process.returncode, errors) == (0, "")
    assert numbers(folder, range(280)) == 280


def test_killing_writers_at_any_moment_harms_nothing(folder: str) -> None:
    for kill_after_s in (0.0, 0.1, 0.2, 0.3, 0.4):
        processes = [worker(folder, 0, 2000, rounds=50), worker(folder, 2000, 4000, limit=10**6, rounds=50)]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(kill_after_s)
        for process in processes:
            process.kill()
            process.communicate()
    with sqlite3.connect(database(folder)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    assert numbers(folder, range(4000)) > 0


def put_many(store: CompletionStore, of: range) -> None:
    for n in of:
        store.put_all([(n.to_bytes(16, "big"), Completion("", f"{n} " * 50, 1, 1))])


def test_the_file_stays_within_its_bound_and_the_oldest_go_first(folder: str) -> None:
    limit = 400_000
    store = CompletionStore(folder, limit)
    put_many(store, range(20_000))
    store.close()
    assert 0.9 * limit < database(folder).stat().st_size <= limit
    assert numbers(folder, range(3000)) == 0
    assert numbers(folder, range(19_900, 20_000)) == 100


def test_a_file_beyond_its_bound_is_read_and_reported(folder: str, caplog: pytest.LogCaptureFixture) -> None:
    store = CompletionStore(folder, 10**9)
    put_many(store, range(5000))
    store.close()
    store = CompletionStore(folder, 200_000)
    put_many(store, range(5000, 5001))
    assert store.get(bytes(16)) is not None
    store.close()
    assert "completions.disk_gb" in caplog.text
    assert numbers(folder, range(5000, 5001)) == 0


# What can be wrong with a disk


async def goes_on(folder: str, caplog: pytest.LogCaptureFixture, disk_gb: float = 1.0) -> str:
    """The one warning of a run that has to do without its disk."""
    model = Echo()
    cached = CachedModel(model, Reuse(folder, "echo", disk_gb, memory_mb=1))
    with caplog.at_level(logging.WARNING):
        for seed in range(3):
            for id in "ab":
                await cached.complete(ask(id, seed=seed))
        cached.close()
    assert model.requests == ["a", "a", "a"]
    (record,) = caplog.records
    return record.getMessage()


async def test_a_file_that_is_no_database_is_reported_once(folder: str, caplog: pytest.LogCaptureFixture) -> None:
    Path(folder).mkdir(parents=True)
    database(folder).write_bytes(b"not a database " * 1000)
    assert "file is not a database" in await goes_on(folder, caplog)
    assert database(folder).read_bytes() == b"not a database " * 1000


OURS = [
    completion_store.SCHEMA,
    f"PRAGMA application_id = {completion_store.APPLICATION}",
    f"PRAGMA user_version = {completion_store.VERSION}",
]


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE addresses (name)"],
        [*OURS, "CREATE TRIGGER more AFTER INSERT ON completions BEGIN SELECT RAISE(ABORT, 'no room'); END"],
        [*OURS, "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n"],
        [*OURS[1:], "CREATE VIEW completions AS SELECT 1"],
        [OURS[0].replace("value BLOB", "value BLOB DEFAULT (randomblob(1e9))"), *OURS[1:]],
        [OURS[0], "CREATE VIEW more AS SELECT 1", OURS[1]],  # of an older version
    ],
)
async def test_a_database_of_another_schema_is_left_as_it_is(
    statements: list[str], folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path(folder).mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(database(folder))) as db:
        for statement in statements:
            db.execute(statement)
    before = database(folder).read_bytes()
    assert "belongs to another program" in await goes_on(folder, caplog)
    assert database(folder).read_bytes() == before


def test_a_value_that_unpacks_without_end_or_is_no_completion_is_damage(
    folder: str, store: CompletionStore, caplog: pytest.LogCaptureFixture
) -> None:
    put_many(store, range(1))
    store.close()
    for value in (b"[" * 70_000_000, b"[" * 100_000, b"5", b'["00",1,2,3,4,5,6]'):
        with contextlib.closing(sqlite3.connect(database(folder))) as db, db:
            db.execute("UPDATE completions SET value = ?", (zlib.compress(value),))
        again = CompletionStore(folder, 10**9)
        assert again.get(bytes(16)) is None
        again.close()
    assert str(database(folder)) in caplog.text


async def test_a_newer_version_is_left_alone(
    folder: str, store: CompletionStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.close()
    with sqlite3.connect(database(folder)) as db:
        db.execute(f"PRAGMA user_version = {completion_store.VERSION + 1}")
    db.close()
    assert "a newer version" in await goes_on(folder, caplog)


def test_an_older_version_starts_anew(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    older = CompletionStore(folder, 10**9)
    put_many(older, range(10))
    older.close()
    monkeypatch.setattr(completion_store, "VERSION", completion_store.VERSION + 1)
    assert numbers(folder, range(10)) == 0
    store = CompletionStore(folder, 10**9)
    put_many(store, range(5))
    store.close()
    assert numbers(folder, range(10)) == 5


@pytest.mark.parametrize("place", ["a file/folder", "/proc/nowhere"])
async def test_a_folder_that_cannot_be_made_is_reported_once(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a file").touch()
    assert str(tmp_path / place) in await goes_on(str(tmp_path / place), caplog)


FULL_DISK = """
import resource, sys
from actors.completions.completion_store import CompletionStore
from actors.messages import Completion

store = CompletionStore(sys.argv[1], 10**9)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for number in range(1000):
    store.put_all([(number.to_bytes(16, "big"), Completion("", "word " * 200))])
store.close()
print("went on")
"""


def test_a_full_disk_is_reported_once(folder: str) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, folder], capture_output=True, text=True, timeout=60)
    assert done.stdout == "went on\n"
    assert done.stderr.count("completions are no longer stored on disk") == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 50 completions."""
    folder = str(tmp_path_factory.mktemp("whole"))
    store = CompletionStore(folder, 10**9)
    put_many(store, range(50))
    store.close()
    return database(folder)


@pytest.mark.slow
@given(
    damage=st.dictionaries(st.integers(0, 20_000), st.integers(0, 255), min_size=1, max_size=20),
    cut=st.sampled_from([0, 100, 8000, 100_000]),
)
@settings(max_examples=60)
def test_a_damaged_file_gives_nothing_wrong_and_raises_nothing(
    whole: Path, damage: dict[int, int], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = str(tmp_path_factory.mktemp("damaged"))
    damaged = bytearray(whole.read_bytes())
    for at, byte in damage.items():
        damaged[at % len(damaged)] = byte
    database(folder).write_bytes(damaged[:cut])
    store = CompletionStore(folder, 10**9)
    for n in range(50):
        completion = store.get(n.to_bytes(16, "big"))
        assert completion is None or completion == Completion("", f"{n} " * 50, 1, 1)
    put_many(store, range(40, 60))
    store.close()


def test_each_machine_has_its_own_file_in_a_folder_on_the_network(tmp_path: Path) -> None:
    mounts = {"/": "ext4", "/home": "nfs4", "/home/scratch": "xfs", "/odd": "newfs"}
    assert file_name(Path("/var/runs"), mounts) == "completions.sqlite"
    assert file_name(Path("/home/scratch/runs"), mounts) == "completions.sqlite"
    assert file_name(Path("/homes"), mounts) == "completions.sqlite"
    for shared in ("/home/ann/runs", "/home", "/odd/runs"):
        assert file_name(Path(shared), mounts).startswith("completions-")
