"""An index on disk: built once per corpus and encoder, found again by content hash, whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from filelock import FileLock
from lancedb.index import FTS, BTree, IvfFlat
from lancedb.table import Table

from actors.messages import Kind, Source
from retrieval.embed import Encoder, well_formed, words_of

Corpus = Callable[[], Iterator[Source]]

LAYOUT = "1"
TABLE = "sources"
MARKER = "complete.json"
BATCH_ROWS = 512
IVF_FROM_ROWS = 20_000  # below, an exact scan takes a few milliseconds


class StoreError(OSError):
    """The index cannot be built or read; the one-line message names the folder and the remedy."""


@dataclass(frozen=True, slots=True)
class Index:
    """A finished index: its table, with a row for every source, and the folder that may be deleted to be rid of it."""

    table: Table
    folder: Path


def open_index(folder: Path, corpus: Corpus, encoder: Encoder, corpus_key: str | None = None) -> Index:
    """The index of `corpus` under `folder`, built first when it is not there, or not whole.

    Processes that need the same index at once wait for one of them to build it. A build goes to a folder of its own
    that is renamed when all is written, so that a killed one leaves nothing that could pass for an index.

    Raises:
        StoreError: the folder cannot be written, the disk is full, or a finished index is damaged.
    """
    # LanceDB takes a relative path that starts with "db" for the cloud.
    home = folder.absolute()
    target = home / index_name(corpus_key or corpus_digest(corpus, encoder.reads_pictures), encoder)
    if not (target / MARKER).exists():
        lock = FileLock(home / f"{target.name}.lock")
        try:
            home.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except OSError as error:
            raise _cannot(f"the search index {target} cannot be written", error, WRITE_REMEDY) from error
        try:
            if not (target / MARKER).exists():
                _build(target, corpus, encoder)
        finally:
            lock.release()
    return _opened(target)


def index_name(corpus_key: str, encoder: Encoder) -> str:
    """Folder name that changes with the corpus, the encoder and the layout of the table."""
    digest = hashlib.blake2b("\x1f".join([corpus_key, encoder.fingerprint, LAYOUT]).encode(), digest_size=12)
    return f"index-{digest.hexdigest()}"


def corpus_digest(corpus: Corpus, with_pictures: bool) -> str:
    """Hash of every field of every source, in order; `with_pictures` adds the size and date of picture files."""
    digest = hashlib.blake2b(digest_size=16)
    for source in corpus():
        fields = [source.id, source.doc, source.kind.value, source.title, source.text, source.image or ""]
        if with_pictures and source.image is not None and Path(source.image).is_file():
            stat = Path(source.image).stat()
            fields += [str(stat.st_size), str(stat.st_mtime_ns)]
        digest.update(json.dumps(fields).encode())
    return digest.hexdigest()


def _build(target: Path, corpus: Corpus, encoder: Encoder) -> None:
    half_built = target.with_name(f"{target.name}.building")
    for leftover in (half_built, target):  # a target without a marker was never whole
        shutil.rmtree(leftover, ignore_errors=True)
    reading = _Reading(corpus, encoder)
    try:
        table = lancedb.connect(half_built).create_table(TABLE, reading.batches(), schema=reading.schema)
        rows = table.count_rows()
        # An index cannot be trained on an empty table; searches of one find nothing anyway.
        if rows:
            table.create_index("body", config=FTS())
            table.create_index("doc", config=BTree())
        if rows >= IVF_FROM_ROWS:
            table.create_index("vector", config=IvfFlat(distance_type="cosine"))
        (half_built / MARKER).write_text(json.dumps({"rows": rows, "encoder": encoder.name, "layout": LAYOUT}))
        half_built.rename(target)
    except (OSError, RuntimeError, ValueError) as error:
        shutil.rmtree(half_built, ignore_errors=True)
        if reading.failure is not None:  # the corpus or the encoder failed, which LanceDB reports as its own error
            raise reading.failure from None
        raise _cannot(f"the search index {target} cannot be built", error, WRITE_REMEDY) from error


class _Reading:
    """The corpus as Arrow batches, so that no more than one batch is ever in memory."""

    def __init__(self, corpus: Corpus, encoder: Encoder) -> None:
        self.corpus = corpus
        self.encoder = encoder
        self.failure: BaseException | None = None
        text = [pa.field(name, pa.string()) for name in ("id", "doc", "kind", "title", "body", "image")]
        self.schema = pa.schema([*text, pa.field("vector", pa.list_(pa.float32(), encoder.dim))])

    def batches(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            sources = self.corpus()
            while chunk := list(islice(sources, BATCH_ROWS)):
                yield self._batch(chunk)
        except BaseException as error:
            self.failure = error
            raise

    def _batch(self, chunk: list[Source]) -> pa.RecordBatch:
        vectors = self.encoder.encode_sources(chunk)
        if vectors.shape != (len(chunk), self.encoder.dim) or not np.isfinite(vectors).all():
            raise ValueError(
                f"the encoder {self.encoder.name} gave an array of shape {vectors.shape} or numbers that are not "
                f"finite; expected {(len(chunk), self.encoder.dim)}: choose another encoder"
            )
        rows = [(s.id, s.doc, s.kind.value, well_formed(s.title), words_of(s), s.image) for s in chunk]
        columns: list[pa.Array] = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        flat = pa.array(vectors.astype(np.float32, copy=False).ravel())
        columns.append(pa.FixedSizeListArray.from_arrays(flat, self.encoder.dim))
        return pa.record_batch(columns, schema=self.schema)


def source_of(row: Mapping[str, Any]) -> Source:
    """The source that a row was made from; its text is what follows the title in `body`."""
    title, text = row["title"], row["body"][len(row["title"]) + 1 :]
    return Source(row["id"], row["doc"], Kind(row["kind"]), title, text, row["image"])


def _opened(target: Path) -> Index:
    try:
        table = lancedb.connect(target).open_table(TABLE)
        expected = json.loads((target / MARKER).read_text())["rows"]
        if table.count_rows() != expected:
            raise ValueError(f"{table.count_rows()} of {expected} rows")
        return Index(table, target)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise damaged(target, error) from error


WRITE_REMEDY = "free some disk space, or choose a folder that can be written"


def damaged(target: Path, error: Exception) -> StoreError:
    """What is said of a finished index that cannot be read."""
    return _cannot(f"the search index {target} is damaged", error, "delete that folder, it is rebuilt by the next run")


def _cannot(what: str, error: Exception, remedy: str) -> StoreError:
    if isinstance(error, StoreError):
        return error
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return StoreError(f"{what} ({reason[:200]}): {remedy}")
