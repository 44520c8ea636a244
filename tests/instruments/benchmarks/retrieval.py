"""Measures what a search costs.

    python -m tests.instruments.benchmarks.retrieval [rows ...]

Indexes that many invented sources. Prints seconds to hash, build and find an index again, its size, the process's peak
memory, and milliseconds per search in a pool of 25 documents and over the whole corpus, alone and from eight threads.
"""

import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles

from actors.messages import Kind, Search, SearchMode, Source
from retrieval.embed import LexicalEncoder
from retrieval.index import corpus_digest
from retrieval.store import SearchSpace, Store

SEARCHES = 50
POOL = 25
_WEIGHTS = list(accumulate(1 / rank for rank in range(1, 30_001)))  # words are as frequent as in a natural language


def sources(rows: int) -> Iterator[Source]:
    """Passages, table rows and captions of 12 to 80 words; every tenth document is a table of ten rows."""
    draw = random.Random(7)
    for i in range(rows):
        kind = (Kind.TEXT, Kind.TABLE, Kind.IMAGE)[i % 3]
        yield Source(
            f"s{i}", f"d{i // 10 if i % 100 < 10 else i}", kind, words(draw, 3), words(draw, draw.randint(12, 80))
        )


def clocked(rows: int, seconds: list[float]) -> Iterator[Source]:
    """The sources, with the time that making each took, so that it can be taken off."""
    made = sources(rows)
    for _ in range(rows):
        start = time.perf_counter()
        source = next(made)
        seconds.append(time.perf_counter() - start)
        yield source


def words(draw: random.Random, count: int) -> str:
    return " ".join(_word(i) for i in draw.choices(range(30_000), cum_weights=_WEIGHTS, k=count))


def _word(number: int) -> str:
    """A pronounceable word, shorter for more frequent ones."""
    word = ""
    while True:
        word += "bdfgklmnprstvz"[number % 14] + "aeiou"[number // 14 % 5]
        number //= 70
        if not number:
            return word


def timed(search: Callable[[int], object]) -> str:
    search(0)
    times = []
    for i in range(SEARCHES):
        start = time.perf_counter()
        search(i)
        times.append(1000 * (time.perf_counter() - start))
    return f"median {median(times):6.2f} ms, p95 {quantiles(times, n=20)[-1]:6.2f} ms"


def measure(rows: int, folder: Path) -> None:
    encoder = LexicalEncoder()
    making: list[float] = []
    start = time.perf_counter()
    key = corpus_digest(lambda: clocked(rows, making), with_pictures=False)
    print(f"{rows} rows: hash {time.perf_counter() - start - sum(making):.2f} s beside making the sources")
    making.clear()
    start = time.perf_counter()
    Store.open(folder, lambda: clocked(rows, making), encoder, key)
    print(f"  build {time.perf_counter() - start - sum(making):.1f} s beside it, peak {peak_mib():.0f} MiB")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    start = time.perf_counter()
    store = Store.open(folder, lambda: sources(rows), encoder, key)
    print(f"  found again in {time.perf_counter() - start:.3f} s, {size / 2**20:.0f} MiB on disk")
    draw = random.Random(11)
    queries = [words(draw, 12) for _ in range(SEARCHES)]
    pools = [SearchSpace([f"d{draw.randrange(rows)}" for _ in range(POOL)]) for _ in range(SEARCHES)]
    modes: tuple[SearchMode, ...] = ("text", "vector", "hybrid")
    for mode in modes:
        searches = [Search(query, 10, mode=mode) for query in queries]
        in_pool = timed(lambda i, searches=searches: store.search(searches[i], pools[i]))  # type: ignore[misc]
        overall = timed(lambda i, searches=searches: store.search(searches[i]))  # type: ignore[misc]
        print(f"  {mode:<7} pool of {POOL}: {in_pool}; corpus: {overall}")
    start = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: store.search(Search(queries[i], 10), pools[i]), list(range(SEARCHES)) * 4))
    print(f"  eight threads, hybrid in pools: {4 * SEARCHES / (time.perf_counter() - start):.0f} searches/s")
    print(f"  peak {peak_mib():.0f} MiB")


def peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["2000", "300000"]:
        with tempfile.TemporaryDirectory() as folder:
            measure(int(argument), Path(folder))
