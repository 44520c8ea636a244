"""Folders of LanceDB tables, built once: complete or absent. A build that is interrupted or killed is continued."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from actors.errors import StoreError
from actors.file_locks import file_lock

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

MARKER = "complete.json"
WRITE_REMEDY = "free some disk space, or choose a folder that can be written"
BATCHES = 16  # per write, each of which makes a file

BROKEN = (OSError, RuntimeError)  # what LanceDB raises for files that are not whole

Marks = Mapping[str, str | int]
# Yields the rows of a table without the ones whose ids are given.
Rows = Callable[[Set[str]], Iterator[pa.RecordBatch]]


def connect(folder: Path) -> DBConnection:
    """Opens the tables of a folder. Imports LanceDB, which takes seconds, with the first folder."""
    import lancedb

    return lancedb.connect(folder)


def built(target: Path, build: Callable[[Path], Marks]) -> Path:
    """Returns `target`, after `build` has filled it where it is absent or incomplete.

    Concurrent processes wait for one of them to build the folder. `build` writes to another folder, which is renamed
    when it is complete, and returns the content of the marker file. After an interruption or a kill the next `build`
    gets the folder with everything that was written. Raises StoreError where the folder cannot be written, and errors
    of the corpus or the encoder, which `write_table` raises as `Unbuilt`, unchanged.
    """
    if (target / MARKER).exists():
        return target

    held = ExitStack()
    unfinished = target.with_name(f"{target.name}.building")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Outside of the folder, which may be deleted under the lock.
        held.enter_context(file_lock(target.with_name(f"{target.name}.lock")))
    except OSError as error:
        raise _store_error(f"the search index {target} cannot be written", error, WRITE_REMEDY) from error

    try:
        if not (target / MARKER).exists():  # another process may have built it
            shutil.rmtree(target, ignore_errors=True)  # without a marker it was never complete
            marks = build(unfinished)
            (unfinished / MARKER).write_text(json.dumps(dict(marks)))
            unfinished.rename(target)
    except Exception as error:
        # Not after an interruption: its rows are continued.
        shutil.rmtree(unfinished, ignore_errors=True)
        if isinstance(error, Unbuilt):
            raise error.failure from None
        if isinstance(error, (OSError, RuntimeError, ValueError)):
            raise _store_error(f"the search index {target} cannot be built", error, WRITE_REMEDY) from error
        raise
    finally:
        held.close()

    return target


class Unbuilt(Exception):
    """Carries an error of the corpus or the encoder, which is none of the folder, out of its building."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(str(failure))
        self.failure = failure


def write_table(connection: DBConnection, name: str, schema: pa.Schema, rows: Rows, *, nulls: bool = False) -> Table:
    """Writes a table a few batches at a time, after the rows of an interrupted build.

    rows: have an `id`. nulls: a row may lack a vector. Raises errors of `rows` as Unbuilt.
    """
    table, stored_ids = _begun(connection, name, schema)
    written_rows = table.count_rows()
    new_batches = rows(stored_ids)
    on_missing_vector: Literal["null", "error"] = "null" if nulls else "error"

    def add(batches: list[pa.RecordBatch]) -> None:
        table.add(pa.Table.from_batches(batches, schema), on_bad_vectors=on_missing_vector)

    while True:
        # Not one stream into LanceDB, which would wrap errors, and deadlock where the batches are read from LanceDB.
        chunk: list[pa.RecordBatch] = []
        try:
            chunk.extend(islice(new_batches, BATCHES))
        except Exception as error:
            raise Unbuilt(error) from None
        except BaseException:
            # Interrupted: an encoder may have taken minutes for these rows.
            add(chunk)
            raise
        if not chunk:
            break
        add(chunk)
        written_rows += sum(batch.num_rows for batch in chunk)

    # An interrupted process may have written its last rows while this one began.
    if table.count_rows() != written_rows:
        raise ValueError(f"{table.count_rows()} rows where {written_rows} were written")
    return table


def _begun(connection: DBConnection, name: str, schema: pa.Schema) -> tuple[Table, set[str]]:
    """Opens the table of an interrupted build, or creates it. Returns it with the ids of its rows."""
    mode: Literal["create", "overwrite"] = "create"
    if name in connection.list_tables().tables:
        mode = "overwrite"
        try:
            table = connection.open_table(name)
            ids = table.search().select(["id"]).limit(None).to_arrow()["id"].to_pylist()
        except (*BROKEN, ValueError):
            pass  # killed at its first write
        else:
            return table, set(ids)
    return connection.create_table(name, schema=schema, mode=mode), set()


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
