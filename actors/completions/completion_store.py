"""Stores completions in an SQLite file of bounded size, for every process of a machine and every later run.

SQLite is in the standard library, needs no server, and its transactions survive killed processes. A look-up takes some
10 us, a transaction some 50 us and a further completion in it some 10, so all of it happens in the event loop. Where
another process has locked the file for longer, a completion counts as not found, or is not kept. The oldest completions
go first.

A disk that fails stops no run: the failure is logged once, with its remedy, and the run goes on without the disk.

SQLite's write-ahead log works on one machine only. In a folder on a network file system each machine therefore has a
separate file, named after it, with a separate bound; machines share nothing.
"""

import json
import logging
import os
import platform
import sqlite3
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from actors.messages import Completion
from actors.secrets import masked

log = logging.getLogger(__name__)

# Raise VERSION whenever the table or the content of its keys changes: older files then start anew.
APPLICATION = 0x41474F52
VERSION = 3
SCHEMA = "CREATE TABLE completions (key BLOB PRIMARY KEY, value BLOB NOT NULL)"
EVICT = "DELETE FROM completions WHERE rowid <= (SELECT min(rowid) + (max(rowid) - min(rowid)) / 20 FROM completions)"

OPENING_PATIENCE_S = 30.0
PATIENCE_MS = 50  # it blocks the event loop
# SQLite's module decodes a damaged file's names into UnicodeError, and its lengths into MemoryError.
DISK_ERRORS = (OSError, sqlite3.Error, UnicodeError, MemoryError)
UNUSABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR)
LOG_BYTES = 16_000_000
VALUE_BYTES = 64_000_000  # of a completion; a damaged value, or one of another program, must not fill the memory
LOCAL = frozenset("apfs bcachefs btrfs ext2 ext3 ext4 f2fs hfs ntfs overlay ramfs reiserfs tmpfs xfs zfs".split())


class CompletionStore:
    """Shares completions among all processes of a machine: what one has `put_all`, every other can `get`."""

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self._path = Path(folder)
        self._db: sqlite3.Connection | None = None
        self.writable = limit_bytes > 0
        if limit_bytes > 0:
            try:
                self._path.mkdir(parents=True, exist_ok=True)
                self._path /= file_name(self._path)
                self._db = _open(self._path)
                page_limit = limit_bytes // _number(self._db, "page_size")
                if _number(self._db, f"max_page_count = {page_limit}") > page_limit:
                    raise sqlite3.DatabaseError("it is larger than completions.disk_gb")
            except DISK_ERRORS as error:
                self._give_up(error)

    def get(self, key: bytes) -> Completion | None:
        """Returns the completion under `key`, without an id."""
        if self._db is None:
            return None
        try:
            row = self._db.execute("SELECT value FROM completions WHERE key = ?", (key,)).fetchone()
            return None if row is None else _unpacked(key, row[0])
        except DISK_ERRORS as error:
            if not _is_busy(error):
                self._give_up(error)
                self.close()
            return None

    def put_all(self, completions: Iterable[tuple[bytes, Completion]]) -> None:
        """Writes completions by their keys, in one transaction. Recorded ones stay."""
        if self._db is None or not self.writable:
            return
        rows = [(key, _packed(key, completion)) for key, completion in completions]
        try:
            while True:
                try:
                    _insert(self._db, rows)
                    break
                except sqlite3.OperationalError as error:
                    # In a full file the oldest go until there is room.
                    if _code(error) != sqlite3.SQLITE_FULL or not self._db.execute(EVICT).rowcount:
                        raise
            if os.path.getsize(f"{self._path}-wal") > LOG_BYTES:
                # While others write, SQLite's own attempts to restart the log can fail for long.
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except DISK_ERRORS as error:
            if not _is_busy(error):
                self._give_up(error)

    def close(self) -> None:
        """Closes the file. Later completions are dropped, and `get` returns None from then on."""
        if self._db is not None:
            self._db.close()
        self._db = None

    def _give_up(self, error: Exception) -> None:
        """Ends writing and logs the reason, once. Reading goes on."""
        if self.writable:
            self.writable = False
            remedy = "delete or move the file, and the next run makes a new one"
            if _is_busy(error):
                remedy = "another process has locked it: end that process"
            elif _code(error) == sqlite3.SQLITE_FULL:
                remedy = "make room there, or lower completions.disk_gb"
            elif isinstance(error, OSError) or _code(error) in UNUSABLE:
                remedy = "make the folder writable, or choose another with cache=<folder>, and check the disk"
            log.warning("completions are no longer stored on disk: %s: %s; %s", self._path, error, remedy)


def file_name(folder: Path, mounts: Mapping[str, str] | None = None) -> str:
    """Returns the file's name, which has the machine's where `folder` may be on a network.

    `mounts` maps mount points to types of file systems.
    """
    if mounts is None:
        mounts = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    resolved = folder.resolve()
    for place in (resolved, *resolved.parents):
        if str(place) in mounts:
            if mounts[str(place)].lower() in LOCAL:
                return "completions.sqlite"
            break
    return f"completions-{platform.node()}.sqlite"


def _open(path: Path) -> sqlite3.Connection:
    """Opens the file, and makes it first where it is missing or of an older version.

    Processes that make a new file at once can find it busy although SQLite has waited, hence the loop.
    """
    if path.exists() and not path.is_file():
        raise sqlite3.DatabaseError("it is no plain file")
    deadline = time.monotonic() + OPENING_PATIENCE_S
    while True:
        db = sqlite3.connect(path, timeout=OPENING_PATIENCE_S, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db)
            db.execute(f"PRAGMA busy_timeout = {PATIENCE_MS}")
            return db
        except BaseException as error:
            db.close()
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA trusted_schema = OFF")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
    objects = db.execute("SELECT type, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 9").fetchall()
    application = _number(db, "application_id")
    version = _number(db, "user_version")
    if version > VERSION and application == APPLICATION:
        raise sqlite3.DatabaseError("a newer version of this program made the file")
    # A cache may come from anybody: no trigger, view or computed column of another schema ever runs.
    if objects or version:
        is_older = version < VERSION and all(kind in ("table", "index") for kind, _ in objects)
        if application != APPLICATION or not (is_older or objects == [("table", SCHEMA)]):
            raise sqlite3.DatabaseError("the file belongs to another program, or was changed by one")
    if version < VERSION and db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise sqlite3.DatabaseError("its file system has no shared memory")
    db.execute("PRAGMA synchronous = NORMAL")  # a power cut can lose the last transactions, a killed process none
    if version < VERSION:
        db.execute("BEGIN IMMEDIATE")
        if _number(db, "user_version") < VERSION:  # no other process was quicker
            db.execute("DROP TABLE IF EXISTS completions")
            db.execute(SCHEMA)
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")


def _insert(db: sqlite3.Connection, rows: Sequence[tuple[bytes, bytes]]) -> None:
    """Inserts all rows or none."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany("INSERT OR IGNORE INTO completions VALUES (?, ?)", rows)
        db.execute("COMMIT")
    finally:
        # A full file may have ended the transaction already.
        if db.in_transaction:
            db.execute("ROLLBACK")


def _packed(key: bytes, completion: Completion) -> bytes:
    """Compressed JSON preserves all digits; zlib's checksum shows damage."""
    values = [
        key.hex(),
        completion.text,
        completion.prompt_tokens,
        completion.completion_tokens,
        completion.stop,
        completion.error,
        completion.tokens,
    ]
    return zlib.compress(masked(json.dumps(values, separators=(",", ":"))).encode(), level=1)


def _unpacked(key: bytes, value: bytes) -> Completion:
    """Raises sqlite3.DatabaseError for a value that is damaged, or of another key."""
    try:
        unpacking = zlib.decompressobj()
        values = json.loads(unpacking.decompress(value, VALUE_BYTES))
        key_digits, text, prompt_tokens, completion_tokens, stop, error, tokens = values
        if key_digits != key.hex() or not unpacking.eof:
            raise ValueError
        return Completion(
            id="",
            text=str(text),
            prompt_tokens=int(prompt_tokens),
            completion_tokens=int(completion_tokens),
            stop=str(stop),
            error=str(error),
            tokens=tuple((str(token), float(logprob)) for token, logprob in tokens),
        )
    except (zlib.error, ValueError, TypeError, OverflowError, RecursionError) as damage:
        raise sqlite3.DatabaseError("the file is damaged") from damage


def _number(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])


def _code(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_busy(error: BaseException) -> bool:
    """True where another process locked the file for longer than this one waits."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
