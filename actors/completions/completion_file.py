"""Reads and writes the file of completions: an SQLite database of bounded size for all processes of one machine.

SQLite is in the standard library, needs no server, and its transactions survive killed processes. With its write-ahead
log, readers do not wait for writers. The log adds at most 16 MB, or one transaction, to the bound. The least recently
used completions go first, and freed pages are used again or returned.

A cache folder may come from anybody: the file is read first, and written only if its schema is exactly the one below.
No trigger, view or computed column of another schema ever runs.

A write-ahead log works on one machine only. In a folder on a network file system each machine therefore has a separate
file, named after it, with a separate bound; machines share nothing.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from actors.messages import Completion

# Raise VERSION whenever the table or the content of its keys changes: older files then start anew.
APPLICATION, VERSION = 0x41474F52, 2
INCREMENTAL = 2  # value of `auto_vacuum`; without it no page is ever returned
SCHEMA = (
    "CREATE TABLE completions (key BLOB NOT NULL, used_ns INTEGER NOT NULL, stop TEXT NOT NULL,"
    " prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, text BLOB NOT NULL, tokens BLOB NOT NULL,"
    " sum INTEGER NOT NULL)",
    "CREATE UNIQUE INDEX by_key ON completions (key)",
    "CREATE INDEX by_use ON completions (used_ns)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
FIND = "SELECT stop, prompt_tokens, completion_tokens, text, tokens, sum FROM completions WHERE key = ?"
INSERT = "INSERT OR IGNORE INTO completions VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
TOUCH = "UPDATE completions SET used_ns = ? WHERE key = ?"
NEWEST = "SELECT max(used_ns) FROM completions WHERE used_ns < 1 << 62"
EVICT = "DELETE FROM completions WHERE rowid IN (SELECT rowid FROM completions ORDER BY used_ns LIMIT 100)"
EVICTIONS, FREED = 20, 1000  # at most in one transaction (of EVICT, and pages), so that other writers get their turn
EVICT_TO = 0.95  # of the bound: a little below it, or every single write would evict again

OPENING_PATIENCE_S = 30.0
# SQLite's module decodes a damaged file's names into UnicodeError, and its lengths into MemoryError.
DISK_ERRORS = (OSError, sqlite3.Error, UnicodeError, MemoryError)
LOG_BYTES = 16_000_000
ENTRY_BYTES = 64_000_000  # of a completion's text, or of its tokens unpacked; a file that holds more is damaged
LOCAL = frozenset("apfs bcachefs btrfs ext2 ext3 ext4 f2fs hfs ntfs overlay ramfs reiserfs tmpfs xfs zfs".split())


def file_name(folder: Path, mounts: Mapping[str, str] | None = None) -> str:
    """Returns the file's name, which has the machine's where `folder` may be on a network.

    `mounts` maps mount points to types of file systems.
    """
    if mounts is None:
        mounts = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    resolved = folder.resolve()
    kind = next((mounts[str(place)] for place in (resolved, *resolved.parents) if str(place) in mounts), "")
    return "completions.sqlite" if kind.lower() in LOCAL else f"completions-{platform.node()}.sqlite"


def open_file(path: Path, patience_s: float) -> sqlite3.Connection:
    """Opens the file, and makes it first where it is missing or of an older version.

    Processes that make a new file at once can find it busy although SQLite has waited, hence the loop.
    """
    deadline = time.monotonic() + OPENING_PATIENCE_S
    while True:
        db = None
        try:
            _check_schema(path)
            db = sqlite3.connect(path, timeout=OPENING_PATIENCE_S, isolation_level=None, check_same_thread=False)
            _prepare(db)
            db.execute(f"PRAGMA busy_timeout = {round(patience_s * 1000)}")
            return db
        except BaseException as error:
            if db is not None:
                db.close()
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _check_schema(path: Path) -> None:
    """Raises sqlite3.Error for a file with another schema than this program makes. Writes nothing."""
    if not os.path.exists(path) or (path.is_file() and not os.path.getsize(path)):
        return
    if not path.is_file():
        raise sqlite3.DatabaseError("it is no plain file")
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=OPENING_PATIENCE_S, uri=True)) as db:
        if _number(db, "user_version") < VERSION and _number(db, "application_id") == APPLICATION:
            known = db.execute("SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index')").fetchone() is None
        else:
            made = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master LIMIT 9")}
            known = made <= set(SCHEMA) and (not made or _number(db, "auto_vacuum") == INCREMENTAL)
        if not known:
            raise sqlite3.DatabaseError("the file belongs to another program, or was changed by one")


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA trusted_schema = OFF")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, ENTRY_BYTES)
    with _transaction(db, "DEFERRED"):  # another process may be making the file
        application, version = _number(db, "application_id"), _number(db, "user_version")
        is_new = not application and not version and not db.execute("SELECT 1 FROM sqlite_master").fetchone()
    if not is_new and application != APPLICATION:
        raise sqlite3.DatabaseError("the file belongs to another program")
    if version > VERSION:
        raise sqlite3.DatabaseError("a newer version of this program made the file")
    if is_new:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # fixed with the first page that is written
        if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise sqlite3.DatabaseError("its file system has no shared memory")
    db.execute("PRAGMA synchronous = NORMAL")  # a power cut can lose the last transactions, a killed process none
    if version < VERSION:
        with _transaction(db):
            if _number(db, "user_version") < VERSION:  # no other process was quicker
                db.execute("DROP TABLE IF EXISTS completions")
                for statement in SCHEMA:
                    db.execute(statement)


def find(db: sqlite3.Connection, key: bytes) -> Completion | None:
    """Returns the completion under `key`, without an id. Raises one of DISK_ERRORS, also for a damaged one."""
    row = db.execute(FIND, (key,)).fetchone()
    if row is None:
        return None
    stop, prompt_tokens, completion_tokens, text, tokens, checksum = row
    if not (isinstance(text, bytes) and isinstance(tokens, bytes)) or checksum != _sum(key, *row[:5]):
        raise sqlite3.DatabaseError("the file is damaged")
    try:
        listed = json.loads(zlib.decompressobj().decompress(tokens, ENTRY_BYTES)) if tokens else ()
        completion = Completion(
            id="",
            text=text.decode("utf-8", "surrogatepass"),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            stop=stop,
            tokens=tuple(map(tuple, listed)),
        )
    except (ValueError, TypeError, RecursionError, zlib.error) as error:
        raise sqlite3.DatabaseError("the file is damaged") from error
    if not isinstance(stop, str) or not storable(completion):
        raise sqlite3.DatabaseError("the file is damaged")
    return completion


def storable(completion: Completion) -> bool:
    """True for a completion whose numbers SQLite can hold: a user's own model may return any."""
    counts = completion.prompt_tokens, completion.completion_tokens
    return all(type(count) is int and 0 <= count < 2**63 for count in counts)


def write(
    db: sqlite3.Connection, path: Path, new: Mapping[bytes, Completion], used_ns: Mapping[bytes, int], limit: int
) -> None:
    """Adds new completions, notes when old ones were used, and restricts file and log to their bounds."""
    # Where the clock was set back, the completions in use would be the first to go.
    now = max(time.time_ns(), 1 + (db.execute(NEWEST).fetchone()[0] or 0))
    used = [(now + i, key) for i, key in enumerate(sorted(used_ns, key=used_ns.__getitem__))]
    rows = []
    for i, (key, c) in enumerate(new.items()):
        text = c.text.encode("utf-8", "surrogatepass")
        # JSON preserves all digits of numbers; compressed, a token takes about ten bytes.
        tokens = zlib.compress(json.dumps(c.tokens, separators=(",", ":")).encode(), level=1) if c.tokens else b""
        values = c.stop, c.prompt_tokens, c.completion_tokens, text, tokens
        rows.append((key, now + i, *values, _sum(key, *values)))
    with _transaction(db):
        db.executemany(INSERT, rows)
        db.executemany(TOUCH, used)
        over = _shrink(db, limit)
    while over:
        with _transaction(db):
            over = _shrink(db, limit)
    if os.path.getsize(f"{path}-wal") > LOG_BYTES:
        # While others write, SQLite's attempts to restart the log can fail for long.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _shrink(db: sqlite3.Connection, limit: int) -> bool:
    """Takes one step towards a file within `limit` bytes; returns True where another is necessary."""
    most = limit // _number(db, "page_size")
    before = _number(db, "page_count")
    if before <= most:
        return False
    evicted = 0
    for _ in range(EVICTIONS):
        if _number(db, "page_count") - _number(db, "freelist_count") <= EVICT_TO * most:
            break
        evicted += db.execute(EVICT).rowcount
    free = min(_number(db, "freelist_count"), _number(db, "page_count") - most, FREED)
    for _ in range(free):
        db.execute("PRAGMA incremental_vacuum(1)")  # for more pages, Python's module would free one only
    after = _number(db, "page_count")
    return (evicted > 0 or after < before) and after > most


def _sum(key: bytes, stop: str, prompt_tokens: int, completion_tokens: int, text: bytes, tokens: bytes) -> int:
    """Returns a checksum of a completion and its key, since SQLite does not notice every damage."""
    about = f"{stop} {prompt_tokens} {completion_tokens} {len(text)} ".encode() + key
    return zlib.crc32(tokens, zlib.crc32(text, zlib.crc32(about)))


@contextmanager
def _transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    db.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _number(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])


def is_busy(error: BaseException) -> bool:
    """True where another process locked the file for longer than this one waits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def remedy(error: Exception) -> str:
    """Returns advice to the user for an error of the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if is_busy(error):
        return "another process has locked it: end that process"
    if code == sqlite3.SQLITE_FULL:
        return "make room there, or lower completions.disk_gb"
    if isinstance(error, OSError) or code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return "make the folder writable, or choose another with cache=<folder>"
    if code == sqlite3.SQLITE_IOERR:
        return "check that disk, or choose another with cache=<folder>"
    return "delete or move the file, and the next run makes a new one"
