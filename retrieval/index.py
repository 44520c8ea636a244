"""An index on disk: built once per corpus and encoders, found again by its content's hash, complete or absent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from actors.messages import Kind, Source
from retrieval.embed import Encoder, Vectors, well_formed, words_of
from retrieval.encoders import Encoders
from retrieval.folder import Marks, Unbuilt, built, opened
from retrieval.lance import connect

if TYPE_CHECKING:
    from lancedb.table import Table

Corpus = Callable[[], Iterator[Source]]

LAYOUT = "1"  # changes with the table's columns, so that indexes of another layout are not found
TABLE = "sources"
BATCH_ROWS = 512
IVF_FROM_ROWS = 20_000  # below, an exact scan takes a few milliseconds


@dataclass(frozen=True, slots=True)
class Index:
    """A finished index: its table, with a row for every source, and the folder that may be deleted to be rid of it."""

    table: Table
    folder: Path


def open_index(folder: Path, corpus: Corpus, encoders: Encoders, corpus_key: str | None = None) -> Index:
    """The index of `corpus` under `folder`, built first where it is absent or incomplete.

    Raises:
        StoreError: the folder cannot be written, the disk is full, or a finished index is damaged.
    """
    # LanceDB takes a relative path that starts with "db" for the cloud.
    key = corpus_key or corpus_digest(corpus, encoders.pictures.reads_pictures)
    target = folder.absolute() / index_name(key, encoders)
    built(target, lambda empty: _build(empty, corpus, encoders))
    (table,) = opened(target, {TABLE: "rows"})
    return Index(table, target)


def index_name(corpus_key: str, encoders: Encoders) -> str:
    """Folder name that changes with the corpus, the encoders and the layout of the table."""
    digest = hashlib.blake2b("\x1f".join([corpus_key, encoders.fingerprint, LAYOUT]).encode(), digest_size=12)
    return f"index-{digest.hexdigest()}"


def corpus_digest(corpus: Corpus, with_pictures: bool) -> str:
    """Hash of every field of every source, in order; `with_pictures` adds the size and date of picture files."""
    digest = hashlib.blake2b(digest_size=16)
    for source in corpus():
        fields = [source.id, source.doc, source.kind.value, source.title, source.text, source.image or ""]
        # Not the pixels: the corpus may have gigabytes of them, and this runs at every start.
        if with_pictures and source.image is not None and Path(source.image).is_file():
            stat = Path(source.image).stat()
            fields += [str(stat.st_size), str(stat.st_mtime_ns)]
        digest.update(json.dumps(fields).encode())
    return digest.hexdigest()


def _build(folder: Path, corpus: Corpus, encoders: Encoders) -> Marks:
    reading = _Reading(corpus, encoders)
    # A source has no vector by the encoder that does not see it; LanceDB takes that for bad unless told otherwise.
    bad = "null" if encoders.apart else "error"
    try:
        connection = connect(folder)
        table = connection.create_table(TABLE, reading.batches(), schema=reading.schema, on_bad_vectors=bad)
        add_indexes(table, ("doc",), encoders.columns)
    except (OSError, RuntimeError, ValueError):
        if reading.failure is not None:
            raise Unbuilt(reading.failure) from None
        raise
    return {"rows": table.count_rows(), "encoder": encoders.name, "layout": LAYOUT}


def add_indexes(table: Table, columns: Iterable[str], vectors: Mapping[str, Encoder]) -> None:
    """Indexes a table's `body` for words, `columns` for equality and, where they are many, its `vectors`."""
    from lancedb.index import FTS, BTree, IvfFlat

    rows = table.count_rows()
    # An index cannot be trained on an empty table; searches of one find nothing anyway.
    if rows:
        table.create_index("body", config=FTS())
        for column in columns:
            table.create_index(column, config=BTree())
    for column, encoder in vectors.items():
        filled = table.count_rows(f"{column} IS NOT NULL") if len(vectors) > 1 else rows
        if filled >= IVF_FROM_ROWS and not encoder.late_interaction:  # whose scores such an index only estimates
            table.create_index(column, config=IvfFlat(distance_type="cosine"))


class _Reading:
    """The corpus as Arrow batches, so that no more than one batch is ever in memory."""

    def __init__(self, corpus: Corpus, encoders: Encoders) -> None:
        self.corpus = corpus
        self.encoders = encoders
        self.failure: BaseException | None = None
        text = [pa.field(name, pa.string()) for name in ("id", "doc", "kind", "title", "body", "image")]
        vectors = [pa.field(column, vector_type(encoder)) for column, encoder in encoders.columns.items()]
        self.schema = pa.schema([*text, *vectors])

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
        rows = [(s.id, s.doc, s.kind.value, well_formed(s.title), words_of(s), s.image) for s in chunk]
        columns: list[pa.Array] = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        columns += [self._vectors(column, encoder, chunk) for column, encoder in self.encoders.columns.items()]
        return pa.record_batch(columns, schema=self.schema)

    def _vectors(self, column: str, encoder: Encoder, chunk: list[Source]) -> pa.Array:
        """The vectors of those sources that the column's encoder sees; null for the others."""
        if not self.encoders.apart:
            return vector_column(encoded(encoder, chunk))
        seen = [number for number, source in enumerate(chunk) if self.encoders.column_of(source.kind) == column]
        vectors: list[Any] = [None] * len(chunk)
        if seen:
            for number, vector in zip(seen, encoded(encoder, [chunk[number] for number in seen]), strict=True):
                vectors[number] = vector.astype(np.float32, copy=False)
        # Rows of one vector each, or of several, one array each: as lists, since these may be null.
        rows = [vector if vector is None or vector.ndim == 1 else list(vector) for vector in vectors]
        return pa.array(rows, vector_type(encoder))


def encoded(encoder: Encoder, sources: list[Source]) -> Vectors | list[Vectors]:
    """The vectors of sources, shape (n, dim), or n arrays (m_i, dim) with late interaction.

    Raises ValueError where the encoder gives another shape, or numbers that are not finite.
    """
    vectors = encoder.encode_sources(sources)
    # With late interaction a source may have any number of vectors but none.
    shapes = {np.shape(of_one)[-1:] if len(of_one) else None for of_one in vectors}
    dims = {np.ndim(of_one) for of_one in vectors}
    if (
        len(vectors) != len(sources)
        or shapes - {(encoder.dim,)}
        or dims - {2 if encoder.late_interaction else 1}
        or not all(np.isfinite(of_one).all() for of_one in vectors)
    ):
        each = "one or more" if encoder.late_interaction else "one"
        raise ValueError(
            f"the encoder {encoder.name} gave {len(vectors)} vectors of another shape, or with numbers that are not "
            f"finite; expected {len(sources)} times {each} of {encoder.dim} numbers: choose another encoder"
        )
    return vectors


def vector_type(encoder: Encoder) -> pa.DataType:
    one = pa.list_(pa.float32(), encoder.dim)
    return pa.list_(one) if encoder.late_interaction else one


def vector_column(vectors: Vectors | list[Vectors]) -> pa.Array:
    stacked = np.concatenate(vectors) if isinstance(vectors, list) else vectors
    flat = pa.array(stacked.astype(np.float32, copy=False).ravel())
    column = pa.FixedSizeListArray.from_arrays(flat, stacked.shape[1])
    if not isinstance(vectors, list):
        return column
    starts = np.cumsum([0, *(len(part) for part in vectors)])
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), column)


def source_of(row: Mapping[str, Any]) -> Source:
    """The source that a row was made from; its text is what follows the title in `body`."""
    title, text = row["title"], row["body"][len(row["title"]) + 1 :]
    return Source(row["id"], row["doc"], Kind(row["kind"]), title, text, row["image"])
