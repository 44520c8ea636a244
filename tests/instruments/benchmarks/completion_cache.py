"""What the cache of completions costs, and how fast it answers, beside a plain dict and the library `diskcache`.

    python -m tests.instruments.benchmarks.completion_cache [--requests 20000] [--words 1500]

Every request has a prompt of `--words` words; the model answers at once, so that all time is overhead. Per second:

- `from_memory`, `from_disk`: requests that were answered before, in this process or by one that has ended;
- `new`: requests that the model has to answer, until all is written; `miss_us` is what each takes beyond the model;
- `look_up_us`: one key on disk, found or not, at the median and the 99th percentile; what a thread would cost
  in its place is `thread_us`.

The peers keep the same completions: a dict under the requests' own fields, and diskcache's Cache under our keys (left
out where not installed), to be compared with `store`, our disk without keys and event loop: per second written until
all is on disk, and read by a process that has nothing in memory.
The last line is one JSON object.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.completions.cache import CachedModel, Reuse, completion_key
from actors.completions.completion_store import CompletionStore
from actors.messages import Completion, Request

REPLY = " ".join(["Reasoning: the second passage names the lake."] * 12) + "\nAnswer: Tarn Hollow\nConfidence: 0.9"


class InstantModel:
    async def complete(self, request: Request) -> Completion:
        return Completion(request.id, REPLY, prompt_tokens=2000, completion_tokens=120)


class DictModel:
    """The least that a cache can do: no key but the request's own fields, no bound, no disk."""

    def __init__(self) -> None:
        self._model = InstantModel()
        self._kept: dict[object, Completion] = {}

    async def complete(self, request: Request) -> Completion:
        key = (request.system, request.shared, request.own, request.seed, request.temperature, request.max_tokens)
        if key not in self._kept:
            self._kept[key] = await self._model.complete(request)
        return self._kept[key]


def requests(number: int, words: int) -> list[Request]:
    """Prompts as agents build them: the shared part is one string for all requests on a question, here 50."""
    shared = ["## Question " + f"{question} " + "evidence " * words for question in range(max(1, number // 50))]
    return [
        Request(
            str(i), "p", "instruction", shared[i % len(shared)], f"## Role\ncritic {i}", (), seed=i, temperature=0.7
        )
        for i in range(number)
    ]


async def seconds(complete: Callable[[Request], Awaitable[Completion]], batch: Iterable[Request]) -> float:
    start = time.perf_counter()
    for request in batch:
        await complete(request)
    return time.perf_counter() - start


def each_us(look_up: Callable[[bytes], object], keys: Iterable[bytes]) -> dict[str, float]:
    times = []
    for key in keys:
        start = time.perf_counter()
        look_up(key)
        times.append((time.perf_counter() - start) * 1e6)
    return {"median": round(statistics.median(times), 1), "p99": round(statistics.quantiles(times, n=100)[98], 1)}


async def thread_us(number: int = 2000) -> float:
    start = time.perf_counter()
    for _ in range(number):
        await asyncio.to_thread(int)
    return round((time.perf_counter() - start) / number * 1e6, 1)


def measure_store(folder: Path, keys: list[bytes]) -> dict[str, int]:
    start = time.perf_counter()
    store = CompletionStore(str(folder), 10**9)
    for key in keys:
        store.put(key, Completion("", REPLY, 2000, 120))
    store.close()
    written = time.perf_counter()
    store = CompletionStore(str(folder), 10**9)
    for key in keys:
        assert store.get(key) is not None
    store.close()
    return {
        "new": round(len(keys) / (written - start)),
        "from_disk": round(len(keys) / (time.perf_counter() - written)),
    }


def measure_diskcache(folder: Path, keys: list[bytes]) -> dict[str, int] | None:
    try:
        from diskcache import Cache
    except ModuleNotFoundError:
        return None
    value = REPLY, 2000, 120, "stop"
    with Cache(str(folder), eviction_policy="least-recently-used", size_limit=10**9) as cache:
        start = time.perf_counter()
        for key in keys:
            cache.set(key, value)
        written = time.perf_counter()
        for key in keys:
            assert cache.get(key) == value
        read = time.perf_counter()
    return {"new": round(len(keys) / (written - start)), "from_disk": round(len(keys) / (read - written))}


async def measure(number: int, words: int, folder: Path) -> dict[str, object]:
    batch = requests(number, words)
    reuse = Reuse(str(folder / "cache"), "instant", disk_gb=1, memory_mb=1000)
    model = CachedModel(InstantModel(), reuse)
    start = time.perf_counter()
    new = await seconds(model.complete, batch)
    model.close()
    written = time.perf_counter() - start
    bare = await seconds(InstantModel().complete, batch)

    model = CachedModel(InstantModel(), reuse)
    from_disk = await seconds(model.complete, batch)
    from_memory = await seconds(model.complete, batch)
    model.close()

    store = CompletionStore(reuse.folder, 10**9)
    keys = [completion_key(request, reuse.model, ()) for request in batch]
    hits = each_us(store.get, keys)
    misses = each_us(store.get, [key[::-1] for key in keys])
    store.close()

    plain = DictModel()
    await seconds(plain.complete, batch)
    dict_from_memory = await seconds(plain.complete, batch)
    return {
        "requests": number,
        "prompt_bytes": len(batch[0].shared),
        "from_memory": round(number / from_memory),
        "from_disk": round(number / from_disk),
        "new": round(number / written),
        "miss_us": round((new - bare) / number * 1e6, 1),
        "look_up_us": {"found": hits, "missing": misses},
        "thread_us": await thread_us(),
        "store": measure_store(folder / "store", keys[: number // 4]),
        "bytes_per_entry": round((folder / "cache" / "completions.sqlite").stat().st_size / number),
        "peers": {
            "dict": {"from_memory": round(number / dict_from_memory)},
            "diskcache": measure_diskcache(folder / "diskcache", keys[: number // 4]),
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=1500)
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        print(json.dumps(asyncio.run(measure(arguments.requests, arguments.words, Path(name)))))
