"""How fast a core of this machine is just now: how often in a second it does the same piece of plain Python.

Processors differ, and a core whose neighbours are busy, or that is shared with another guest of its machine, does half
as much in one minute as in the next. Seconds of processor time do not tell; the piece takes as many more of them.

A thread that has slept reads less than one that works without a pause (its core has other things in its caches), by a
third or more: speeds are compared as `Speedometer` reads them, beside other work.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from types import TracebackType
from typing import Self

EVERY_S = 0.5  # a reading takes a millisecond or less
# Never to be changed: the speeds in old records and cost models are of this piece.
_WORDS = " ".join(str(n * n % 97) for n in range(1500))


def speed() -> float:
    """Pieces a second of the calling thread, the best of three: what else disturbs one, the others may be spared."""
    return 1 / min(_piece_s() for _ in range(3))


class Speedometer:
    """Reads the speed again and again for the block, in a thread."""

    def __init__(self) -> None:
        self._readings: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="speedometer", daemon=True)

    def lap(self) -> float:
        """The mean since the last lap, of one reading at least."""
        readings, self._readings = self._readings, []
        return statistics.fmean(readings or [speed()])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._readings.append(speed())


def _piece_s() -> float:
    begun = time.thread_time()
    counts: dict[str, int] = {}
    for word in _WORDS.split():
        counts[word] = counts.get(word, 0) + 1
    json.loads(json.dumps(counts))
    return time.thread_time() - begun
