"""Stores completions on disk for every process and every later run: reads at once, writes in a thread.

A look-up takes some 10 us, less than a hand-over to a thread, so it happens in the event loop. A thread writes what has
gathered in one short transaction several times a second. A killed process loses at most a quarter of a second's
completions, and damages nothing.

A disk that fails stops no run: the failure is logged once, with its remedy, and the run goes on without the disk.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from actors.completions.completion_file import DISK_ERRORS, file_name, find, is_busy, open_file, remedy, storable, write
from actors.messages import Completion

log = logging.getLogger(__name__)

GATHER_S = 0.25
WRITER_PATIENCE_S = 30.0
READER_PATIENCE_S = 0.05  # it blocks the event loop; after that, the completion counts as not found


class CompletionStore:
    """Shares completions among all processes of a machine: what one has `put`, every other can `get` soon after.

    For one thread at a time, besides the store's own writer.
    """

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._gathered: dict[bytes, Completion] = {}
        self._in_writing: dict[bytes, Completion] = {}
        self._used: dict[bytes, int] = {}
        self._left_out = False
        self._work = threading.Event()
        self._closing = threading.Event()
        self._reader: sqlite3.Connection | None = None
        self._writer: threading.Thread | None = None
        self._writable = limit_bytes > 0
        self._path = Path(folder)
        if limit_bytes > 0:
            try:
                self._path.mkdir(parents=True, exist_ok=True)
                self._path /= file_name(self._path)
                self._reader = open_file(self._path, READER_PATIENCE_S)
            except DISK_ERRORS as error:
                self._give_up(error)

    def get(self, key: bytes) -> Completion | None:
        """Returns the completion under `key`, without an id."""
        completion = self._gathered.get(key) or self._in_writing.get(key)
        if completion is not None or self._reader is None:
            return completion
        try:
            completion = find(self._reader, key)
        except DISK_ERRORS as error:
            if not is_busy(error):
                self._give_up(error)
                self._stop_reading()
            return None
        if completion is not None:
            self._gather(key)
        return completion

    def put(self, key: bytes, completion: Completion) -> None:
        """Writes a completion soon, unless there is one; numbers that no file can hold leave it out."""
        if storable(completion):
            self._gather(key, completion)
        elif not self._left_out:
            self._left_out = True
            log.warning("a completion has counts of tokens that no file can hold; it is not stored on disk")

    def close(self) -> None:
        """Writes all completions that were put. Later ones are dropped, and `get` returns None from then on."""
        self._closing.set()
        self._work.set()
        if self._writer is not None:
            self._writer.join()
        self._writable = False
        self._stop_reading()

    def _gather(self, key: bytes, completion: Completion | None = None) -> None:
        if not self._writable:
            return
        with self._lock:
            if completion is None:
                self._used[key] = time.time_ns()
            else:
                self._gathered[key] = completion
        if self._writer is None:
            self._writer = threading.Thread(target=self._keep_writing, name="completions", daemon=True)
            self._writer.start()
        self._work.set()

    def _keep_writing(self) -> None:
        try:
            with closing(open_file(self._path, WRITER_PATIENCE_S)) as db:
                closed = False
                while not closed:
                    self._work.wait()
                    self._closing.wait(GATHER_S)
                    self._work.clear()
                    closed = self._closing.is_set()
                    with self._lock:
                        # In this order, so that `get` finds each in one of the two.
                        self._in_writing, used = self._gathered, self._used
                        self._gathered, self._used = {}, {}
                    write(db, self._path, self._in_writing, used, self._limit)
                    self._in_writing = {}
        # Any error: the end of the writer is logged, and completions that wait for it do not fill the memory.
        except Exception as error:
            self._give_up(error)
            self._gathered, self._in_writing, self._used = {}, {}, {}

    def _give_up(self, error: Exception) -> None:
        """Ends writing and logs the reason, once. Reading goes on."""
        with self._lock:
            first, self._writable = self._writable, False
        if first:
            log.warning("completions are no longer stored on disk: %s: %s; %s", self._path, error, remedy(error))

    def _stop_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
