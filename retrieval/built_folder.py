"""Folders of LanceDB tables, built once: complete or absent, even if the building process is killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from filelock import FileLock

from actors.errors import StoreError

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

MARKER = "complete.json"
WRITE_REMEDY = "free some disk space, or choose a folder that can be written"
BATCHES = 16  # per write, each of which makes a file

BROKEN = (OSError, RuntimeError)  # what LanceDB raises for files that are not whole

Marks = Mapping[str, str | int]


def connect(folder: Path) -> DBConnection:
    """Opens the tables of a folder. Imports LanceDB, which takes seconds, with the first folder."""
    import lancedb

    return lancedb.connect(folder)


def built(target: Path, build: Callable[[Path], Marks]) -> Path:
    """Returns `target`, after `build` has filled it where it is absent or incomplete.

    Concurrent processes wait for one of them to build the folder. `build` writes to another folder, which is renamed
    when it is complete, and returns the content of the marker file. Raises StoreError where the folder cannot be
    written, and errors of the corpus or the encoder, which `write_table` raises as `Unbuilt`, unchanged.
    """
    if (target / MARKER).exists():
        return target

    # Outside of the folder, which may be deleted under the lock.
    lock = FileLock(target.with_name(f"{target.name}.lock"))
    unfinished = target.with_name(f"{target.name}.building")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise _store_error(f"the search index {target} cannot be written", error, WRITE_REMEDY) from error

    try:
        if not (target / MARKER).exists():  # another process may have built it
            for leftover in (unfinished, target):  # a target without a marker was never complete
                shutil.rmtree(leftover, ignore_errors=True)
            marks = build(unfinished)
            (unfinished / MARKER).write_text(json.dumps(dict(marks)))
            unfinished.rename(target)
    except Unbuilt as error:
        raise error.failure from None
    except (OSError, RuntimeError, ValueError) as error:
        raise _store_error(f"the search index {target} cannot be built", error, WRITE_REMEDY) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        lock.release()

    return target


class Unbuilt(Exception):
    """Carries an error of the corpus or the encoder, which is none of the folder, out of its building."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(str(failure))
        self.failure = failure


def write_table(
    connection: DBConnection, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, nulls: bool = False
) -> Table:
    """Writes a table a few batches at a time. nulls: a row may lack a vector. Raises errors of `batches` as Unbuilt."""
    table = connection.create_table(name, schema=schema)
    on_missing_vector: Literal["null", "error"] = "null" if nulls else "error"
    while True:
        # Not one stream into LanceDB, which would wrap errors, and deadlock where the batches are read from LanceDB.
        try:
            chunk = list(islice(batches, BATCHES))
        except Exception as error:
            raise Unbuilt(error) from None
        if not chunk:
            return table
        table.add(pa.Table.from_batches(chunk, schema), on_bad_vectors=on_missing_vector)


def opened(target: Path, rows: Mapping[str, str]) -> tuple[Table, ...]:
    """Opens tables of a finished folder. `rows` maps a table's name to the mark with its number of rows. Raises
    StoreError where the folder is damaged."""
    tables: list[Table] = []
    with reading(target, (*BROKEN, ValueError, KeyError, TypeError)):
        marks = json.loads((target / MARKER).read_text())
        connection = connect(target)
        for name, mark in rows.items():
            table = connection.open_table(name)
            if table.count_rows() != marks[mark]:
                raise ValueError(f"{table.count_rows()} of {marks[mark]} rows")
            tables.append(table)

    return tuple(tables)


@contextmanager
def reading(target: Path, kinds: tuple[type[Exception], ...] = BROKEN) -> Iterator[None]:
    """Turns errors of some kinds, LanceDB's, while reading a finished folder into a StoreError."""
    try:
        yield
    except kinds as error:
        remedy = "delete that folder, it is rebuilt by the next run"
        raise _store_error(f"the search index {target} is damaged", error, remedy) from error


def all_rows(folder: Path, table: Table, columns: Sequence[str], where: Sequence[str]) -> list[dict[str, Any]]:
    """Returns every row of a folder's table that meets all conditions, in no particular order. Raises StoreError."""
    with reading(folder):
        query = table.search().where(" AND ".join(where)).select(list(columns)).limit(None)
        rows: list[dict[str, Any]] = query.to_list()
        return rows


def _store_error(problem: str, error: Exception, remedy: str) -> StoreError:
    if isinstance(error, StoreError):
        return error
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return StoreError(f"{problem} ({reason[:200]}): {remedy}")
